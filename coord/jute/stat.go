package jute

// Stat describes a znode. Zxids are transaction numbers, times are milliseconds since 1970 by the server's wall clock.
type Stat struct {
	Czxid          int64 // transaction that created the node
	Mzxid          int64 // transaction that last set its data
	Ctime          int64 // time of creation
	Mtime          int64 // time of the last set
	Version        int32 // number of sets
	Cversion       int32 // number of children created or deleted
	Aversion       int32 // number of ACL changes, always 0 here
	EphemeralOwner int64 // session that owns an ephemeral node, 0: persistent
	DataLength     int32 // bytes
	NumChildren    int32
	Pzxid          int64 // transaction that last created or deleted a child
}

func appendStat(b []byte, s *Stat) []byte {
	b = appendLong(b, s.Czxid)
	b = appendLong(b, s.Mzxid)
	b = appendLong(b, s.Ctime)
	b = appendLong(b, s.Mtime)
	b = appendInt(b, s.Version)
	b = appendInt(b, s.Cversion)
	b = appendInt(b, s.Aversion)
	b = appendLong(b, s.EphemeralOwner)
	b = appendInt(b, s.DataLength)
	b = appendInt(b, s.NumChildren)
	return appendLong(b, s.Pzxid)
}

func (d *decoder) stat() (s Stat) {
	s.Czxid = d.long()
	s.Mzxid = d.long()
	s.Ctime = d.long()
	s.Mtime = d.long()
	s.Version = d.int()
	s.Cversion = d.int()
	s.Aversion = d.int()
	s.EphemeralOwner = d.long()
	s.DataLength = d.int()
	s.NumChildren = d.int()
	s.Pzxid = d.long()
	return s
}
