package coord

import (
	"slices"

	"faultline/coord/jute"
	"faultline/coord/tree"
)

// handle executes one request. An error stops the server.
func (s *Server) handle(r *request) error {
	switch r.kind {
	case fromNew:
		return s.connect(r)
	case fromLost:
		s.lost(r.from)
		return nil
	case fromTimer:
		return s.expire(r.session)
	}
	c := r.from
	if c.gone || c.id == 0 {
		return nil
	}
	if r.malformed {
		s.reply(c, r, &jute.Reply{Code: jute.MarshallingError})
		return nil
	}
	path := r.step[0].Path
	switch r.op {
	case jute.OpPing, jute.OpAuth:
		s.reply(c, r, &jute.Reply{})
	case jute.OpExists:
		_, stat, ok := s.tree.Get(path)
		switch {
		case !tree.ValidPath(path):
			s.reply(c, r, &jute.Reply{Code: jute.BadArguments})
			return nil
		case ok:
			s.reply(c, r, &jute.Reply{Stat: stat})
		default:
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
		}
		if r.watch {
			s.watches.Data(c.id, path)
		}
	case jute.OpGetData:
		data, stat, ok := s.tree.Get(path)
		if !ok {
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
			return nil
		}
		s.touch(c)
		var mark int
		c.staged, mark = jute.BeginPacket(c.staged)
		c.staged = jute.EndPacket(jute.AppendDataReply(c.staged, r.xid, s.tree.Zxid(), data, &stat), mark)
		if r.watch {
			s.watches.Data(c.id, path)
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		names, stat, ok := s.tree.Children(path)
		if !ok {
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
			return nil
		}
		s.reply(c, r, &jute.Reply{Children: names, Stat: stat})
		if r.watch {
			s.watches.Child(c.id, path)
		}
	case jute.OpGetACL:
		if _, stat, ok := s.tree.Get(path); ok {
			s.reply(c, r, &jute.Reply{Stat: stat})
		} else {
			s.reply(c, r, &jute.Reply{Code: jute.NoNode})
		}
	case jute.OpSync:
		s.reply(c, r, &jute.Reply{Path: path})
	case jute.OpSetWatches, jute.OpSetWatches2:
		if len(r.watches.Persistent)+len(r.watches.Recurse) > 0 {
			s.reply(c, r, &jute.Reply{Code: jute.Unimplemented})
			return nil
		}
		s.notices = s.watches.Rearm(s.tree, c.id, r.watches, s.notices[:0])
		if len(s.notices) > 0 {
			s.m.Mark("mark/coord/missed-event-told")
		}
		s.notify()
		s.reply(c, r, &jute.Reply{})
	case jute.OpCloseSession:
		return s.closeSession(r)
	case jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpDelete, jute.OpCheck:
		return s.change(r)
	case jute.OpMulti:
		return s.multi(r)
	default:
		s.reply(c, r, &jute.Reply{Code: jute.Unimplemented})
	}
	return nil
}

// reply stages a reply to the request.
func (s *Server) reply(c *conn, r *request, reply *jute.Reply) {
	reply.Xid, reply.Zxid = r.xid, s.tree.Zxid()
	s.touch(c)
	var mark int
	c.staged, mark = jute.BeginPacket(c.staged)
	c.staged = jute.EndPacket(reply.Append(c.staged, r.op), mark)
}

func (s *Server) change(r *request) error {
	c := r.from
	if _, code := s.tree.Decide(s.m.Now(), c.id, r.step[:], &s.txn); code != jute.OK {
		s.markRefusal(code)
		s.reply(c, r, &jute.Reply{Code: code})
		return nil
	}
	var reply jute.Reply
	if len(s.txn.Changes) > 0 {
		if err := s.apply(&s.txn); err != nil {
			return err
		}
		reply.Path, reply.Stat = s.effects[0].Path, s.effects[0].Stat
		c.wrote = true
	}
	s.reply(c, r, &reply)
	return nil
}

// markRefusal tells refused changes apart.
func (s *Server) markRefusal(code jute.Code) {
	switch code {
	case jute.BadVersion:
		s.m.Mark("mark/coord/bad-version")
	case jute.NodeExists:
		s.m.Mark("mark/coord/node-exists")
	}
}

func (s *Server) multi(r *request) error {
	c := r.from
	results := slices.Grow(s.results[:0], len(r.steps))
	refused, code := s.tree.Decide(s.m.Now(), c.id, r.steps, &s.txn)
	if code != jute.OK {
		s.m.Mark("mark/coord/multi-refused")
		s.markRefusal(code)
		for i := range r.steps {
			result := jute.StepResult{Op: jute.OpError}
			switch {
			case i == refused:
				result.Code = code
			case i > refused:
				result.Code = jute.RuntimeInconsistency
			}
			results = append(results, result)
		}
	} else {
		if len(s.txn.Changes) > 0 {
			if err := s.apply(&s.txn); err != nil {
				return err
			}
			c.wrote = true
		}
		next := 0 // effect of the next step that is no check
		for i := range r.steps {
			result := jute.StepResult{Op: r.steps[i].Op}
			if result.Op != jute.OpCheck {
				result.Path, result.Stat = s.effects[next].Path, s.effects[next].Stat
				next++
			}
			results = append(results, result)
		}
	}
	s.reply(c, r, &jute.Reply{Results: results})
	clear(results)
	s.results = results[:0]
	return nil
}
