package coord

import (
	"encoding/binary"

	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/jute"
	"faultline/coord/packed"
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
	b = packed.AppendText(b, m.GetContext())
	b = binary.AppendUvarint(b, uint64(len(m.GetEntries())))
	for _, e := range m.GetEntries() {
		b = appendEntry(b, e)
	}
	if s := m.GetSnapshot(); s != nil {
		b = binary.AppendUvarint(b, s.GetMetadata().GetIndex())
		b = binary.AppendUvarint(b, s.GetMetadata().GetTerm())
		b = packed.AppendText(b, s.GetData())
	}
	return b
}

// appendEntry encodes an entry; all are of the normal type.
func appendEntry(b []byte, e *raftpb.Entry) []byte {
	b = binary.AppendUvarint(b, e.GetTerm())
	b = binary.AppendUvarint(b, e.GetIndex())
	return packed.AppendText(b, e.GetData())
}

// decodeMessage reads a message that takes all of b, and copies what it keeps. voters are the members, for a snapshot.
func decodeMessage(b []byte, voters []uint64) (*raftpb.Message, error) {
	d := packed.Reader{Rest: b, Wrap: jute.ErrMalformed}
	typ := raftpb.MessageType(d.Uint())
	var n [9]uint64
	for i := range n {
		n[i] = d.Uint()
	}
	reject := n[7] == 1
	m := &raftpb.Message{Type: &typ, To: &n[0], From: &n[1], Term: &n[2], LogTerm: &n[3], Index: &n[4], Commit: &n[5], Vote: &n[6], Reject: &reject, RejectHint: &n[8]}
	if c := d.Text(); len(c) > 0 {
		m.Context = append([]byte(nil), c...)
	}
	if typ == raftpb.MsgHeartbeatResp || typ == raftpb.MsgHeartbeat {
		if len(m.Context) != 0 && len(m.Context) != 8 {
			d.Fail("context")
		}
	}
	for count := d.Count(3); count > 0; count-- {
		m.Entries = append(m.Entries, readEntry(&d))
	}
	if typ == raftpb.MsgSnap {
		index, term := d.Uint(), d.Uint()
		m.Snapshot = &raftpb.Snapshot{Data: append([]byte(nil), d.Text()...), Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: voters}}}
	}
	_ = d.End()
	if _, known := raftpb.MessageType_name[int32(typ)]; !known {
		d.Fail("type")
	}
	return m, d.Err
}

// readEntry copies what it keeps.
func readEntry(d *packed.Reader) *raftpb.Entry {
	term, index := d.Uint(), d.Uint()
	e := &raftpb.Entry{Term: &term, Index: &index}
	if data := d.Text(); len(data) > 0 {
		e.Data = append([]byte(nil), data...)
	}
	return e
}
