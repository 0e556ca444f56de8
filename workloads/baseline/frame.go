package baseline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A frame is a length (4 bytes, big endian, of what follows), a kind (1 byte) and a body. From a client:
//
//	bind     topic, queue (each 2 bytes length and text)      messages of the topic go to the queue from now on; answered by bound
//	publish  confirm (1), topic (2+n), count (4), then for each message its length (4) and bytes; frames are numbered from 1 on a connection
//	consume  window (4), queue (2+n)                          push messages, with at most so many unacknowledged
//	ack      queue number (4), count (4), then ranges of ids: first (8), how many (4)
//	pong     -
//
// From a server:
//
//	bound    -
//	confirm  number (8)                                       all frames up to this one
//	deliver  queue number (4), count (4), then for each message its id (8), flags (1), length (4) and bytes
//	ping     -                                                wants a pong
const (
	frameBind byte = iota + 1
	framePublish
	frameConsume
	frameAck
	framePong
	frameBound
	frameConfirm
	frameDeliver
	framePing
)

const (
	frameHead   = 5 // length and kind
	maxFrame    = 64 << 20
	deliverHead = 13 // of each message
	redelivered = 1  // flag: it may have been handed over before
)

var errFrame = errors.New("malformed frame")

// beginFrame appends the head of a frame, endFrame completes it; start is where it begins.
func beginFrame(dst []byte, kind byte) (out []byte, start int) {
	return append(dst, 0, 0, 0, 0, kind), len(dst)
}

func endFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

func emptyFrame(dst []byte, kind byte) []byte {
	out, start := beginFrame(dst, kind)
	return endFrame(out, start)
}

func appendText(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func bindFrame(dst []byte, topic, queue string) []byte {
	dst, start := beginFrame(dst, frameBind)
	return endFrame(appendText(appendText(dst, topic), queue), start)
}

func consumeFrame(dst []byte, window int, queue string) []byte {
	dst, start := beginFrame(dst, frameConsume)
	return endFrame(appendText(binary.BigEndian.AppendUint32(dst, uint32(window)), queue), start)
}

func confirmFrame(dst []byte, number uint64) []byte {
	dst, start := beginFrame(dst, frameConfirm)
	return endFrame(binary.BigEndian.AppendUint64(dst, number), start)
}

// span is a range of ids.
type span struct {
	first uint64
	count uint32
}

// addSpan adds an id to ranges, to the last of them if it is the next there.
func addSpan(list []span, id uint64) []span {
	if n := len(list); n > 0 {
		if l := &list[n-1]; l.first+uint64(l.count) == id && l.count < math.MaxUint32 {
			l.count++
			return list
		}
	}
	return append(list, span{id, 1})
}

func appendSpans(dst []byte, queue int32, list []span) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(queue))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(list)))
	for _, s := range list {
		dst = binary.BigEndian.AppendUint64(dst, s.first)
		dst = binary.BigEndian.AppendUint32(dst, s.count)
	}
	return dst
}

// reader takes fields off a frame or a journal record. After an error all fields are zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.rest)) {
		r.err = fmt.Errorf("%w: a field of %d bytes, %d are left", errFrame, n, len(r.rest))
	}
	if r.err != nil {
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() int {
	if b := r.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) u32() int {
	if b := r.take(4); b != nil {
		return int(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// text refers to the frame's memory.
func (r *reader) text() []byte { return r.take(r.u16()) }

// count is how many entries of at least so many bytes each follow.
func (r *reader) count(least int) int {
	n := r.u32()
	if r.err == nil && n > len(r.rest)/least {
		r.err = fmt.Errorf("%w: %d entries in %d bytes", errFrame, n, len(r.rest))
		return 0
	}
	return n
}

// end is the error of the whole; bytes that are left over are one.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%w: %d bytes are left over", errFrame, len(r.rest))
	}
	return r.err
}

// spans reads what appendSpans wrote.
func (r *reader) spans(list []span) (queue int32, out []span) {
	queue = int32(r.u32())
	for range r.count(12) {
		list = append(list, span{r.u64(), uint32(r.u32())})
	}
	return queue, list
}
