package disk

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cespare/xxhash/v2"
)

// change is one change of directory entries: from vanishes, to holds the node. A create has no from, a remove no to.
type change struct {
	seq            int64
	node           *node
	fromDir, toDir *node
	from, to       string
}

func (c *change) touches(d *node) bool { return c.fromDir == d || c.toDir == d }

func (c *change) has(d *node, name string) bool {
	return d != nil && (c.fromDir == d && c.from == name || c.toDir == d && c.to == name)
}

// overlaps tells whether two changes have an entry in common.
func (c *change) overlaps(o *change) bool { return c.has(o.fromDir, o.from) || c.has(o.toDir, o.to) }

// clean brings a path to the form by which nodes know it; "" is the root.
func clean(name string) string {
	if name == "" || name == "." {
		return ""
	}
	if fs.ValidPath(name) {
		return name
	}
	return path.Clean("/" + name)[1:]
}

func (m *Model) lookup(name string) (*node, error) {
	n := m.root
	for name != "" {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		part, rest, _ := strings.Cut(name, "/")
		child := n.entries[part]
		if child == nil {
			return nil, fs.ErrNotExist
		}
		n, name = child, rest
	}
	return n, nil
}

// locate finds the directory that holds, or would hold, a path.
func (m *Model) locate(name string) (*node, string, error) {
	if name == "" {
		return nil, "", fs.ErrInvalid
	}
	dir, base := path.Split(name)
	d, err := m.lookup(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil, "", err
	}
	if !d.dir {
		return nil, "", syscall.ENOTDIR
	}
	return d, base, nil
}

// make adds a new file or directory.
func (m *Model) make(d *node, name string, dir bool) *node {
	n := &node{dir: dir}
	if dir {
		n.entries, n.durable = map[string]*node{}, map[string]*node{}
	}
	m.link(d, name, n)
	k := &m.births[xxhash.Sum64String(n.path)%uint64(len(m.births))]
	n.key = n.path + "#" + strconv.Itoa(*k)
	*k++
	m.pend(&change{node: n, toDir: d, to: name})
	return n
}

func (m *Model) remove(n *node) {
	m.pend(&change{node: n, fromDir: n.parent, from: n.name})
	m.unlink(n)
}

// rename moves a node; what was at the new name is unlinked.
func (m *Model) rename(n, d *node, name string) {
	m.pend(&change{node: n, fromDir: n.parent, from: n.name, toDir: d, to: name})
	if target := d.entries[name]; target != nil {
		m.unlink(target)
	}
	n.refs++
	m.unlink(n)
	m.link(d, name, n)
	m.unref(n)
}

func (m *Model) link(d *node, name string, n *node) {
	m.named++
	d.entries[name] = n
	i, _ := slices.BinarySearch(d.names, name)
	d.names = slices.Insert(d.names, i, name)
	n.parent, n.name = d, name
	n.refs++
	m.weigh(n)
	n.repath()
}

// repath refreshes the cached paths of a node and all below it.
func (n *node) repath() {
	n.repathSelf()
	for _, name := range n.names {
		n.entries[name].repath()
	}
}

func (n *node) repathSelf() {
	if n.path = n.name; n.parent.path != "" {
		n.path = n.parent.path + "/" + n.name
	}
}

func (m *Model) unlink(n *node) {
	m.named++
	d := n.parent
	delete(d.entries, n.name)
	i, _ := slices.BinarySearch(d.names, n.name)
	d.names = slices.Delete(d.names, i, i+1)
	n.parent = nil
	m.weigh(n)
	m.unref(n)
}

// pend notes a change that is not durable.
func (m *Model) pend(c *change) {
	const most = 4096
	m.pendingSeq++
	c.seq = m.pendingSeq
	c.node.refs++
	m.pending = append(m.pending, c)
	if len(m.pending) > most {
		m.settle(m.pending[:most/2:most/2], m.pending[most/2:])
	}
}

// settle makes changes durable, in their order, and keeps the others pending.
func (m *Model) settle(done, kept []*change) {
	for _, c := range done {
		m.apply(c)
	}
	m.pending = slices.Clone(kept)
	for _, c := range done {
		m.unref(c.node)
	}
}

// syncDir makes durable the changes of a directory up to a sequence number, and the earlier ones that they build on:
// a rename out of another directory takes along what happened before to its names there.
func (m *Model) syncDir(d *node, upTo int64) {
	var done, kept []*change
	for i := len(m.pending) - 1; i >= 0; i-- {
		c := m.pending[i]
		take := c.seq <= upTo && (c.touches(d) || slices.ContainsFunc(done, c.overlaps))
		if take {
			done = append(done, c)
		} else {
			kept = append(kept, c)
		}
	}
	if len(done) == 0 {
		return
	}
	slices.Reverse(done)
	slices.Reverse(kept)
	m.settle(done, kept)
}

// apply makes one change in the durable tree.
func (m *Model) apply(c *change) {
	if c.fromDir != nil {
		m.discard(c.fromDir.durable[c.from])
	}
	if c.toDir == nil {
		return
	}
	if old := c.toDir.durable[c.to]; old != c.node {
		m.discard(old)
	}
	if c.node.kept == nil {
		c.node.refs++
	} else {
		delete(c.node.kept.durable, c.node.keptAs) // an inode has one name
	}
	c.toDir.durable[c.to] = c.node
	c.node.kept, c.node.keptAs = c.toDir, c.to
}

func (m *Model) discard(n *node) {
	if n == nil {
		return
	}
	delete(n.kept.durable, n.keptAs)
	n.kept, n.keptAs = nil, ""
	m.unref(n)
}

// entryDurable tells whether the node would be found under its cached path after any power loss.
func (m *Model) entryDurable(n *node) bool {
	for ; n != m.root; n = n.parent {
		if n.parent == nil || n.kept != n.parent || n.keptAs != n.name {
			return false
		}
		for _, c := range m.pending {
			if c.has(n.parent, n.name) {
				return false
			}
		}
	}
	return true
}
