package tree

import (
	"fmt"
	"time"

	"faultline/coord/jute"
)

// Step is one operation that a client asks for: a whole request, or a part of a multi.
type Step struct {
	Op      jute.OpCode // create, create2, setData, delete, check
	Path    string
	Data    string
	Flags   int32 // create
	Version int32 // setData, delete, check; -1: any
}

// Decide turns the steps of a session's request into one transaction, or says which step is refused and why (code OK: none). Each step sees the
// ones before it. The transaction has no Changes when all steps are checks: it need not be applied. txn.Changes' memory is used again.
func (t *Tree) Decide(now time.Time, session int64, steps []Step, txn *Txn) (refused int, code jute.Code) {
	*txn = Txn{Zxid: t.zxid + 1, Time: now.UnixMilli(), Session: session, Kind: TxnChange, Changes: txn.Changes[:0]}
	if t.sessions[session] == nil {
		return 0, jute.SessionExpired
	}
	d := draft{tree: t, session: session, alone: len(steps) == 1}
	for i := range steps {
		if code := d.step(&steps[i], txn); code != jute.OK {
			txn.Changes = txn.Changes[:0]
			return i, code
		}
	}
	return 0, jute.OK
}

// DecideOpen opens a session.
func (t *Tree) DecideOpen(now time.Time, timeout time.Duration, password [jute.PasswordLen]byte) Txn {
	zxid := t.zxid + 1
	return Txn{Zxid: zxid, Time: now.UnixMilli(), Session: zxid, Kind: TxnOpen, Timeout: timeout.Milliseconds(), Password: password}
}

// DecideClose ends a session: TxnClose by its client, TxnExpire by its server. ok is false when it is gone already.
func (t *Tree) DecideClose(now time.Time, session int64, kind TxnKind) (txn Txn, ok bool) {
	if t.sessions[session] == nil {
		return Txn{}, false
	}
	return Txn{Zxid: t.zxid + 1, Time: now.UnixMilli(), Session: session, Kind: kind}, true
}

// draft is the tree as the steps decided so far would leave it.
type draft struct {
	tree    *Tree
	session int64
	alone   bool // a single step: nobody will look at what it changed
	changed map[string]view
}

// view is what deciding needs to know of a node.
type view struct {
	exists    bool
	ephemeral bool
	version   int32
	creates   int32
	children  int32
}

func (d *draft) look(path string) view {
	if v, ok := d.changed[path]; ok {
		return v
	}
	n := d.tree.nodes[path]
	if n == nil {
		return view{}
	}
	return view{exists: true, ephemeral: n.owner != 0, version: n.version, creates: n.creates, children: int32(len(n.children))}
}

func (d *draft) change(path string, v view) {
	if d.alone {
		return
	}
	if d.changed == nil {
		d.changed = map[string]view{}
	}
	d.changed[path] = v
}

func (d *draft) step(s *Step, txn *Txn) jute.Code {
	switch s.Op {
	case jute.OpCreate, jute.OpCreate2:
		return d.create(s, txn)
	case jute.OpSetData:
		v, code := d.existing(s)
		if code != jute.OK {
			return code
		}
		v.version++
		d.change(s.Path, v)
		txn.Changes = append(txn.Changes, Change{Kind: Set, Path: s.Path, Data: s.Data, Version: v.version})
	case jute.OpDelete:
		if s.Path == "/" {
			return jute.BadArguments
		}
		v, code := d.existing(s)
		if code != jute.OK {
			return code
		}
		if v.children > 0 {
			return jute.NotEmpty
		}
		up := Parent(s.Path)
		parent := d.look(up)
		parent.children--
		d.change(up, parent)
		d.change(s.Path, view{})
		txn.Changes = append(txn.Changes, Change{Kind: Delete, Path: s.Path})
	case jute.OpCheck:
		_, code := d.existing(s)
		return code
	default:
		return jute.Unimplemented
	}
	return jute.OK
}

// existing finds the step's node and compares its version.
func (d *draft) existing(s *Step) (view, jute.Code) {
	if !ValidPath(s.Path) {
		return view{}, jute.BadArguments
	}
	v := d.look(s.Path)
	if !v.exists {
		return v, jute.NoNode
	}
	if s.Version != -1 && s.Version != v.version {
		return v, jute.BadVersion
	}
	return v, jute.OK
}

func (d *draft) create(s *Step, txn *Txn) jute.Code {
	if s.Flags&^(jute.FlagEphemeral|jute.FlagSequential) != 0 {
		return jute.BadArguments
	}
	sequential := s.Flags&jute.FlagSequential != 0
	path := s.Path
	if sequential {
		path += "0" // for now: "/a/" asks for "/a/0000000000"
	}
	if !ValidPath(path) {
		return jute.BadArguments
	}
	if path == "/" {
		return jute.NodeExists
	}
	up := Parent(path)
	parent := d.look(up)
	if !parent.exists {
		return jute.NoNode
	}
	if parent.ephemeral {
		return jute.NoChildrenForEphemerals
	}
	if sequential {
		path = fmt.Sprintf("%s%010d", s.Path, parent.creates)
	}
	if d.look(path).exists {
		return jute.NodeExists
	}
	c := Change{Kind: Create, Path: path, Data: s.Data}
	if s.Flags&jute.FlagEphemeral != 0 {
		c.Owner = d.session
	}
	parent.creates++
	parent.children++
	d.change(up, parent)
	d.change(path, view{exists: true, ephemeral: c.Owner != 0})
	txn.Changes = append(txn.Changes, c)
	return jute.OK
}
