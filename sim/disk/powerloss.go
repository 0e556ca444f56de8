package disk

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// PowerLoss cuts the power: every change that is not durable survives or not, as the package comment says. stream
// gives keyed random streams, as World.Stream does.
func (m *Model) PowerLoss(stream func(purpose, entity string) *rand.Rand) {
	m.notify(Event{Kind: PowerLost})
	m.epoch++
	m.losses++
	nth := map[*node]int{} // of a node's changes, so that those of others shift nothing
	for _, c := range m.pending {
		nth[c.node]++
		key := fmt.Sprintf("%s/%s/%d@%d", m.name, c.node.key, nth[c.node], m.losses)
		if stream("disk/power-loss/entry", key).IntN(2) == 0 {
			m.apply(c)
		}
	}
	m.pending, m.handles, m.queue, m.dirtyPages, m.used = nil, nil, nil, 0, 0
	m.dropCache()
	m.forgetHeld()
	m.settleTree(m.root, func(n *node) *rand.Rand {
		return stream("disk/power-loss/file", fmt.Sprintf("%s/%s@%d", m.name, n.key, m.losses))
	})
}

// settleTree makes the durable tree below a directory the cached one too.
func (m *Model) settleTree(d *node, draws func(*node) *rand.Rand) {
	d.names = d.names[:0]
	for name := range d.durable {
		d.names = append(d.names, name)
	}
	slices.Sort(d.names)
	clear(d.entries)
	for _, name := range d.names {
		n := d.durable[name]
		d.entries[name] = n
		n.parent, n.name = d, name
		n.refs, n.opens, n.live = 2, 0, true
		n.repathSelf()
		if n.dir {
			m.settleTree(n, draws)
			continue
		}
		m.settleFile(n, draws(n))
		m.used += n.blocks
	}
}

// settleFile decides what is left of a file's unsynced state.
func (m *Model) settleFile(n *node, draw *rand.Rand) {
	if draw.IntN(2) == 0 {
		n.mtime = n.syncedTime
	}
	// How much of the rest survives: files of which everything or nothing does are as likely as mixed ones.
	luck := []int{0, 1, 4, 7, 8}[draw.IntN(5)]

	cut, truncated := min(n.cut, n.synced), true
	if cut < n.synced {
		truncated = draw.IntN(2) == 0
	}
	size, below := n.size, int64(len(n.extents))*extentPages
	switch {
	case !truncated:
		size, below = n.synced, cut/PageBytes
	case size > cut:
		size = drawLength(draw, cut, size)
	}

	images := n.images(truncated)
	n.blocks = 0
	for pg := int64(0); pg < int64(len(n.extents))*extentPages; pg++ {
		s := n.peekSlot(pg)
		if s.flags&unsynced != 0 {
			if pg >= below {
				m.freePage(s.cur)
				s.cur = s.old
			} else {
				if truncated && s.old != nil && (pg+1)*PageBytes > cut {
					clear(s.old[max(cut-pg*PageBytes, 0):])
				}
				if more := images[int32(pg)]; len(more) > 0 {
					if i := draw.IntN(len(more) + 1); i < len(more) {
						s.cur = more[i]
					}
				}
				m.settlePage(s, draw, luck)
			}
		}
		*s = slot{cur: s.cur}
		if s.cur != nil {
			if end := size - pg*PageBytes; end <= 0 {
				m.freePage(s.cur)
				s.cur = nil
				continue
			} else if end < PageBytes {
				clear(s.cur[end:])
			}
			n.blocks++
		}
	}
	if n.patches != nil && size < n.size {
		n.unpatch(size, n.size)
	}
	n.size, n.cut, n.synced, n.syncedTime = size, size, size, n.mtime
	n.dirty, n.written, n.queued, n.flights, n.nextRead = n.dirty[:0], 0, false, nil, 0
}

// images are the versions of pages that Syncs in flight have captured and that changed since.
func (n *node) images(truncated bool) map[int32][]*page {
	if len(n.flights) == 0 {
		return nil
	}
	images := map[int32][]*page{}
	for _, fl := range n.flights {
		for _, c := range fl.pages {
			if !c.saved {
				continue
			}
			image := new(page)
			if c.image != nil {
				*image = *c.image
			}
			if from := fl.cut - int64(c.page)*PageBytes; truncated && from < PageBytes {
				clear(image[max(from, 0):])
			}
			images[c.page] = append(images[c.page], image)
		}
	}
	return images
}

// drawLength draws a length between an old and a newer, greater one.
func drawLength(draw *rand.Rand, from, to int64) int64 {
	switch steps := (to-1)/SectorBytes - from/SectorBytes; {
	case draw.IntN(3) == 0:
		return from
	case steps == 0 || draw.IntN(2) == 0:
		return to
	default:
		return (from/SectorBytes + 1 + draw.Int64N(steps)) * SectorBytes
	}
}

// settlePage draws which version of a page reached the device.
func (m *Model) settlePage(s *slot, draw *rand.Rand, luck int) {
	newer := s.cur
	if draw.IntN(8) >= luck {
		s.cur = s.old
		m.freePage(newer)
		return
	}
	if luck == 8 || draw.IntN(4) > 0 || newer == s.old {
		m.freePage(s.old)
		return
	}
	if newer == nil {
		newer = m.newPage()
		*newer = page{}
	}
	s.cur = newer
	torn := s.old
	if torn == nil {
		torn = &zeroPage
	}
	kept := draw.IntN(1 << (PageBytes / SectorBytes))
	for i := range PageBytes / SectorBytes {
		if kept&(1<<i) == 0 {
			copy(newer[i*SectorBytes:(i+1)*SectorBytes], torn[i*SectorBytes:])
		}
	}
	m.freePage(s.old)
}
