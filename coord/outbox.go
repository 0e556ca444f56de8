package coord

import (
	"encoding/binary"

	"faultline/coord/jute"
	"faultline/coord/packed"
	"faultline/coord/replica"
)

// outbox is what this server's clients asked for and is not applied here yet: the end of the server's stream of commands. All of it goes to the leader,
// and again whenever the leader, its term, or the link to it is another one: the stream's numbers make sure that each counts once, in order.
type outbox struct {
	first    uint64 // number of requests[0]
	requests []*request
	sent     int // how many of them are on the route
	route    route
}

// route is a way to a leader.
type route struct{ leader, term, link uint64 }

// Add puts a request at the end.
func (o *outbox) Add(r *request) { o.requests = append(o.requests, r) }

// At is the request with a number, nil: it is applied, or comes later.
func (o *outbox) At(seq uint64) *request {
	if i := seq - o.first; seq >= o.first && i < uint64(len(o.requests)) {
		return o.requests[i]
	}
	return nil
}

// Through removes the requests up to a number and shows each.
func (o *outbox) Through(seq uint64, show func(*request)) {
	n := 0
	for n < len(o.requests) && o.first+uint64(n) <= seq {
		n++
	}
	if n == 0 {
		return
	}
	for i, r := range o.requests[:n] {
		o.requests[i] = nil
		show(r)
	}
	left := copy(o.requests, o.requests[n:])
	clear(o.requests[left:])
	o.requests = o.requests[:left]
	o.first += uint64(n)
	o.sent = max(0, o.sent-n)
}

// Take says where the requests are to be sent that are not on the route: number of the first, and which.
func (o *outbox) Take(r route, limit int) (first uint64, batch []*request) {
	if r != o.route {
		o.route, o.sent = r, 0
	}
	start, size := o.sent, 0
	for o.sent < len(o.requests) && (o.sent == start || size < limit) {
		size += o.requests[o.sent].size
		o.sent++
	}
	return o.first + uint64(start), o.requests[start:o.sent]
}

const maxEntryBytes = 1 << 20 // of commands in one entry, unless one is longer

// submit gives what is new, or lost its way, to the leader.
func (s *Server) submit() {
	if s.leader == 0 {
		return
	}
	for {
		to := route{leader: s.leader, term: s.hard.term}
		if !s.leading {
			if len(s.outbox.requests) == 0 {
				break
			}
			if to.link = s.linkEpoch(s.leader); to.link == 0 {
				return
			}
		}
		first, requests := s.outbox.Take(to, maxEntryBytes)
		if len(requests) == 0 {
			break
		}
		s.commands = s.commands[:0]
		for _, r := range requests {
			s.commands = r.command.Append(s.commands)
		}
		batch := replica.Batch{Origin: s.id, Incarnation: s.incarnation, First: first, Count: len(requests), Commands: s.commands}
		if s.leading {
			for _, r := range requests {
				if r.kind == fromNew { // the others were heard of by their connection
					s.hearOf([]int64{r.command.Session})
				}
			}
			s.gather(func(b []byte) []byte { return batch.Append(b) })
			continue
		}
		s.frame(s.leader, frameForward, func(b []byte) []byte {
			b = binary.AppendUvarint(b, uint64(len(requests)))
			for _, r := range requests {
				b = binary.AppendVarint(b, r.command.Session)
			}
			return batch.Append(b)
		})
	}
	s.flush()
}

// forwarded takes commands of another server.
func (s *Server) forwarded(body []byte) {
	d := packed.Reader{Rest: body, Wrap: jute.ErrMalformed}
	sessions := readSessions(&d)
	if d.Err != nil || !s.leading {
		return
	}
	for rest := d.Rest; len(rest) > 0; {
		x, after, err := replica.DecodeBatch(rest)
		if err != nil || !whole(&x) {
			return
		}
		rest = after
	}
	s.hearOf(sessions)
	s.gather(func(b []byte) []byte { return append(b, d.Rest...) })
}

// whole tells that a batch has the commands that it says: nothing else may get into the log.
func whole(x *replica.Batch) bool {
	var c replica.Command
	rest, err := x.Commands, error(nil)
	for range x.Count {
		if rest, err = c.Decode(rest); err != nil {
			return false
		}
	}
	return len(rest) == 0
}

// gather adds batches to the entry that flush proposes.
func (s *Server) gather(batches func([]byte) []byte) {
	if len(s.entry) == 0 {
		s.entry = replica.BeginEntry(s.entry, s.m.Now().UnixMilli())
	}
	if s.entry = batches(s.entry); len(s.entry) >= maxEntryBytes {
		s.flush()
	}
}

// flush proposes the entry that was gathered. When this server leads no more it is lost, and all senders send again.
func (s *Server) flush() {
	if len(s.entry) == 0 {
		return
	}
	s.propose(s.entry)
	s.entry = s.entry[:0]
	if cap(s.entry) > 2*maxEntryBytes {
		s.entry = nil
	}
}
