package jute

import "fmt"

// Request is any request after the connection's first. Which fields count depends on Op; the others are zero.
type Request struct {
	Xid     int32
	Op      OpCode
	Path    string      // all but ping, multi, auth, setWatches, closeSession
	Data    []byte      // create, create2, setData; auth: the credential
	Flags   int32       // create, create2
	Version int32       // delete, setData, check; -1: any
	Watch   bool        // exists, getData, getChildren, getChildren2
	Steps   []Step      // multi
	Watches *SetWatches // setWatches, setWatches2
	Scheme  string      // auth
}

// Step is one operation inside a multi.
type Step struct {
	Op      OpCode // create, create2, delete, setData, check
	Path    string
	Data    []byte
	Flags   int32
	Version int32
}

// SetWatches arms again what a client watched on an earlier connection. What changed after the zxid fires at once.
type SetWatches struct {
	RelativeZxid        int64
	Data, Exist, Child  []string
	Persistent, Recurse []string // setWatches2 only
}

// Append encodes the request. Nodes are created open to the world, the only ACL that the server knows.
func (r *Request) Append(b []byte) []byte {
	b = appendInt(b, r.Xid)
	b = appendInt(b, int32(r.Op))
	switch r.Op {
	case OpCreate, OpCreate2:
		b = appendCreate(b, r.Path, r.Data, r.Flags)
	case OpDelete, OpCheck:
		b = appendString(b, r.Path)
		b = appendInt(b, r.Version)
	case OpSetData:
		b = appendString(b, r.Path)
		b = appendBuffer(b, r.Data)
		b = appendInt(b, r.Version)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		b = appendString(b, r.Path)
		b = appendBool(b, r.Watch)
	case OpGetACL, OpSync:
		b = appendString(b, r.Path)
	case OpMulti:
		for i := range r.Steps {
			b = r.Steps[i].append(b)
		}
		b = appendMultiEnd(b)
	case OpSetWatches, OpSetWatches2:
		w := r.Watches
		b = appendLong(b, w.RelativeZxid)
		b = appendStrings(b, w.Data)
		b = appendStrings(b, w.Exist)
		b = appendStrings(b, w.Child)
		if r.Op == OpSetWatches2 {
			b = appendStrings(b, w.Persistent)
			b = appendStrings(b, w.Recurse)
		}
	case OpAuth:
		b = appendInt(b, 0)
		b = appendString(b, r.Scheme)
		b = appendBuffer(b, r.Data)
	}
	return b
}

// Decode reads a request. Data aliases the packet. The header of a request of an unknown operation is decoded, the body skipped. After an
// error Xid and Op are set if the header was there.
func (r *Request) Decode(packet []byte) error {
	d := decoder{rest: packet}
	*r = Request{Xid: d.int(), Op: OpCode(d.int())}
	if d.err != nil {
		return d.err
	}
	switch r.Op {
	case OpCreate, OpCreate2:
		r.Path, r.Data, r.Flags = d.create()
	case OpDelete, OpCheck:
		r.Path = d.string()
		r.Version = d.int()
	case OpSetData:
		r.Path = d.string()
		r.Data = d.buffer()
		r.Version = d.int()
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		r.Path = d.string()
		r.Watch = d.bool()
	case OpGetACL, OpSync:
		r.Path = d.string()
	case OpMulti:
		r.Steps = d.steps()
	case OpSetWatches, OpSetWatches2:
		w := &SetWatches{RelativeZxid: d.long(), Data: d.strings(), Exist: d.strings(), Child: d.strings()}
		if r.Op == OpSetWatches2 {
			w.Persistent, w.Recurse = d.strings(), d.strings()
		}
		r.Watches = w
	case OpAuth:
		d.int()
		r.Scheme = d.string()
		r.Data = d.buffer()
	case OpPing, OpCloseSession:
	default:
		d.rest = nil
	}
	if err := d.end(); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	return nil
}

func appendCreate(b []byte, path string, data []byte, flags int32) []byte {
	b = appendString(b, path)
	b = appendBuffer(b, data)
	b = appendInt(b, 1)
	b = appendOpenACL(b)
	return appendInt(b, flags)
}

func (d *decoder) create() (path string, data []byte, flags int32) {
	path = d.string()
	data = d.buffer()
	for range d.count(12) {
		d.acl()
	}
	return path, data, d.int()
}

func appendOpenACL(b []byte) []byte {
	b = appendInt(b, 0x1f)
	b = appendString(b, "world")
	return appendString(b, "anyone")
}

// acl skips one: they are accepted and not kept.
func (d *decoder) acl() {
	d.int()
	d.buffer()
	d.buffer()
}
