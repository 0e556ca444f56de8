package wire

import (
	"bufio"
	"errors"
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

// Keep takes memory that nobody refers to any more, and gives back what its owner keeps of it: all, or nothing.
func (s *Spare) Keep(buf []byte) []byte {
	if s == nil || cap(buf) <= ownBytes {
		return buf
	}
	if cap(buf) > keepBytes {
		return nil
	}
	for i := range s.slots {
		if p := s.slots[i].Load(); (p == nil || cap(*p) < cap(buf)) && s.slots[i].CompareAndSwap(p, &buf) {
			break
		}
	}
	return nil
}

// Read is [ReadFrame], in buf's memory where the frame fits in, else in spare memory.
func (s *Spare) Read(r *bufio.Reader, buf []byte, least, most int) ([]byte, error) {
	if s == nil {
		return ReadFrame(r, buf, least, most)
	}
	length, err := r.Peek(4)
	if err != nil {
		if len(length) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return buf[:0], err
	}
	size, err := frameSize(length, least, most)
	if err != nil {
		return buf[:0], err
	}
	if size > cap(buf) {
		if spare := s.Take(size); spare != nil {
			buf = spare
		}
	}
	return ReadFrame(r, buf, least, most)
}
