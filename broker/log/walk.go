package log

import (
	"fmt"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// window is how much a walk reads at a time: more than one index interval, so that a lookup takes one read.
const window = 8 << 10

// spot is a boundary between batches: the batch that starts at pos has, or will have, this base offset.
type spot struct{ offset, pos int64 }

func (s spot) after(h *record.Header) spot { return spot{h.NextOffset(), s.pos + int64(h.Size())} }

// walk reads batch headers of a segment file one after the other.
type walk struct {
	file  machine.File
	end   int64 // nothing at or after this position counts
	buf   []byte
	start int64 // position of buf[0]
	n     int   // bytes in buf
}

// batch reads the header of the batch that is expected at a spot, which must lie whole before the end. Errors: ErrDamaged when it is not there, or one of the disk.
func (w *walk) batch(at spot) (record.Header, error) {
	if at.pos < w.start || at.pos+record.HeaderBytes > w.start+int64(w.n) {
		if err := w.fill(at.pos); err != nil {
			return record.Header{}, err
		}
	}
	h, err := record.ParseHeader(w.buf[at.pos-w.start : w.n])
	switch {
	case err != nil:
		return h, fmt.Errorf("%w: %s, position %d: %w", ErrDamaged, w.file.Name(), at.pos, err)
	case h.BaseOffset != at.offset:
		return h, fmt.Errorf("%w: %s, position %d: base offset %d, want %d", ErrDamaged, w.file.Name(), at.pos, h.BaseOffset, at.offset)
	case at.pos+int64(h.Size()) > w.end:
		return h, fmt.Errorf("%w: %s, position %d: a batch of %d bytes, the segment ends at %d", ErrDamaged, w.file.Name(), at.pos, h.Size(), w.end)
	}
	return h, nil
}

func (w *walk) fill(pos int64) error {
	w.start, w.n = pos, 0
	n := min(int64(len(w.buf)), w.end-pos)
	if n < record.HeaderBytes {
		return fmt.Errorf("%w: %s, position %d: %d bytes are left, a batch has more", ErrDamaged, w.file.Name(), pos, n)
	}
	k, err := machine.ReadFull(w.file, w.buf[:n], pos)
	if err != nil {
		return fmt.Errorf("read %s at %d: %w", w.file.Name(), pos, err)
	}
	w.n = k
	return nil
}

// borrow takes a spare window; give it back with lend. Call with mu.
func (l *Log) borrow() []byte {
	if n := len(l.buffers); n > 0 {
		b := l.buffers[n-1]
		l.buffers = l.buffers[:n-1]
		return b
	}
	return make([]byte, window)
}

// lend gives a window back. Call with mu.
func (l *Log) lend(b []byte) { l.buffers = append(l.buffers, b) }
