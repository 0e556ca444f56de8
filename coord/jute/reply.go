package jute

import "fmt"

// Reply answers a request. Which fields count depends on the request's operation; when Code is not OK none does.
type Reply struct {
	Xid      int32
	Zxid     int64 // last transaction that the server had applied
	Code     Code
	Path     string       // create, create2, sync
	Data     []byte       // getData
	Stat     Stat         // create2, setData, exists, getData, getChildren2, getACL
	Children []string     // getChildren, getChildren2
	Results  []StepResult // multi
}

// Append encodes the reply to a request of the operation.
func (r *Reply) Append(b []byte, op OpCode) []byte {
	b = appendReplyHeader(b, r.Xid, r.Zxid, r.Code)
	if r.Code != OK {
		return b
	}
	switch op {
	case OpCreate, OpSync:
		b = appendString(b, r.Path)
	case OpCreate2:
		b = appendString(b, r.Path)
		b = appendStat(b, &r.Stat)
	case OpSetData, OpExists:
		b = appendStat(b, &r.Stat)
	case OpGetData:
		b = appendBuffer(b, r.Data)
		b = appendStat(b, &r.Stat)
	case OpGetChildren:
		b = appendStrings(b, r.Children)
	case OpGetChildren2:
		b = appendStrings(b, r.Children)
		b = appendStat(b, &r.Stat)
	case OpGetACL:
		b = appendInt(b, 1)
		b = appendOpenACL(b)
		b = appendStat(b, &r.Stat)
	case OpMulti:
		for i := range r.Results {
			b = r.Results[i].append(b)
		}
		b = appendMultiEnd(b)
	}
	return b
}

// AppendDataReply encodes an OK reply to getData whose data is a string, which saves the caller a copy.
func AppendDataReply(b []byte, xid int32, zxid int64, data string, stat *Stat) []byte {
	b = appendReplyHeader(b, xid, zxid, OK)
	b = appendString(b, data)
	return appendStat(b, stat)
}

func appendReplyHeader(b []byte, xid int32, zxid int64, code Code) []byte {
	b = appendInt(b, xid)
	b = appendLong(b, zxid)
	return appendInt(b, int32(code))
}

// DecodeHeader reads the reply's header and returns the body. An [Event] is a reply whose Xid is XidEvent.
func (r *Reply) DecodeHeader(packet []byte) (body []byte, err error) {
	d := decoder{rest: packet}
	*r = Reply{Xid: d.int(), Zxid: d.long(), Code: Code(d.int())}
	return d.rest, d.err
}

// DecodeBody reads the body of a reply to a request of the operation; Data aliases it.
func (r *Reply) DecodeBody(body []byte, op OpCode) error {
	if r.Code != OK {
		return nil
	}
	d := decoder{rest: body}
	switch op {
	case OpCreate, OpSync:
		r.Path = d.string()
	case OpCreate2:
		r.Path = d.string()
		r.Stat = d.stat()
	case OpSetData, OpExists:
		r.Stat = d.stat()
	case OpGetData:
		r.Data = d.buffer()
		r.Stat = d.stat()
	case OpGetChildren:
		r.Children = d.strings()
	case OpGetChildren2:
		r.Children = d.strings()
		r.Stat = d.stat()
	case OpGetACL:
		for range d.count(12) {
			d.acl()
		}
		r.Stat = d.stat()
	case OpMulti:
		r.Results = d.results()
	}
	if err := d.end(); err != nil {
		return fmt.Errorf("reply to %s: %w", op, err)
	}
	return nil
}

// Event tells a client that one of its watches fired.
type Event struct {
	Type EventType
	Path string
}

const stateSyncConnected = 3 // ZooKeeper's KeeperState, part of every event

// Append encodes the event with the header that marks it.
func (e *Event) Append(b []byte) []byte {
	b = appendReplyHeader(b, XidEvent, -1, OK)
	b = appendInt(b, int32(e.Type))
	b = appendInt(b, stateSyncConnected)
	return appendString(b, e.Path)
}

// DecodeBody reads an event behind its header.
func (e *Event) DecodeBody(body []byte) error {
	d := decoder{rest: body}
	e.Type = EventType(d.int())
	d.int()
	e.Path = d.string()
	if err := d.end(); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	return nil
}
