package tree

import (
	"fmt"
	"slices"

	"faultline/coord/jute"
)

// Effect is what a transaction did to one node: what replies, watches and oracles need.
type Effect struct {
	Kind  ChangeKind
	Path  string
	Data  string    // Create, Set
	Owner int64     // session of an ephemeral node, 0: persistent
	Stat  jute.Stat // right after the change (Delete: before it)
}

// Apply changes the tree by a transaction and appends its effects, in order: one for each of its Changes; for the end of a session one for each
// of its ephemeral nodes, by path. An error wraps ErrCorrupt: the transaction was not decided on this tree, which is spoiled now.
func (t *Tree) Apply(txn *Txn, effects []Effect) ([]Effect, error) {
	if txn.Zxid != t.zxid+1 {
		return effects, fmt.Errorf("%w: transaction %d cannot follow %d", ErrCorrupt, txn.Zxid, t.zxid)
	}
	t.zxid = txn.Zxid
	switch txn.Kind {
	case TxnOpen:
		t.sessions[txn.Zxid] = &session{timeout: txn.Timeout, password: txn.Password}
	case TxnClose, TxnExpire:
		if t.sessions[txn.Session] == nil {
			return effects, fmt.Errorf("%w: transaction %d ends session %#x, which is not open", ErrCorrupt, txn.Zxid, txn.Session)
		}
		for _, path := range t.Ephemerals(txn.Session) {
			e, err := t.delete(txn, path)
			if err != nil {
				return effects, err
			}
			effects = append(effects, e)
		}
		delete(t.sessions, txn.Session)
	case TxnChange:
		for i := range txn.Changes {
			e, err := t.change(txn, &txn.Changes[i])
			if err != nil {
				return effects, err
			}
			effects = append(effects, e)
		}
	default:
		return effects, fmt.Errorf("%w: transaction %d is of unknown kind %d", ErrCorrupt, txn.Zxid, txn.Kind)
	}
	return effects, nil
}

func (t *Tree) change(txn *Txn, c *Change) (Effect, error) {
	switch c.Kind {
	case Create:
		return t.create(txn, c)
	case Set:
		n := t.nodes[c.Path]
		if n == nil || n.version+1 != c.Version {
			return Effect{}, fmt.Errorf("%w: transaction %d sets version %d of %q, which does not follow its state", ErrCorrupt, txn.Zxid, c.Version, c.Path)
		}
		n.data, n.version, n.mzxid, n.mtime = c.Data, c.Version, txn.Zxid, txn.Time
		return Effect{Kind: Set, Path: c.Path, Data: n.data, Owner: n.owner, Stat: n.stat()}, nil
	case Delete:
		return t.delete(txn, c.Path)
	}
	return Effect{}, fmt.Errorf("%w: transaction %d has a change of unknown kind %d", ErrCorrupt, txn.Zxid, c.Kind)
}

func (t *Tree) create(txn *Txn, c *Change) (Effect, error) {
	parent := t.nodes[Parent(c.Path)]
	if parent == nil || parent.owner != 0 || t.nodes[c.Path] != nil || !ValidPath(c.Path) {
		return Effect{}, fmt.Errorf("%w: transaction %d creates %q, which exists or cannot exist there", ErrCorrupt, txn.Zxid, c.Path)
	}
	if c.Owner != 0 {
		s := t.sessions[c.Owner]
		if s == nil {
			return Effect{}, fmt.Errorf("%w: transaction %d creates %q for session %#x, which is not open", ErrCorrupt, txn.Zxid, c.Path, c.Owner)
		}
		s.own(c.Path)
	}
	n := &node{data: c.Data, owner: c.Owner, czxid: txn.Zxid, mzxid: txn.Zxid, pzxid: txn.Zxid, ctime: txn.Time, mtime: txn.Time}
	t.nodes[c.Path] = n
	name := base(c.Path)
	at, _ := slices.BinarySearch(parent.children, name)
	parent.children = slices.Insert(parent.children, at, name)
	parent.creates++
	parent.pzxid = txn.Zxid
	return Effect{Kind: Create, Path: c.Path, Data: n.data, Owner: n.owner, Stat: n.stat()}, nil
}

func (t *Tree) delete(txn *Txn, path string) (Effect, error) {
	n := t.nodes[path]
	if n == nil || len(n.children) > 0 || path == "/" {
		return Effect{}, fmt.Errorf("%w: transaction %d deletes %q, which does not exist or has children", ErrCorrupt, txn.Zxid, path)
	}
	e := Effect{Kind: Delete, Path: path, Owner: n.owner, Stat: n.stat()}
	if n.owner != 0 {
		delete(t.sessions[n.owner].ephemerals, path)
	}
	delete(t.nodes, path)
	parent := t.nodes[Parent(path)]
	at, _ := slices.BinarySearch(parent.children, base(path))
	parent.children = slices.Delete(parent.children, at, at+1)
	parent.pzxid = txn.Zxid
	return e, nil
}

func (s *session) own(path string) {
	if s.ephemerals == nil {
		s.ephemerals = map[string]struct{}{}
	}
	s.ephemerals[path] = struct{}{}
}
