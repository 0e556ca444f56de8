package disk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrTooMany: more disks may be left than was asked for.
var ErrTooMany = errors.New("too many outcomes")

// Outcomes is the set of disks that a power loss at this moment may leave, each once, in the order of their canonical form. It takes every
// decision that PowerLoss draws, by the same rules, in every way, and changes nothing. Faults in force do not show: it is about true bytes. Modification times are not part of an Image.
//
// It is for short scripts: the set is the product of what may be left of each file and of each pending entry. Above limit, or after a
// million ways of one file or of the entries, it gives up with an error that wraps ErrTooMany.
func (m *Model) Outcomes(limit int) ([]Image, error) {
	trees, err := m.trees(limit)
	if err != nil {
		return nil, err
	}
	contents := map[*node][]string{}
	seen := map[Image]bool{}
	var images []Image
	for _, t := range trees {
		for _, b := range t {
			if contents[b.node] == nil && !b.node.dir {
				if contents[b.node], err = m.contents(b.node, limit); err != nil {
					return nil, err
				}
			}
		}
		for o := (odometer{}); ; {
			var img imageBuilder
			for _, b := range t {
				if b.node.dir {
					img.dir(b.path)
					continue
				}
				list := contents[b.node]
				img.file(b.path, list[o.pick(len(list))])
			}
			if i := img.image(); !seen[i] {
				seen[i] = true
				images = append(images, i)
			}
			if len(images) > limit || o.tired() {
				return nil, m.tooMany(limit)
			}
			if !o.next() {
				break
			}
		}
	}
	slices.SortFunc(images, func(a, b Image) int { return strings.Compare(a.form, b.form) })
	return images, nil
}

func (m *Model) tooMany(limit int) error {
	return fmt.Errorf("disk %s: a power loss may leave more than %d disks: %w", m.name, limit, ErrTooMany)
}

// branch is a file or directory of a tree that may be left, and the node that it is in the model.
type branch struct {
	path string
	node *node
}

// trees lists what entries may be left, each tree once, in the order of its paths.
func (m *Model) trees(limit int) ([][]branch, error) {
	var trees [][]branch // more than limit may lead to the same images
	seen := map[string]bool{}
	for o := (odometer{}); ; {
		f, origin := m.forkEntries()
		f.settleEntries(func(*change, int) bool { return o.pick(2) == 1 })
		t := f.durableBranches(origin)
		var key strings.Builder
		for _, b := range t {
			fmt.Fprintf(&key, "%s is %s\x00", b.path, b.node.key)
		}
		if !seen[key.String()] {
			seen[key.String()] = true
			trees = append(trees, t)
		}
		if o.tired() {
			return nil, m.tooMany(limit)
		}
		if !o.next() {
			return trees, nil
		}
	}
}

// durableBranches walks the durable tree of a fork.
func (f *Model) durableBranches(origin map[*node]*node) (list []branch) {
	var walk func(d *node, prefix string)
	walk = func(d *node, prefix string) {
		names := make([]string, 0, len(d.durable))
		for name := range d.durable {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			n := d.durable[name]
			list = append(list, branch{prefix + name, origin[n]})
			if n.dir {
				walk(n, prefix+name+"/")
			}
		}
	}
	walk(f.root, "")
	return list
}

// forkEntries copies the durable tree and the pending changes, without the bytes of files. origin leads back.
func (m *Model) forkEntries() (f *Model, origin map[*node]*node) {
	origin = map[*node]*node{}
	copies := map[*node]*node{}
	var fork func(n *node) *node
	fork = func(n *node) *node {
		if n == nil || copies[n] != nil {
			return copies[n]
		}
		c := &node{dir: n.dir, key: n.key, keptAs: n.keptAs, refs: n.refs}
		copies[n], origin[c] = c, n
		c.kept = fork(n.kept)
		if n.dir {
			c.durable = map[string]*node{}
			for name, child := range n.durable {
				c.durable[name] = fork(child)
			}
		}
		return c
	}
	f = &Model{name: m.name, losses: m.losses, root: fork(m.root)}
	for _, c := range m.pending {
		f.pending = append(f.pending, &change{seq: c.seq, node: fork(c.node), fromDir: fork(c.fromDir), from: c.from, toDir: fork(c.toDir), to: c.to})
	}
	return f, origin
}

