package oracle

import "math/bits"

// window is a set of offsets: every one below base is in it, of those above only some. Its memory depends on how far the largest
// is above base.
type window struct {
	base  int64
	words []uint64 // bit o of the set is bit o%64 of words[o/64-first]
	first int64
}

// windowLimit is how far above base an offset may be. A larger one is no offset that a run can produce.
const windowLimit = 1 << 28

// startAt empties the set and moves base, to where a reader begins.
func (w *window) startAt(base int64) { *w = window{base: base, first: base >> 6} }

// has reports whether the offset is in the set.
func (w *window) has(o int64) bool {
	if o < w.base {
		return true
	}
	i := o>>6 - w.first
	return i < int64(len(w.words)) && w.words[i]>>(uint(o)&63)&1 == 1
}

// add puts the offset in and reports whether it is new. One beyond the limit is not kept, and counts as new.
func (w *window) add(o int64) bool {
	if o < w.base {
		return false
	}
	if o-w.base >= windowLimit {
		return true
	}
	i := int(o>>6 - w.first)
	for i >= len(w.words) {
		w.words = append(w.words, 0)
	}
	bit := uint64(1) << (uint(o) & 63)
	if w.words[i]&bit != 0 {
		return false
	}
	w.words[i] |= bit
	if o == w.base {
		w.advance()
	}
	return true
}

// addRange puts [from, to) in.
func (w *window) addRange(from, to int64) {
	from = max(from, w.base)
	if from == w.base && to > from {
		// All below to is in the set then: no need to touch bits one by one.
		w.moveBase(to)
		return
	}
	for o := from; o < to; o++ {
		w.add(o)
	}
}

// moveBase puts everything below to in.
func (w *window) moveBase(to int64) {
	if to <= w.base {
		return
	}
	if drop := to>>6 - w.first; drop >= int64(len(w.words)) {
		w.words, w.first = w.words[:0], to>>6
	}
	w.base = to
	w.advance()
}

// advance moves base over what is in the set, and gives the words below it back.
func (w *window) advance() {
	for {
		i := w.base>>6 - w.first
		if i >= int64(len(w.words)) {
			break
		}
		gap := bits.TrailingZeros64(^w.words[i] >> (uint(w.base) & 63))
		rest := 64 - int(uint(w.base)&63)
		if gap < rest {
			w.base += int64(gap)
			break
		}
		w.base += int64(rest)
	}
	drop := int(w.base>>6 - w.first)
	switch {
	case drop >= len(w.words):
		w.words, w.first = w.words[:0], w.base>>6
	case drop > 32 && drop > len(w.words)/2:
		n := copy(w.words, w.words[drop:])
		w.words, w.first = w.words[:n], w.first+int64(drop)
	}
}

// next returns the smallest offset that is at least o and not in the set.
func (w *window) next(o int64) int64 {
	for o = max(o, w.base); w.has(o); o++ {
	}
	return o
}
