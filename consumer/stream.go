package consumer

import (
	"slices"
	"sync/atomic"
	"time"

	"faultline/sim/machine"
)

// Stream hands over the records of its partitions, one after the other. It belongs to one task at a time; the streams of a member
// are independent of each other.
type Stream struct {
	g     *Group
	topic string
	more  machine.Cond // a chunk came, the claims changed, the group closes

	// Group.mu guards these.
	queue   []*chunk
	records int  // in the queue
	bytes   int  // in the queue
	busy    bool // a chunk was taken and the task has not come back for the next

	// working is the Uptime at which the application got the record that it works on, 0 when it waits for one.
	working atomic.Int64

	// Only the task that calls Next looks at these.
	reader reader
	ready  bool    // reader stands at a record that was not handed over yet
	done   *cursor // of the record handed over last; nil when it counts as processed already
	after  int64   // the offset after it
}

// amoWindow is how many offsets AtMostOnce commits ahead.
const amoWindow = 100

// Topic is the topic of the stream.
func (s *Stream) Topic() string { return s.topic }

// Next returns the next record; it blocks until there is one. Calling it says that the record it returned before is processed, unless Config.OutOfOrder leaves that to Message.Done.
//
// Errors: ErrClosed after Close; *CorruptError when a batch does not decode, again with every call until a Seek; what keeps a member out of its coordinator group for good.
func (s *Stream) Next() (Message, error) {
	s.working.Store(0)
	if s.done != nil {
		s.done.processed.Store(s.after)
		s.done = nil
	}
	g := s.g
	for {
		if s.reader.chunk == nil {
			if err := s.take(); err != nil {
				return Message{}, err
			}
		}
		cur := s.reader.chunk.cursor
		c := cur.claim
		if !s.ready {
			ok, err := s.reader.next()
			s.reader.charge(g.m)
			if err != nil && cur.live.Load() {
				return Message{}, &CorruptError{c.topic, c.partition, max(s.reader.chunk.from, cur.processed.Load()), err}
			}
			if !ok {
				if err == nil {
					s.reader.chunk.over()
				}
				s.drop()
				continue
			}
			s.ready = true
		}
		r := &s.reader.it.Record
		if g.cfg.Delivery == AtMostOnce && r.Offset >= cur.cleared && cur.live.Load() {
			if !s.clear(cur, min(s.reader.chunk.next, r.Offset+amoWindow)) {
				continue
			}
		}
		if g.cfg.OutOfOrder {
			g.mu.Lock()
		}
		// From the checks to the hand-over there is no scheduling point: claim and lease hold at this very moment.
		live, paused := cur.live.Load(), c.paused.Load()
		if live && !paused && c.bond.holds() {
			g.m.Trace(machine.Event{Kind: machine.ConsumerHanded, Subject: c.subject, Detail: g.id, A: r.Offset, C: c.id.short()})
			s.ready = false
			s.working.Store(int64(g.m.Uptime()))
			if g.cfg.OutOfOrder {
				cur.open, cur.after = append(cur.open, r.Offset), r.Offset+1
				g.mu.Unlock()
			} else {
				s.done, s.after = cur, r.Offset+1
			}
			return Message{Topic: c.topic, TopicID: c.id, Partition: c.partition, Record: *r, stream: s, cursor: cur}, nil
		}
		if g.cfg.OutOfOrder {
			g.mu.Unlock()
		}
		switch {
		case !live:
			g.m.Mark("mark/consumer/claim-ended-in-mid-chunk")
			s.drop()
		case paused:
			s.putBack()
		case !c.bond.renew():
			g.m.Mark("mark/consumer/hand-over-waits-for-lease")
			if err := s.awaitLease(cur); err != nil {
				return Message{}, err
			}
		}
	}
}

// drop forgets the rest of the current chunk.
func (s *Stream) drop() {
	s.reader.chunk, s.reader.batch, s.ready = nil, false, false
}

// take waits for the next chunk.
func (s *Stream) take() error {
	g := s.g
	g.m.Failpoint("fault/consumer/take-slow")
	g.mu.Lock()
	if s.busy {
		s.busy = false
		g.touch()
	}
	for {
		if g.closing || g.failed != nil {
			err := g.failed
			g.mu.Unlock()
			if err == nil {
				err = ErrClosed
			}
			return err
		}
		if len(s.queue) > 0 {
			break
		}
		s.more.Wait()
	}
	full := s.full()
	ch := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.count(ch, -1)
	s.busy = true
	g.touch()
	if full && !s.full() {
		g.room()
	}
	g.mu.Unlock()
	s.reader.chunk = ch
	g.m.Work(machine.Work{Received: ch.records, Batches: ch.batches, Copied: int64(len(ch.rest))})
	return nil
}

// clear commits the records below next before they are handed over.
func (s *Stream) clear(cur *cursor, next int64) bool {
	if s.g.commitAhead(cur, next) {
		cur.cleared = next
		return true
	}
	if !cur.live.Load() {
		return false
	}
	// Not committed, and yet ours: a coordinator takes no commits while it makes a new generation, in which a member may keep what it has; so again, soon. Or the group closes and its time is over.
	g := s.g
	g.mu.Lock()
	over := g.closing
	if !over {
		s.more.WaitTimeout(findBackoff)
	}
	g.mu.Unlock()
	if over {
		s.drop() // take tells
	}
	return false
}

// awaitLease waits until the session is surely alive again, or the claim ends with it. Pings renew the lease without an event, so it looks now and then.
func (s *Stream) awaitLease(cur *cursor) error {
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return ErrClosed
	}
	if cur.live.Load() && !cur.claim.bond.holds() {
		s.more.WaitTimeout(max(g.cfg.SessionTimeout/10, 10*time.Millisecond))
	}
	return nil
}

// full tells whether nothing more is to be fetched for the stream now. Called with the lock held.
func (s *Stream) full() bool {
	return s.records >= s.g.cfg.QueueRecords || s.bytes >= s.g.cfg.QueueBytes
}

// push queues a chunk. Called with the lock held.
func (s *Stream) push(ch *chunk) {
	if c := ch.cursor.claim; c.paused.Load() {
		c.aside = append(c.aside, ch)
		return
	}
	s.queue = append(s.queue, ch)
	s.count(ch, 1)
	s.more.Signal()
}

// count notes that a chunk came into the queue (by 1) or left it (by -1).
func (s *Stream) count(ch *chunk, by int) {
	s.records += by * ch.records
	s.bytes += by * len(ch.rest)
}

// purge drops chunks whose cursor is no longer live. Called with the lock held.
func (s *Stream) purge() {
	before := len(s.queue)
	s.keep(func(ch *chunk) bool { return ch.cursor.live.Load() })
	if len(s.queue) < before {
		s.g.m.Mark("mark/consumer/queued-dropped")
	}
	s.more.Broadcast()
}

// keep takes the chunks out of the queue that are not wanted in it. Called with the lock held.
func (s *Stream) keep(wanted func(*chunk) bool) {
	full := s.full()
	s.queue = slices.DeleteFunc(s.queue, func(ch *chunk) bool {
		if wanted(ch) {
			return false
		}
		s.count(ch, -1)
		return true
	})
	if full && !s.full() {
		s.g.room()
	}
}
