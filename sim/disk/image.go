package disk

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Image is the content of a disk: the tree of names and the bytes of the files, without times. Images of equal content are equal: compare them
// with ==, use them as map keys. The zero value is an empty disk.
type Image struct {
	form string // canonical: for each entry in the order of a walk, its path and, of a file, its bytes, each behind its length
}

// ImageEntry is a file or directory of an image.
type ImageEntry struct {
	Path    string
	Dir     bool
	Content string
}

// Entries lists files and directories; a directory comes before what is in it, names are sorted.
func (i Image) Entries() (list []ImageEntry) {
	for rest := i.form; rest != ""; {
		var e ImageEntry
		e.Path, rest = field(rest)
		var kind string
		kind, rest = field(rest)
		if e.Dir = kind == "d"; !e.Dir {
			e.Content, rest = field(rest)
		}
		list = append(list, e)
	}
	return list
}

// field splits off bytes behind their length.
func field(s string) (value, rest string) {
	n, k := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	return s[k : k+int(n)], s[k+int(n):]
}

// String shows an image in one line: directories end with a slash, files have their bytes as runs: f[a512 .88] is 512 times a and 88 zeros.
func (i Image) String() string {
	var parts []string
	for _, e := range i.Entries() {
		if e.Dir {
			parts = append(parts, e.Path+"/")
			continue
		}
		parts = append(parts, fmt.Sprintf("%s[%s]", e.Path, showRuns(e.Content)))
	}
	return strings.Join(parts, " ")
}

// showRuns shows bytes as runs, or by length and hash when there are many.
func showRuns(s string) string {
	const most = 32
	var out []string
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		switch c := s[i]; {
		case c == 0:
			out = append(out, fmt.Sprintf(".%d", j-i))
		case c > ' ' && c < 0x7f && c != '.' && c != '\\':
			out = append(out, fmt.Sprintf("%c%d", c, j-i))
		default:
			out = append(out, fmt.Sprintf("\\%02x*%d", c, j-i))
		}
		if i = j; len(out) > most {
			return fmt.Sprintf("%d bytes, hash %016x", len(s), xxhash.Sum64String(s))
		}
	}
	return strings.Join(out, " ")
}

// Mount returns a new disk with this content, all of it durable, and a cold cache.
func (i Image) Mount(name string, cfg Config) *Model {
	m := New(name, cfg)
	m.Load(i)
	return m
}

// Load replaces everything on the disk by the image, durably, as if another disk had been put in. Call it while no process is attached.
func (m *Model) Load(i Image) {
	m.Wipe()
	for _, e := range i.Entries() {
		d, name, err := m.locate(e.Path)
		if err != nil {
			panic(fmt.Sprintf("disk: an image with %s but no directory for it", e.Path))
		}
		n := m.make(d, name, e.Dir)
		if n.dir || e.Content == "" {
			continue
		}
		m.write(n, []byte(e.Content), 0)
		m.land(m.capture(n, 0))
		n.mtime, n.syncedTime = time.Time{}, time.Time{}
	}
	m.settle(m.pending, nil)
	m.queue, m.dirtyPages, m.dev = nil, 0, device{}
}

// Image is what processes can find on the disk now, by its true bytes.
func (m *Model) Image() Image {
	var b imageBuilder
	var walk func(n *node)
	walk = func(n *node) {
		switch {
		case n == m.root:
		case n.dir:
			b.dir(n.path)
		default:
			p := make([]byte, n.size)
			n.read(p, 0, false)
			b.file(n.path, string(p))
		}
		for _, name := range n.names {
			walk(n.entries[name])
		}
	}
	walk(m.root)
	return b.image()
}

// imageBuilder puts an image together, in the order of a walk.
type imageBuilder struct{ form []byte }

func (b *imageBuilder) field(s string) {
	b.form = append(binary.AppendUvarint(b.form, uint64(len(s))), s...)
}

func (b *imageBuilder) dir(path string) {
	b.field(path)
	b.field("d")
}

func (b *imageBuilder) file(path, content string) {
	b.field(path)
	b.field("f")
	b.field(content)
}

func (b *imageBuilder) image() Image { return Image{string(b.form)} }
