package tree

import (
	"encoding/binary"
	"fmt"

	"faultline/coord/jute"
	"faultline/coord/packed"
)

// Append encodes the whole tree. Equal trees give equal bytes.
func (t *Tree) Append(b []byte) []byte {
	b = binary.AppendVarint(b, t.zxid)
	ids := t.Sessions()
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		s := t.sessions[id]
		b = binary.AppendVarint(b, id)
		b = binary.AppendVarint(b, s.timeout)
		b = append(b, s.password[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(t.nodes)))
	return t.appendNode(b, "/")
}

// appendNode encodes a node and all below it, parents first.
func (t *Tree) appendNode(b []byte, path string) []byte {
	n := t.nodes[path]
	b = packed.AppendText(b, path)
	b = packed.AppendText(b, n.data)
	for _, v := range [...]int64{n.owner, int64(n.version), int64(n.creates), n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime} {
		b = binary.AppendVarint(b, v)
	}
	for _, name := range n.children {
		b = t.appendNode(b, join(path, name))
	}
	return b
}

// Decode reads a tree that takes all of b. Errors wrap ErrCorrupt.
func Decode(b []byte) (*Tree, error) {
	d := packed.Reader{Rest: b, Wrap: ErrCorrupt}
	t := &Tree{zxid: d.Int(), nodes: map[string]*node{}, sessions: map[int64]*session{}}
	for range d.Count(2 + jute.PasswordLen) {
		id := d.Int()
		s := &session{timeout: d.Int()}
		copy(s.password[:], d.Bytes(len(s.password)))
		if t.sessions[id] != nil {
			d.Fail("session")
		}
		t.sessions[id] = s
	}
	for range d.Count(10) {
		path := string(d.Text())
		n := &node{data: string(d.Text()), owner: d.Int(), version: int32(d.Int()), creates: int32(d.Int()),
			czxid: d.Int(), mzxid: d.Int(), pzxid: d.Int(), ctime: d.Int(), mtime: d.Int()}
		if d.Err != nil {
			break
		}
		if err := t.adopt(path, n); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
	}
	if err := d.End(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if t.nodes["/"] == nil {
		return nil, fmt.Errorf("snapshot: %w: no root node", ErrCorrupt)
	}
	return t, nil
}

// adopt puts a decoded node into the tree, behind its parent and its smaller siblings.
func (t *Tree) adopt(path string, n *node) error {
	if !ValidPath(path) || t.nodes[path] != nil {
		return fmt.Errorf("%w: node %q is misplaced", ErrCorrupt, path)
	}
	if n.owner != 0 {
		s := t.sessions[n.owner]
		if s == nil {
			return fmt.Errorf("%w: node %q belongs to session %#x, which is not open", ErrCorrupt, path, n.owner)
		}
		s.own(path)
	}
	t.nodes[path] = n
	if path == "/" {
		return nil
	}
	parent, name := t.nodes[Parent(path)], base(path)
	if parent == nil || len(parent.children) > 0 && parent.children[len(parent.children)-1] >= name {
		return fmt.Errorf("%w: node %q is misplaced", ErrCorrupt, path)
	}
	parent.children = append(parent.children, name)
	return nil
}
