package wire

import (
	"io"
	"sync/atomic"
)

// Spare is memory of large frames that nobody needs at the moment. Connections that share one hold such memory only while they have a frame in it: most of many connections wait. Its methods may be
// called from everywhere; what they give changes nothing but where bytes lie. A nil one keeps nothing: each connection has its own memory.
type Spare struct{ slots [16]atomic.Pointer[[]byte] }

// ownBytes is the largest memory that a connection keeps for itself.
const ownBytes = 8 << 10

// Take gives memory, empty, that so many bytes fit in; nil when there is none.
func (s *Spare) Take(size int) []byte {
	if s == nil {
		return nil
	}
	for i := range s.slots {
		if p := s.slots[i].Load(); p != nil && cap(*p) >= size && s.slots[i].CompareAndSwap(p, nil) {
			return (*p)[:0]
		}
	}
	return nil
}

// Keep takes the memory of a frame that nobody refers to any more, and gives back what its connection holds from now on: it, or what it has of its own.
func (s *Spare) Keep(frame, own []byte) []byte {
	if cap(frame) <= cap(own) {
		return own
	}
	if s == nil || cap(frame) <= ownBytes {
		return frame
	}
	if cap(frame) > keepBytes {
		return own
	}
	s.put(frame)
	return own
}

// put is apart from Keep, which so costs no memory when there is nothing to put.
func (s *Spare) put(frame []byte) {
	for i := range s.slots {
		if p := s.slots[i].Load(); (p == nil || cap(*p) < cap(frame)) && s.slots[i].CompareAndSwap(p, &frame) {
			return
		}
	}
}

// Read is [ReadFrame], in spare memory where the frame does not fit into the connection's own.
func (s *Spare) Read(r io.Reader, own []byte, least, most int) ([]byte, error) {
	own, size, err := readLength(r, own, least, most)
	if err != nil {
		return own[:0], err
	}
	if size > cap(own) {
		if spare := s.Take(size); spare != nil {
			own = spare
		}
	}
	return readBody(r, own, size)
}