// contents lists what may be left of a file's bytes, each once.
func (m *Model) contents(n *node, limit int) ([]string, error) {
	seen := map[string]bool{}
	var list []string
	for o := (odometer{}); ; {
		if s := n.settled(&o); !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
		if len(list) > limit || o.tired() {
			return nil, m.tooMany(limit)
		}
		if !o.next() {
			return list, nil
		}
	}
}

// settled is what a file holds after a power loss with this fate; the file itself stays as it is.
func (n *node) settled(f fate) string {
	c := n.clone()
	(&Model{}).settleFile(c, f)
	p := make([]byte, c.size)
	c.read(p, 0, false)
	return string(p)
}

// clone copies a file's two states and what Syncs in flight have captured of it.
func (n *node) clone() *node {
	copyOf := func(p *page) *page {
		if p == nil {
			return nil
		}
		q := *p
		return &q
	}
	c := &node{key: n.key, size: n.size, synced: n.synced, cut: n.cut, mtime: n.mtime, syncedTime: n.syncedTime, preload: n.preload}
	for _, e := range n.extents {
		d := &extent{node: c}
		for i, s := range e.slots {
			d.slots[i] = slot{cur: copyOf(s.cur), flags: s.flags}
			if s.flags&unsynced != 0 {
				d.slots[i].old = copyOf(s.old)
			}
		}
		c.extents = append(c.extents, d)
	}
	for _, fl := range n.flights {
		g := &flight{n: c, cut: fl.cut}
		for _, p := range fl.pages {
			g.pages = append(g.pages, captured{page: p.page, saved: p.saved, image: copyOf(p.image)})
		}
		c.flights = append(c.flights, g)
	}
	return c
}

// odometer is the fate that takes every decision in every way: each round between two calls of next is another row of answers.
type odometer struct {
	digits []digit
	at     int // of the next decision
	rounds int
}

// digit is a decision: the answer, of so many.
type digit struct{ is, of int }

// pick answers a decision between n > 0 ways.
func (o *odometer) pick(n int) int {
	if o.at == len(o.digits) {
		o.digits = append(o.digits, digit{0, n})
	}
	o.at++
	return o.digits[o.at-1].is
}

// tired tells whether this is taking too long, be the rounds' results ever so few.
func (o *odometer) tired() bool { return o.rounds > 1<<20 }

// next starts the next round, and reports whether there is one.
func (o *odometer) next() bool {
	o.at = 0
	o.rounds++
	for k := len(o.digits) - 1; k >= 0; k-- {
		if o.digits[k].is++; o.digits[k].is < o.digits[k].of {
			return true
		}
		o.digits = o.digits[:k]
	}
	return false
}

func (o *odometer) old() bool         { return false } // times are not looked at
func (o *odometer) cut() bool         { return o.pick(2) == 1 }
func (o *odometer) version(n int) int { return o.pick(n) }

func (o *odometer) length(from, to int64) int64 {
	switch i := o.pick(int(lengthsBetween(from, to)) + 2); i {
	case 0:
		return from
	case 1:
		return to
	default:
		return lengthBetween(from, int64(i-2))
	}
}

// sectors goes through those that differ only: the others are the same either way.
func (o *odometer) sectors(durable, newer *page) uint {
	if durable == nil {
		durable = &zeroPage
	}
	if newer == nil {
		newer = &zeroPage
	}
	var differ []int
	for i := range PageBytes / SectorBytes {
		if [SectorBytes]byte(durable[i*SectorBytes:]) != [SectorBytes]byte(newer[i*SectorBytes:]) {
			differ = append(differ, i)
		}
	}
	pick := o.pick(1 << len(differ))
	kept := uint(0)
	for k, i := range differ {
		kept |= uint(pick>>k&1) << i
	}
	return kept
}
