package disk

import (
	"math/rand/v2"
	"time"
)

// Geometry of the device.
const (
	PageBytes   = 4096
	SectorBytes = 512

	extentPages = 16
	extentBytes = extentPages * PageBytes
)

type page [PageBytes]byte

var zeroPage page

// slot is a page of a file in both states.
type slot struct {
	cur    *page   // cached; nil: zeros
	old    *page   // durable, when unsynced is set; nil: zeros
	flight *flight // the Sync in flight that captured cur as it is; nil: none, or it has its own copy by now
	at     int32   // index in flight.pages
	flags  uint8
}

const (
	unsynced uint8 = 1 << iota // cur is not promised; otherwise it is both states
	listed                     // in node.dirty: the next Sync takes it
	orphan                     // a failed Sync took it for clean: no Sync takes it until it is written again
)

func (s *slot) durable() *page {
	if s.flags&unsynced != 0 {
		return s.old
	}
	return s.cur
}

// extent is the unit of caching: 16 pages that are resident together.
type extent struct {
	slots      [extentPages]slot
	node       *node
	prev, next *extent // in Model.lru when resident
	ready      time.Duration
	resident   bool
}

// node is a file or directory.
type node struct {
	dir  bool
	key  string // names its random streams: path at birth and how many were born there before
	path string // cached path; the last one when unlinked

	parent *node // in the cached tree; nil: unlinked
	name   string
	kept   *node // the directory that holds it in the durable tree; nil: none
	keptAs string
	refs   int // cached link, durable link, pending changes, open handles
	opens  int
	live   bool // linked or open: counts for the space used

	// Directory.
	entries map[string]*node
	names   []string // of entries, sorted
	durable map[string]*node

	// File.
	size, synced      int64 // cached and durable length
	cut               int64 // smallest length since the durable state
	mtime, syncedTime time.Time
	extents           []*extent
	dirty             []int32 // listed pages in the order of their first change
	written           int     // dirty[:written] are written back
	queued            bool    // in Model.queue
	flights           []*flight
	blocks            int64 // pages with cached bytes
	nextRead          int64 // where a sequential reader would go on
	split, luck       *rand.Rand
	patches           map[int64]*patch // by sector: the overlay of rot and misdirected writes
	preload           *preload         // nil: its bytes are in pages
}

// peekSlot is the slot of a page; nil when there never was one.
func (n *node) peekSlot(pg int64) *slot {
	if e := pg / extentPages; e < int64(len(n.extents)) {
		return &n.extents[e].slots[pg%extentPages]
	}
	return nil
}

func (n *node) slot(pg int64) *slot {
	e := pg / extentPages
	for int64(len(n.extents)) <= e {
		n.extents = append(n.extents, &extent{node: n})
	}
	return &n.extents[e].slots[pg%extentPages]
}

// detach readies a slot for a change of its cached bytes: what a Sync in flight captured and what is durable is put
// aside. It reports whether s.cur now belongs to somebody else.
func (m *Model) detach(n *node, s *slot, pg int64) bool {
	shared := false
	switch {
	case s.flight != nil:
		c := &s.flight.pages[s.at]
		c.saved, c.image = true, s.cur
		s.flight = nil
		shared = true
	case s.flags&unsynced == 0:
		s.old = s.cur
		s.flags |= unsynced
		shared = true
	}
	if s.flags&listed == 0 {
		s.flags |= listed
		n.dirty = append(n.dirty, int32(pg))
		m.dirtyPages++
		m.enqueue(n)
	}
	s.flags &^= orphan
	return shared
}

// writable returns a page's bytes for a change. whole: the caller writes all of them, so the old ones need not be copied.
func (m *Model) writable(n *node, pg int64, whole bool) *page {
	s := n.slot(pg)
	shared := m.detach(n, s, pg)
	if !shared && s.cur != nil {
		return s.cur
	}
	fresh := m.newPage()
	if s.cur == nil {
		n.blocks++
		m.used++ // only live files are written
		if !whole {
			*fresh = page{}
		}
	} else if !whole {
		*fresh = *s.cur
	}
	s.cur = fresh
	return fresh
}

