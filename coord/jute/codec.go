package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxPacket is the largest packet accepted from a client, in bytes without the length before it (ZooKeeper's jute.maxbuffer).
const MaxPacket = 1 << 20

// ErrMalformed is wrapped by every decoding error.
var ErrMalformed = errors.New("malformed record")

func appendInt(b []byte, v int32) []byte  { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendString(b []byte, s string) []byte { return append(appendInt(b, int32(len(s))), s...) }

// appendBuffer writes nil as null.
func appendBuffer(b, p []byte) []byte {
	if p == nil {
		return appendInt(b, -1)
	}
	return append(appendInt(b, int32(len(p))), p...)
}

func appendStrings(b []byte, list []string) []byte {
	b = appendInt(b, int32(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// decoder reads a packet from the front. The first error sticks; reads after it give zero values.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s with %d bytes left", ErrMalformed, what, len(d.rest))
		d.rest = nil
	}
}

func (d *decoder) int() int32 {
	if len(d.rest) < 4 {
		d.fail("int")
		return 0
	}
	v := int32(binary.BigEndian.Uint32(d.rest))
	d.rest = d.rest[4:]
	return v
}

func (d *decoder) long() int64 {
	if len(d.rest) < 8 {
		d.fail("long")
		return 0
	}
	v := int64(binary.BigEndian.Uint64(d.rest))
	d.rest = d.rest[8:]
	return v
}

func (d *decoder) bool() bool {
	if len(d.rest) < 1 {
		d.fail("boolean")
		return false
	}
	v := d.rest[0] != 0
	d.rest = d.rest[1:]
	return v
}

// buffer aliases the packet. Null is nil, empty is not.
func (d *decoder) buffer() []byte {
	n := d.int()
	if d.err != nil || n == -1 {
		return nil
	}
	if n < 0 || int(n) > len(d.rest) {
		d.fail(fmt.Sprintf("buffer of %d bytes", n))
		return nil
	}
	v := d.rest[:n:n]
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) string() string { return string(d.buffer()) }

// count reads the length of a vector whose elements take at least size bytes each, so that a lie cannot make us allocate. Null counts as empty.
func (d *decoder) count(size int) int {
	n := d.int()
	if d.err != nil || n == -1 {
		return 0
	}
	if n < 0 || int64(n)*int64(size) > int64(len(d.rest)) {
		d.fail(fmt.Sprintf("vector of %d", n))
		return 0
	}
	return int(n)
}

func (d *decoder) strings() []string {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.string())
	}
	return list
}

// end reports the first error, or that bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("end of packet expected")
	}
	return d.err
}
