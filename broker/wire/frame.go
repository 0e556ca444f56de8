// Package wire puts Kafka protocol messages on a byte stream and takes them off again: 4-byte length frames, request
// headers v1 and v2, response headers v0 and v1, and kmsg bodies. It does no I/O but on the reader it is given.
//
// Buffers belong to the caller and are reused; what is decoded refers to them (strings too, on the broker's side), so
// a decoded message lives only as long as its frame's buffer is left alone.
//
// Source: the Kafka protocol guide; KIP-482 (flexible versions), KIP-511 (ApiVersions).
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrGarbage: the bytes are not the Kafka protocol. Nothing that follows on the stream can be understood.
var ErrGarbage = errors.New("not a Kafka message")

// MinRequest is the smallest request frame: key, version, correlation id. (Version 0 of one ancient request has no client id.)
const MinRequest = 8

// growStep bounds what a length prefix alone can make the reader allocate.
const growStep = 256 << 10

// roomStep is what the memory of a large frame is a multiple of, so that it has room for another one of about the same size.
const roomStep = 64 << 10

// keepBytes is the largest buffer that is kept for the next frame when this one needed much less.
const keepBytes = 4 << 20

// ReadFrame reads one frame and returns its bytes, without the length, in buf's memory when they fit. It returns io.EOF
// only between frames, io.ErrUnexpectedEOF inside one, and ErrGarbage when the length is below least or above most.
func ReadFrame(r io.Reader, buf []byte, least, most int) ([]byte, error) {
	buf, size, err := readLength(r, buf, least, most)
	if err != nil {
		return buf[:0], err
	}
	return readBody(r, buf, size)
}

// readLength reads how long a frame is, through buf or new memory in its place.
func readLength(r io.Reader, buf []byte, least, most int) ([]byte, int, error) {
	if cap(buf) < 4 {
		buf = make([]byte, 0, 512)
	}
	// The length goes through buf: a local array would escape to the heap with every frame.
	if n, err := io.ReadFull(r, buf[:4]); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return buf, 0, io.EOF
		}
		return buf, 0, err
	}
	size, err := frameSize(buf[:4], least, most)
	return buf, size, err
}

// readBody reads the rest of a frame, in buf's memory when it fits.
func readBody(r io.Reader, buf []byte, size int) ([]byte, error) {
	if cap(buf) > keepBytes && size < keepBytes/4 {
		buf = nil
	}
	if size <= cap(buf) || size <= growStep {
		if size > cap(buf) {
			buf = make([]byte, size)
		}
		_, err := io.ReadFull(r, buf[:size])
		return buf[:size], inside(err)
	}
	// Large: believe the length only as fast as bytes arrive.
	buf = buf[:0]
	for len(buf) < size {
		have := len(buf)
		next := min(size, have+max(growStep, have))
		if next > cap(buf) {
			bigger := make([]byte, have, (next+roomStep-1)/roomStep*roomStep)
			copy(bigger, buf)
			buf = bigger
		}
		buf = buf[:next]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			return buf[:0], inside(err)
		}
	}
	return buf, nil
}

func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func frameSize(prefix []byte, least, most int) (int, error) {
	size := int(int32(binary.BigEndian.Uint32(prefix)))
	if size >= least && size <= most {
		return size, nil
	}
	hint := ""
	switch {
	case prefix[0] == 0x16 && prefix[1] == 3:
		hint = "; the peer seems to speak TLS: this port takes plain text"
	case printable(prefix):
		hint = fmt.Sprintf("; the peer sent %q: is it an HTTP client?", prefix)
	case size > most:
		hint = "; raise the limit if the peer is honest"
	}
	return 0, fmt.Errorf("%w: frame of %d bytes, expected %d to %d%s", ErrGarbage, size, least, most, hint)
}

func printable(p []byte) bool {
	for _, b := range p {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}
