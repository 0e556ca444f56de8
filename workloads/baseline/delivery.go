package baseline

import (
	"encoding/binary"
	"fmt"

	"faultline/sim/machine"
)

// parcel is a message on its way to a consumer.
type parcel struct {
	id      uint64
	again   bool
	size    int
	body    []byte   // nil: it must be read
	segment *segment // from there; the parcel uses it
	at      int64
}

// next is the consumer whose messages go next, nil: there are none.
func (c *conn) next() *consumer {
	for i := range c.consumers {
		k := (c.turn + i) % len(c.consumers)
		if len(c.consumers[k].outbox) > 0 {
			c.turn = (k + 1) % len(c.consumers)
			return c.consumers[k]
		}
	}
	return nil
}

// collect takes as many messages as fit into a frame. The lock is held.
func (c *conn) collect(u *consumer) []parcel {
	s := c.s
	var list []parcel
	bytes := 0
	for _, id := range u.outbox {
		m := s.x.message(id)
		if len(list) == s.cfg.DeliveryBatch || len(list) > 0 && bytes+int(m.size) > s.cfg.DeliveryBytes {
			break
		}
		p := parcel{id: id, again: u.queue.find(id).again, size: int(m.size), body: m.body}
		if p.body == nil && p.size > 0 {
			p.segment, p.at = m.segment, m.at
			p.segment.using++
		}
		bytes += p.size
		list = append(list, p)
	}
	u.outbox = u.outbox[:copy(u.outbox, u.outbox[len(list):])]
	for i := range list {
		if p := &list[i]; p.segment != nil {
			for p.segment.stored < p.at+int64(p.size) {
				s.j.moved.Wait()
			}
		}
	}
	return list
}

// pack appends the frame.
func (c *conn) pack(number int32, list []parcel) {
	s := c.s
	c.load(list)
	start, bytes := 0, 0
	c.out, start = beginFrame(c.out, frameDeliver)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(number))
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(list)))
	for i := range list {
		p := &list[i]
		flags := byte(0)
		if p.again {
			flags = redelivered
		}
		c.out = append(binary.BigEndian.AppendUint64(c.out, p.id), flags)
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(p.size))
		c.out = append(c.out, p.body...)
		bytes += p.size
	}
	c.out = endFrame(c.out, start)
	s.m.Work(machine.Work{Queue: machine.QueueWork{Passed: len(list)}, Copied: int64(bytes)})
}

// load reads the messages that are not in memory. Neighbours in the journal, as they are as a rule, are read together.
func (c *conn) load(list []parcel) {
	s := c.s
	const between = 256 // bytes between two messages that are worth reading in one go
	need := 0
	for i := range list {
		if list[i].segment != nil {
			need += list[i].size + between
		}
	}
	if need == 0 {
		return
	}
	if cap(c.pages) < need {
		c.pages = make([]byte, 0, need)
	}
	free := c.pages[:need]
	for i := 0; i < len(list); {
		first := &list[i]
		if first.segment == nil {
			i++
			continue
		}
		end, k := first.at+int64(first.size), i+1
		for k < len(list) && list[k].segment == first.segment && list[k].at >= end && list[k].at-end <= between {
			end = list[k].at + int64(list[k].size)
			k++
		}
		p := free[:end-first.at]
		free = free[len(p):]
		s.m.Work(machine.Work{Copied: int64(len(p)), Syscalls: 1})
		if _, err := machine.ReadFull(first.segment.file, p, first.at); err != nil {
			s.m.Exit(fmt.Errorf("queue: read the journal: %w", err))
		}
		for ; i < k; i++ {
			list[i].body = p[list[i].at-first.at:][:list[i].size]
		}
	}
	s.mu.Lock()
	for i := range list {
		if list[i].segment != nil {
			s.done(list[i].segment)
		}
	}
	s.mu.Unlock()
}
