package tree

import (
	"slices"
	"time"

	"faultline/coord/jute"
)

// Tree is the replicated state: znodes and sessions after the transaction Zxid.
type Tree struct {
	zxid     int64
	nodes    map[string]*node
	sessions map[int64]*session
}

type node struct {
	data         string
	owner        int64 // session of an ephemeral node, 0: persistent
	version      int32
	creates      int32 // children ever created: the number of the next sequential child
	czxid, mzxid int64
	pzxid        int64
	ctime, mtime int64
	children     []string // sorted names
}

type session struct {
	timeout    int64 // ms
	password   [jute.PasswordLen]byte
	ephemerals map[string]struct{} // paths; sorted before use
}

// New is an empty tree: the root node, no session, zxid 0.
func New() *Tree {
	return &Tree{nodes: map[string]*node{"/": {}}, sessions: map[int64]*session{}}
}

// Zxid is the number of the last transaction applied, 0: none.
func (t *Tree) Zxid() int64 { return t.zxid }

// Len is the number of nodes, the root included.
func (t *Tree) Len() int { return len(t.nodes) }

// stat computes the part of a node that clients see. As in ZooKeeper, Cversion counts children created and deleted, which is
// twice the creations less the children there are.
func (n *node) stat() jute.Stat {
	return jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: 2*n.creates - int32(len(n.children)),
		EphemeralOwner: n.owner, DataLength: int32(len(n.data)), NumChildren: int32(len(n.children)),
	}
}

// Get reads a node. ok is false when there is none.
func (t *Tree) Get(path string) (data string, stat jute.Stat, ok bool) {
	n := t.nodes[path]
	if n == nil {
		return "", jute.Stat{}, false
	}
	return n.data, n.stat(), true
}

// Children lists the names of a node's children, sorted. The slice is the tree's own: read it before the next Apply.
func (t *Tree) Children(path string) (names []string, stat jute.Stat, ok bool) {
	n := t.nodes[path]
	if n == nil {
		return nil, jute.Stat{}, false
	}
	return n.children, n.stat(), true
}

// Session describes a live session. ok is false when there is none with this id.
func (t *Tree) Session(id int64) (timeout time.Duration, password [jute.PasswordLen]byte, ok bool) {
	s := t.sessions[id]
	if s == nil {
		return 0, password, false
	}
	return time.Duration(s.timeout) * time.Millisecond, s.password, true
}

// Sessions lists the ids of the live sessions, sorted.
func (t *Tree) Sessions() []int64 {
	ids := make([]int64, 0, len(t.sessions))
	// order: sorted below
	for id := range t.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Ephemerals lists the paths of a session's ephemeral nodes, sorted.
func (t *Tree) Ephemerals(id int64) []string {
	s := t.sessions[id]
	if s == nil {
		return nil
	}
	paths := make([]string, 0, len(s.ephemerals))
	// order: sorted below
	for p := range s.ephemerals {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}
