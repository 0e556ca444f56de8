// Package packed codes numbers in as few bytes as they need (those of [encoding/binary]) and texts behind their length: what the servers of the coordination service write into their logs, and
// send each other.
package packed

import (
	"encoding/binary"
	"fmt"
)

// AppendText encodes bytes behind their length.
func AppendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Reader reads from the front. The first error sticks: what is read after it is zero. It is made as Reader{Rest: bytes, Wrap: error}.
type Reader struct {
	Rest []byte // what was not read yet
	Err  error
	Wrap error // what the error of malformed bytes wraps
}

// Fail notes that what was read cannot be.
func (r *Reader) Fail(what string) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%w: bad %s, %d bytes before the end", r.Wrap, what, len(r.Rest))
	}
	r.Rest = nil
}

// Bytes takes so many bytes. They alias what is read.
func (r *Reader) Bytes(n int) []byte {
	if n < 0 || n > len(r.Rest) {
		r.Fail("length")
		return nil
	}
	v := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return v
}

// Byte takes one.
func (r *Reader) Byte() byte {
	if v := r.Bytes(1); v != nil {
		return v[0]
	}
	return 0
}

// Uint is a number of AppendUints.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if !r.took(n) {
		return 0
	}
	return v
}

// Int is a number of AppendInts.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.Rest)
	if !r.took(n) {
		return 0
	}
	return v
}

// took takes the n bytes of a number; none: there is no number.
func (r *Reader) took(n int) bool {
	if n <= 0 {
		r.Fail("number")
		return false
	}
	r.Rest = r.Rest[n:]
	return true
}

// Count is the number of elements that follow, which take at least size bytes each.
func (r *Reader) Count(size int) int {
	v := r.Uint()
	if v > uint64(len(r.Rest)/size) {
		r.Fail("count")
		return 0
	}
	return int(v)
}

// Text is what AppendText wrote. The bytes alias what is read.
func (r *Reader) Text() []byte { return r.Bytes(r.Count(1)) }

// End is the error, also that of bytes that are left.
func (r *Reader) End() error {
	if r.Err == nil && len(r.Rest) > 0 {
		r.Fail("end")
	}
	return r.Err
}
