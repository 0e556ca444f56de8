package coord

import (
	"faultline/coord/jute"
	"faultline/coord/tree"
)

// handle serves a request that changes nothing.
func (s *Server) handle(r *request) {
	c := r.from
	if r.malformed {
		s.reply(c, r, &jute.Reply{Code: jute.MarshallingError})
		return
	}
	path := r.step[0].Path
	switch r.op {
	case jute.OpPing, jute.OpAuth:
		s.reply(c, r, &jute.Reply{})
	case jute.OpExists:
		_, stat, ok := s.state.Tree.Get(path)
		switch {
		case !tree.ValidPath(path):
			s.reply(c, r, &jute.Reply{Code: jute.BadArguments})
			return
		case ok:
			s.reply(c, r, &jute.Reply{Stat: stat})
		default:
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
		}
		if r.watch {
			s.watches.Data(c.id, path)
		}
	case jute.OpGetData:
		data, stat, ok := s.state.Tree.Get(path)
		if !ok {
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
			return
		}
		s.touch(c)
		var mark int
		c.staged, mark = jute.BeginPacket(c.staged)
		c.staged = jute.EndPacket(jute.AppendDataReply(c.staged, r.xid, s.state.Tree.Zxid(), data, &stat), mark)
		if r.watch {
			s.watches.Data(c.id, path)
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		names, stat, ok := s.state.Tree.Children(path)
		if !ok {
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
			return
		}
		s.reply(c, r, &jute.Reply{Children: names, Stat: stat})
		if r.watch {
			s.watches.Child(c.id, path)
		}
	case jute.OpGetACL:
		if _, stat, ok := s.state.Tree.Get(path); ok {
			s.reply(c, r, &jute.Reply{Stat: stat})
		} else {
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
		}
	case jute.OpSync:
		s.reply(c, r, &jute.Reply{Path: path})
	case jute.OpSetWatches, jute.OpSetWatches2:
		if len(r.watches.Persistent)+len(r.watches.Recurse) > 0 {
			s.reply(c, r, &jute.Reply{Code: jute.Unimplemented})
			return
		}
		s.notices = s.watches.Rearm(s.state.Tree, c.id, r.watches, s.notices[:0])
		if len(s.notices) > 0 {
			s.m.Mark("mark/coord/missed-event-told")
		}
		s.notify()
		s.reply(c, r, &jute.Reply{})
	default:
		s.reply(c, r, &jute.Reply{Code: jute.Unimplemented})
	}
}

// reply stages a reply to the request.
func (s *Server) reply(c *conn, r *request, reply *jute.Reply) {
	reply.Xid, reply.Zxid = r.xid, s.state.Tree.Zxid()
	s.touch(c)
	var mark int
	c.staged, mark = jute.BeginPacket(c.staged)
	c.staged = jute.EndPacket(reply.Append(c.staged, r.op), mark)
}