// write puts p at the offset of the cached file.
func (m *Model) write(n *node, p []byte, offset int64) {
	n.immutable()
	end := offset + int64(len(p))
	if n.patches != nil {
		n.unpatch(offset, end)
	}
	for len(p) > 0 {
		in := int(offset % PageBytes)
		k := min(PageBytes-in, len(p))
		copy(m.writable(n, offset/PageBytes, k == PageBytes)[in:], p[:k])
		p = p[k:]
		offset += int64(k)
	}
	n.size = max(n.size, end)
}

// read fills p from the cached or durable state. The range must lie inside that state's length.
func (n *node) read(p []byte, offset int64, durable bool) {
	if n.preload != nil {
		n.preload.fill(p, offset)
		return
	}
	for len(p) > 0 {
		in := int(offset % PageBytes)
		k := min(PageBytes-in, len(p))
		var src *page
		if s := n.peekSlot(offset / PageBytes); s != nil {
			src = s.cur
			if durable {
				src = s.durable()
			}
		}
		if src == nil {
			src = &zeroPage
		}
		copy(p[:k], src[in:])
		p = p[k:]
		offset += int64(k)
	}
}

// truncate sets the cached length. Bytes past it are zeros from then on.
func (m *Model) truncate(n *node, size int64) {
	if size == n.size && n.preload != nil {
		return
	}
	n.immutable()
	if size < n.size {
		if n.patches != nil {
			n.unpatch(size, n.size)
		}
		if in := size % PageBytes; in != 0 {
			if s := n.peekSlot(size / PageBytes); s != nil && s.cur != nil {
				clear(m.writable(n, size/PageBytes, false)[in:])
			}
		}
		for pg := (size + PageBytes - 1) / PageBytes; pg*PageBytes < n.size; pg++ {
			s := n.peekSlot(pg)
			if s == nil {
				break
			}
			if s.cur == nil {
				continue
			}
			if !m.detach(n, s, pg) {
				m.freePage(s.cur)
			}
			s.cur = nil
			n.blocks--
			m.used--
		}
	}
	n.size = size
	n.cut = min(n.cut, size)
	for _, fl := range n.flights {
		fl.cut = min(fl.cut, size)
	}
}

// room is how many of the bytes a write may land before the disk is full.
func (m *Model) room(n *node, offset int64, want int) int {
	limit, by := m.capacity()
	if limit < 0 {
		return want
	}
	spare := limit/PageBytes - m.used
	for pg := offset / PageBytes; pg*PageBytes < offset+int64(want); pg++ {
		if s := n.peekSlot(pg); s != nil && s.cur != nil {
			continue
		}
		if spare <= 0 {
			fits := max(pg*PageBytes-offset, 0)
			if by != nil {
				by.hit(Hit{At: m.world.Now(), Op: OpWrite, Path: n.path, From: int64(want), To: fits})
			}
			return int(fits)
		}
		spare--
	}
	return want
}

// unref drops a reference; a file that nothing can reach any more gives its pages back.
func (m *Model) unref(n *node) {
	n.refs--
	if n.refs > 0 || n.dir {
		return
	}
	if n.preload != nil {
		for i := range (n.size + extentBytes - 1) / extentBytes {
			if e := n.at(i); e != nil {
				m.drop(e)
			}
		}
		n.preload.far = nil
	}
	for _, e := range n.extents {
		m.drop(e)
		for i := range e.slots {
			s := &e.slots[i]
			m.freePage(s.cur)
			if s.flags&unsynced != 0 {
				m.freePage(s.old)
			}
		}
	}
	n.extents, n.dirty, n.written = nil, nil, 0
}

// closed takes note that one handle less is open.
func (m *Model) closed(n *node) {
	n.opens--
	m.weigh(n)
	m.unref(n)
}

// weigh keeps the account of space: files that are linked or open have it, others lost it together with the
// duty of being written back.
func (m *Model) weigh(n *node) {
	live := n.parent != nil || n.opens > 0
	if live == n.live || n.dir {
		return
	}
	n.live = live
	if live {
		m.used += n.blocks
		return
	}
	m.used -= n.blocks
	m.dirtyPages -= int64(len(n.dirty) - n.written)
	n.written = len(n.dirty)
}
