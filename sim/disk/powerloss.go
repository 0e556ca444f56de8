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
	m.settleEntries(m.entryDice(stream))
	m.pending, m.handles, m.queue, m.dirtyPages, m.used = nil, nil, nil, 0, 0
	m.dropCache()
	m.forgetHeld()
	m.settleTree(m.root, m.fileDice(stream))
}

// entryDice draws whether a change of entries survives. nth is how many changes of its node there were up to it, so that those of
// others shift nothing.
func (m *Model) entryDice(stream func(purpose, entity string) *rand.Rand) func(c *change, nth int) bool {
	return func(c *change, nth int) bool {
		key := fmt.Sprintf("%s/%s/%d@%d", m.name, c.node.key, nth, m.losses)
		return stream("disk/power-loss/entry", key).IntN(2) == 0
	}
}

// fileDice draws the fate of files.
func (m *Model) fileDice(stream func(purpose, entity string) *rand.Rand) func(n *node) fate {
	return func(n *node) fate {
		d := &dice{draw: stream("disk/power-loss/file", fmt.Sprintf("%s/%s@%d", m.name, n.key, m.losses))}
		d.isOld = d.draw.IntN(2) == 0
		d.luck = []int{0, 1, 4, 7, 8}[d.draw.IntN(5)]
		return d
	}
}

// A fate takes the decisions of a power loss about one file. The rules, and the order in which they ask, are settleFile's; dice
// draw the answers, an odometer (outcomes.go) goes through all of them.
type fate interface {
	old() bool                         // the modification time is that of the last Sync
	cut() bool                         // the unsynced truncation happened
	length(from, to int64) int64       // the length of a file that grew: either, or a multiple of SectorBytes between
	version(n int) int                 // which of a page's n newer versions the device was given
	sectors(durable, newer *page) uint // which sectors of it reached the device: a bit each; nil is a page of zeros
}

const allSectors = 1<<(PageBytes/SectorBytes) - 1

// dice is the fate that is drawn.
type dice struct {
	draw  *rand.Rand
	isOld bool
	luck  int // how much of the file survives: everything or nothing is as likely as a mixture
}

func (d *dice) old() bool         { return d.isOld }
func (d *dice) cut() bool         { return d.draw.IntN(2) == 0 }
func (d *dice) version(n int) int { return d.draw.IntN(n) }

func (d *dice) length(from, to int64) int64 {
	switch steps := lengthsBetween(from, to); {
	case d.draw.IntN(3) == 0:
		return from
	case steps == 0 || d.draw.IntN(2) == 0:
		return to
	default:
		return lengthBetween(from, d.draw.Int64N(steps))
	}
}

func (d *dice) sectors(durable, newer *page) uint {
	if d.draw.IntN(8) >= d.luck {
		return 0
	}
	if d.luck == 8 || d.draw.IntN(4) > 0 || newer == durable {
		return allSectors
	}
	return uint(d.draw.IntN(allSectors + 1))
}

// lengthsBetween is how many multiples of a sector lie between two lengths; lengthBetween is the i-th of them.
func lengthsBetween(from, to int64) int64 { return (to-1)/SectorBytes - from/SectorBytes }
func lengthBetween(from, i int64) int64   { return (from/SectorBytes + 1 + i) * SectorBytes }

// settleEntries makes the surviving changes of entries in the durable tree, in their order.
func (m *Model) settleEntries(happened func(c *change, nth int) bool) {
	nth := map[*node]int{}
	for _, c := range m.pending {
		nth[c.node]++
		if happened(c, nth[c.node]) {
			m.apply(c)
		}
	}
}

// settleTree makes the durable tree below a directory the cached one too.
func (m *Model) settleTree(d *node, fates func(*node) fate) {
	m.named++
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
			m.settleTree(n, fates)
			continue
		}
		m.settleFile(n, fates(n))
		m.used += n.blocks
	}
}

// settleFile decides what is left of a file's unsynced state.
func (m *Model) settleFile(n *node, f fate) {
	if n.preload != nil {
		return
	}
	if f.old() {
		n.mtime = n.syncedTime
	}
	cut, truncated := min(n.cut, n.synced), true
	if cut < n.synced {
		truncated = f.cut()
	}
	size, below := n.size, int64(len(n.extents))*extentPages
	switch {
	case !truncated:
		size, below = n.synced, cut/PageBytes
	case size > cut:
		size = f.length(cut, size)
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
					if i := f.version(len(more) + 1); i < len(more) {
						s.cur = more[i]
					}
				}
				m.settlePage(s, f.sectors(s.old, s.cur))
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

// settlePage ends a page with some sectors of the newer version and the others of the durable one.
func (m *Model) settlePage(s *slot, kept uint) {
	newer := s.cur
	switch kept {
	case 0:
		s.cur = s.old
		m.freePage(newer)
		return
	case allSectors:
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
	for i := range PageBytes / SectorBytes {
		if kept&(1<<i) == 0 {
			copy(newer[i*SectorBytes:(i+1)*SectorBytes], torn[i*SectorBytes:])
		}
	}
	m.freePage(s.old)
}
