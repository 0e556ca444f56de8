package baseline

import (
	"encoding/binary"
	"fmt"
	"slices"

	"faultline/sim/machine"
)

// compactAt is how many segments there must be before live messages are moved, moveBytes how much at a time.
const (
	compactAt = 4
	moveBytes = 1 << 20
)

// dead tells whether the oldest segment can go. The writer must be past it.
func (j *journal) dead() bool { return j.settled() && j.segments[0].live == 0 }

func (j *journal) settled() bool {
	return len(j.segments) > 1 && j.head != nil && j.head.number > j.segments[0].number
}

// sparse tells whether most of the journal is dead, and yet the oldest segment is not.
func (j *journal) sparse() bool {
	if len(j.segments) < compactAt || !j.settled() || j.segments[0].live == 0 {
		return false
	}
	live, all := int64(0), int64(0)
	for _, s := range j.segments {
		live += s.bytes
		all += s.size
	}
	return live < all/2
}

// clean is the task that removes segments which nobody needs.
func (s *Server) clean() {
	s.mu.Lock()
	for {
		switch {
		case s.j.dead():
			s.remove()
		case s.j.sparse():
			s.moveOldest()
		default:
			s.tidy.Wait()
		}
	}
}

// remove removes the oldest segment. The next one may go only when it is gone for good: it may have the acknowledgements of messages in this one.
func (s *Server) remove() {
	old := s.j.segments[0]
	s.j.segments = slices.Delete(s.j.segments, 0, 1)
	s.mu.Unlock()
	s.m.Work(machine.Work{Syscalls: 2})
	err := s.m.Disk().Remove(segmentName(s.cfg.DataDir, old.number))
	if err == nil {
		err = s.m.Disk().SyncDir(s.cfg.DataDir)
	}
	if err != nil {
		s.m.Exit(fmt.Errorf("queue: remove a segment of the journal: %w", err))
	}
	s.mu.Lock()
	old.gone = true
	if old.using == 0 {
		old.file.Close()
	}
}

// done ends a task's use of a segment.
func (s *Server) done(seg *segment) {
	seg.using--
	if seg.gone && seg.using == 0 {
		seg.file.Close()
	}
}

// moveOldest writes the messages of the oldest segment that a queue has to the end of the journal, and waits until they are durable there.
func (s *Server) moveOldest() {
	old := s.j.segments[0]
	s.mu.Unlock()
	var batch []moving
	bytes := 0
	position := int64(0)
	flush := func() {
		s.m.Work(machine.Work{Queue: machine.QueueWork{Taken: len(batch)}, Copied: int64(bytes)})
		s.mu.Lock()
		position = s.appendMoved(old, batch)
		s.j.await(position)
		s.mu.Unlock()
		batch, bytes = batch[:0], 0
	}
	end, err := scan(s.m, old.file, func(kind byte, at int64, body []byte) error {
		r := &reader{rest: body}
		id, count := uint64(0), 0
		switch kind {
		case recordMessages:
			id = r.u64()
			r.text()
			count = r.count(4)
		case recordMoved:
			count = r.count(14)
		}
		for range count {
			if kind == recordMoved {
				id = r.u64()
				r.take(4 * r.u16())
			}
			size := r.u32()
			where := at + int64(len(body)-len(r.rest))
			batch = append(batch, moving{id, where, slices.Clone(r.take(size))})
			if bytes += size; bytes >= moveBytes {
				flush()
			}
			id++
		}
		return r.err
	})
	if err == nil && end < old.size {
		err = fmt.Errorf("%s: the record at %d is damaged", old.file.Name(), end)
	}
	if err != nil {
		s.m.Exit(fmt.Errorf("queue: compact the journal: %w", err))
	}
	flush()
	s.mu.Lock()
	s.j.awaitSynced(position)
}

// moving is a message that may have to be moved.
type moving struct {
	id   uint64
	at   int64
	body []byte
}

// appendMoved writes those of the messages that are still in the old segment to the end, and returns the position after them. The lock is held.
func (s *Server) appendMoved(old *segment, batch []moving) int64 {
	batch = slices.DeleteFunc(batch, func(v moving) bool {
		m := s.x.message(v.id)
		return m == nil || m.segment != old || m.at != v.at
	})
	if len(batch) == 0 {
		return s.j.appended
	}
	c, start := s.j.begin(recordMoved)
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(batch)))
	for _, v := range batch {
		c.data = binary.BigEndian.AppendUint64(c.data, v.id)
		holders := len(c.data)
		c.data = binary.BigEndian.AppendUint16(c.data, 0)
		n := 0
		for _, q := range s.x.queues {
			if q.find(v.id) != nil {
				c.data = binary.BigEndian.AppendUint32(c.data, uint32(q.number))
				n++
			}
		}
		binary.BigEndian.PutUint16(c.data[holders:], uint16(n))
		c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(v.body)))
		s.x.message(v.id).move(c.s, c.at+int64(len(c.data)))
		c.data = append(c.data, v.body...)
	}
	return s.j.end(c, start)
}
