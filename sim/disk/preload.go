package disk

import (
	"fmt"
	"time"
)

// preload is the content of a file that was there before the world began.
type preload struct {
	fill func(p []byte, offset int64)
	far  map[int64]*extent // by number: those that were in the page cache once
}

// Preload puts a file on the disk, in the place of one that has the name, as if it had been written and synced long ago: it is durable and not in the page cache. Its bytes cost no memory: fill
// writes those of a range whenever they are asked for, always the same ones. It can be read, renamed and removed; a program that changes its bytes panics, but an empty one is like any file. The directory must be there.
// For benchmarks on large data.
func (m *Model) Preload(name string, size int64, now time.Time, fill func(p []byte, offset int64)) error {
	d, base, err := m.locate(clean(name))
	if err != nil {
		return err
	}
	if old := d.entries[base]; old != nil {
		m.remove(old)
	}
	n := m.make(d, base, false)
	if size > 0 {
		n.preload = &preload{fill: fill, far: map[int64]*extent{}}
	}
	n.size, n.synced, n.cut, n.mtime, n.syncedTime = size, size, size, now, now
	n.blocks = n.pages()
	m.used += n.blocks
	m.syncDir(d, m.pendingSeq)
	return nil
}

// Warm brings a preloaded file into the page cache, as if it had just been read.
func (m *Model) Warm(name string) error {
	n, err := m.lookup(clean(name))
	if err != nil {
		return err
	}
	for i := range (n.size + extentBytes - 1) / extentBytes {
		m.touch(n.reach(i))
	}
	m.shrink()
	return nil
}

// RemoveAll removes what is in a directory, durably.
func (m *Model) RemoveAll(dir string) error {
	d, err := m.lookup(clean(dir))
	if err != nil {
		return err
	}
	for len(d.names) > 0 {
		n := d.entries[d.names[0]]
		if n.dir {
			if err := m.RemoveAll(n.path); err != nil {
				return err
			}
		}
		m.remove(n)
	}
	m.syncDir(d, m.pendingSeq)
	return nil
}

// immutable panics when the bytes of a preloaded file would change.
func (n *node) immutable() {
	if n.preload != nil {
		panic(fmt.Sprintf("disk: %s was preloaded: it can be read and removed, but not changed", n.path))
	}
}

// at is an extent of the file, nil if there is none.
func (n *node) at(i int64) *extent {
	switch {
	case n.preload != nil:
		return n.preload.far[i]
	case i < int64(len(n.extents)):
		return n.extents[i]
	}
	return nil
}

// reach is an extent of the file, made if there is none.
func (n *node) reach(i int64) *extent {
	if n.preload == nil {
		n.slot(i * extentPages)
		return n.extents[i]
	}
	e := n.preload.far[i]
	if e == nil {
		e = &extent{node: n}
		n.preload.far[i] = e
	}
	return e
}
