package disk

import (
	"fmt"
	"io"
	"io/fs"
)

// FileView shows a file to an oracle. Looking causes no event, costs no time and ignores injected faults. It is
// valid until the world goes on.
type FileView struct {
	Path   string // the last one, when the file is unlinked by now
	Size   int64  // cached length
	Synced int64  // durable length: that of the last Sync that succeeded, or what a power loss left

	m     *Model
	n     *node
	named int64 // m.named when it was made
}

// EntryDurable tells whether the file is sure to be found under its path after a power loss.
func (v FileView) EntryDurable() bool { return v.m.entryDurable(v.n) }

// IsDir tells whether this is a directory; views of directories come only with events.
func (v FileView) IsDir() bool { return v.n.dir }

// ReadAt reads the cached bytes, as a process would see them. It implements io.ReaderAt.
func (v FileView) ReadAt(p []byte, offset int64) (int, error) {
	return v.read(p, offset, v.n.size, false)
}

// ReadSyncedAt reads the durable bytes: those that are promised to survive a power loss, whatever becomes of the
// file's entry. It has the contract of io.ReaderAt.
func (v FileView) ReadSyncedAt(p []byte, offset int64) (int, error) {
	return v.read(p, offset, v.n.synced, true)
}

func (v FileView) read(p []byte, offset, size int64, durable bool) (int, error) {
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	k := int(max(min(int64(len(p)), size-offset), 0))
	v.n.read(p[:k], offset, durable)
	if k < len(p) {
		return k, io.EOF
	}
	return k, nil
}

// Files shows all files that processes can find, sorted by path.
func (m *Model) Files() []FileView {
	var list []FileView
	var walk func(n *node)
	walk = func(n *node) {
		if !n.dir {
			list = append(list, m.view(n))
		}
		for _, name := range n.names {
			walk(n.entries[name])
		}
	}
	walk(m.root)
	return list
}

// File shows the file at a path.
func (m *Model) File(name string) (FileView, bool) {
	n, err := m.lookup(clean(name))
	if err != nil || n.dir {
		return FileView{}, false
	}
	return m.view(n), true
}

// Again is File of the path that a view is of: what it shows now. It looks for the file only when some name on the disk has changed since.
func (m *Model) Again(v FileView, name string) (FileView, bool) {
	if v.m == m && v.named == m.named {
		return m.view(v.n), true
	}
	return m.File(name)
}

// Used is the space in use, in bytes.
func (m *Model) Used() int64 { return m.used * PageBytes }

func (m *Model) view(n *node) FileView {
	return FileView{Path: n.path, Size: n.size, Synced: n.synced, m: m, n: n, named: m.named}
}

// EventKind says what an Event tells.
type EventKind uint8

const (
	Created        EventKind = iota + 1 // a file is there, empty
	Removed                             // a file or directory is about to lose its name: by Remove, or because another takes its place
	Renamed                             // about to move to To
	Truncated                           // about to be cut or extended to Size
	Synced                              // a Sync succeeded
	DirSynced                           // a SyncDir succeeded; File is the directory
	ProcessCrashed                      // about to happen; no File
	PowerLost                           // about to happen; no File
	Wiped                               // about to happen; no File
)

var kindNames = [...]string{"", "created", "removed", "renamed", "truncated", "synced", "dir-synced", "process-crashed", "power-lost", "wiped"}

func (k EventKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event tells an observer what happens to the disk, at the moment when it does.
type Event struct {
	Kind EventKind
	File FileView
	To   string // Renamed: the new path
	Size int64  // Truncated: the new length
}

// Observe sets the function that is called at every event; nil: none. It must not change the disk.
func (m *Model) Observe(fn func(Event)) { m.observe = fn }

func (m *Model) notify(e Event) {
	if m.observe != nil {
		m.observe(e)
	}
}

func (m *Model) notifyFile(kind EventKind, n *node, to string, size int64) {
	if m.observe != nil {
		m.observe(Event{Kind: kind, File: m.view(n), To: to, Size: size})
	}
}
