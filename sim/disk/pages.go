package disk

import "sync"

// A slab is memory for pages. Those of a disk that nobody needs any more serve the next one, of another world: the pages of a run are most of what it allocates.
const (
	firstSlab = 4
	slabPages = 32
	keepSlabs = 2048 // 256 MiB
)

// spare are slabs of released disks. What is in them decides nothing: who takes a page writes all of it.
var spare struct {
	sync.Mutex
	slabs [][]page
}

// newPage returns a page with anything in it.
func (m *Model) newPage() *page {
	if len(m.free) == 0 {
		m.addSlab()
	}
	p := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return p
}

func (m *Model) freePage(p *page) {
	if p != nil {
		m.free = append(m.free, p)
	}
}

// addSlab brings more pages: few for a disk with little on it, many later.
func (m *Model) addSlab() {
	m.slab = min(max(2*m.slab, firstSlab), slabPages)
	var slab []page
	if m.slab == slabPages {
		slab = takeSlab()
		m.slabs = append(m.slabs, slab)
	} else {
		slab = make([]page, m.slab)
	}
	for i := range slab {
		m.free = append(m.free, &slab[i])
	}
}

func takeSlab() []page {
	spare.Lock()
	defer spare.Unlock()
	last := len(spare.slabs) - 1
	if last < 0 {
		return make([]page, slabPages)
	}
	slab := spare.slabs[last]
	spare.slabs = spare.slabs[:last]
	return slab
}

// Release gives the memory of a disk back that nobody uses any more: its world is closed, and nobody looks at its files. Any use afterwards panics.
func (m *Model) Release() {
	spare.Lock()
	defer spare.Unlock()
	keep := min(len(m.slabs), keepSlabs-len(spare.slabs))
	spare.slabs = append(spare.slabs, m.slabs[:keep]...)
	m.slabs, m.free, m.root = nil, nil, nil
}
