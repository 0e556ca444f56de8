package jute

// PasswordLen is the length of a session's password in bytes.
const PasswordLen = 16

// ConnectRequest is a client's first packet: a new session (SessionID 0) or one that goes on.
type ConnectRequest struct {
	ProtocolVersion int32 // 0
	LastZxid        int64 // highest zxid that the client has seen
	Timeout         int32 // asked for, ms
	SessionID       int64
	Password        []byte
	HasReadOnly     bool // clients since ZooKeeper 3.4 send ReadOnly, and expect it in the reply
	ReadOnly        bool
}

// Append encodes the record.
func (r *ConnectRequest) Append(b []byte) []byte {
	b = appendInt(b, r.ProtocolVersion)
	b = appendLong(b, r.LastZxid)
	b = appendInt(b, r.Timeout)
	b = appendLong(b, r.SessionID)
	b = appendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = appendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads the record; Password aliases the packet.
func (r *ConnectRequest) Decode(packet []byte) error {
	d := decoder{rest: packet}
	*r = ConnectRequest{ProtocolVersion: d.int(), LastZxid: d.long(), Timeout: d.int(), SessionID: d.long(), Password: d.buffer()}
	if len(d.rest) > 0 {
		r.HasReadOnly, r.ReadOnly = true, d.bool()
	}
	return d.end()
}

// ConnectReply is a server's first packet. Timeout 0 says that the session is gone.
type ConnectReply struct {
	ProtocolVersion int32
	Timeout         int32 // granted, ms
	SessionID       int64
	Password        []byte
	HasReadOnly     bool
	ReadOnly        bool
}

// Append encodes the record.
func (r *ConnectReply) Append(b []byte) []byte {
	b = appendInt(b, r.ProtocolVersion)
	b = appendInt(b, r.Timeout)
	b = appendLong(b, r.SessionID)
	b = appendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = appendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads the record; Password aliases the packet.
func (r *ConnectReply) Decode(packet []byte) error {
	d := decoder{rest: packet}
	*r = ConnectReply{ProtocolVersion: d.int(), Timeout: d.int(), SessionID: d.long(), Password: d.buffer()}
	if len(d.rest) > 0 {
		r.HasReadOnly, r.ReadOnly = true, d.bool()
	}
	return d.end()
}
