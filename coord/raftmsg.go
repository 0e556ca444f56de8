package coord

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/jute"
)

// appendMessage encodes a consensus message: its numbers, the entries, the snapshot. Absent and zero fields are the same to the library.
func appendMessage(b []byte, m *raftpb.Message) []byte {
	reject := uint64(0)
	if m.GetReject() {
		reject = 1
	}
	for _, v := range [...]uint64{uint64(m.GetType()), m.GetTo(), m.GetFrom(), m.GetTerm(), m.GetLogTerm(), m.GetIndex(), m.GetCommit(), m.GetVote(), reject, m.GetRejectHint()} {
		b = binary.AppendUvarint(b, v)
	}
	b = appendBytes(b, m.GetContext())
	b = binary.AppendUvarint(b, uint64(len(m.GetEntries())))
	for _, e := range m.GetEntries() {
		b = appendEntry(b, e)
	}
	if s := m.GetSnapshot(); s != nil {
		b = binary.AppendUvarint(b, s.GetMetadata().GetIndex())
		b = binary.AppendUvarint(b, s.GetMetadata().GetTerm())
		b = appendBytes(b, s.GetData())
	}
	return b
}

// appendEntry encodes an entry; all are of the normal type.
func appendEntry(b []byte, e *raftpb.Entry) []byte {
	b = binary.AppendUvarint(b, e.GetTerm())
	b = binary.AppendUvarint(b, e.GetIndex())
	return appendBytes(b, e.GetData())
}

func appendBytes(b, p []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(p))), p...) }

// decodeMessage reads a message that takes all of b, and copies what it keeps. voters are the members, for a snapshot.
func decodeMessage(b []byte, voters []uint64) (*raftpb.Message, error) {
	d := reader{rest: b}
	typ := raftpb.MessageType(d.uvarint())
	var n [9]uint64
	for i := range n {
		n[i] = d.uvarint()
	}
	reject := n[7] == 1
	m := &raftpb.Message{Type: &typ, To: &n[0], From: &n[1], Term: &n[2], LogTerm: &n[3], Index: &n[4], Commit: &n[5], Vote: &n[6], Reject: &reject, RejectHint: &n[8]}
	if c := d.bytes(); len(c) > 0 {
		m.Context = append([]byte(nil), c...)
	}
	if typ == raftpb.MsgHeartbeatResp || typ == raftpb.MsgHeartbeat {
		if len(m.Context) != 0 && len(m.Context) != 8 {
			d.fail("context")
		}
	}
	for count := d.count(3); count > 0; count-- {
		m.Entries = append(m.Entries, d.entry())
	}
	if typ == raftpb.MsgSnap {
		index, term := d.uvarint(), d.uvarint()
		m.Snapshot = &raftpb.Snapshot{Data: append([]byte(nil), d.bytes()...), Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: voters}}}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.fail("end")
	}
	if _, known := raftpb.MessageType_name[int32(typ)]; !known {
		d.fail("type")
	}
	return m, d.err
}

// reader reads from the front. The first error sticks.
type reader struct {
	rest []byte
	err  error
}

func (d *reader) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s with %d bytes left", jute.ErrMalformed, what, len(d.rest))
	}
	d.rest = nil
}

func (d *reader) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *reader) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *reader) count(size int) int {
	v := d.uvarint()
	if v > uint64(len(d.rest)/size) {
		d.fail("count")
		return 0
	}
	return int(v)
}

// bytes aliases what is read.
func (d *reader) bytes() []byte {
	n := d.count(1)
	v := d.rest[:n:n]
	d.rest = d.rest[n:]
	return v
}

// entry copies what it keeps.
func (d *reader) entry() *raftpb.Entry {
	term, index := d.uvarint(), d.uvarint()
	e := &raftpb.Entry{Term: &term, Index: &index}
	if data := d.bytes(); len(data) > 0 {
		e.Data = append([]byte(nil), data...)
	}
	return e
}
