package load

import (
	"cmp"
	"slices"
)

// Feed hands the messages of a source to producers and gets them back: settled, or to be sent once more. It lives outside the
// machines, so what a crashed producer had under way is not forgotten. Several producers of one world may share it.
//
// It keeps a copy of every message that is under way, and nothing else.
type Feed struct {
	source Source
	insist bool
	ended  bool
	taken  int64
	away   []*Held // under way, in no order; Held.slot is the index
	again  []*Held // returned, to be sent again first come first served
	free   []*Held
}

// Held is a message under way. It must go back to its feed by Settle or Return, once; it may not be used afterwards.
type Held struct {
	buf    []byte
	key    int // length of the key at the start of buf; -1: none
	number int64
	owner  int
	slot   int
}

// Key is the message's key, nil when it has none.
func (h *Held) Key() []byte {
	if h.key < 0 {
		return nil
	}
	return h.buf[:h.key:h.key]
}

// Value is the message's value, never nil.
func (h *Held) Value() []byte { return h.buf[max(h.key, 0):] }

// NewFeed makes a feed. With insist, what is returned is sent again until it is settled; without, returning is settling.
func NewFeed(source Source, insist bool) *Feed { return &Feed{source: source, insist: insist} }

// Take gives the next message to the owner, a number of the caller's. nil means that there is none now; see Over.
func (f *Feed) Take(owner int) *Held {
	if len(f.again) > 0 {
		h := f.again[0]
		if f.again = f.again[1:]; len(f.again) == 0 {
			f.again = nil // let go of what lies before
		}
		f.lend(h, owner)
		return h
	}
	if f.ended {
		return nil
	}
	key, value, ok := f.source.Next()
	if !ok {
		f.ended = true
		return nil
	}
	var h *Held
	if n := len(f.free); n > 0 {
		h, f.free = f.free[n-1], f.free[:n-1]
	} else {
		h = new(Held)
	}
	h.key = -1
	if key != nil {
		h.key = len(key)
	}
	h.buf = append(append(h.buf[:0], key...), value...)
	h.number = f.taken
	f.taken++
	f.lend(h, owner)
	return h
}

func (f *Feed) lend(h *Held, owner int) {
	h.owner, h.slot = owner, len(f.away)
	f.away = append(f.away, h)
}

func (f *Feed) takeBack(h *Held) {
	last := f.away[len(f.away)-1]
	f.away[h.slot] = last
	last.slot = h.slot
	f.away[len(f.away)-1] = nil
	f.away = f.away[:len(f.away)-1]
}

// keepSpare is how many unused buffers are kept, of at most keepBytes each.
const keepSpare, keepBytes = 4096, 16 << 10

// Settle says that the message needs no further attempt.
func (f *Feed) Settle(h *Held) {
	f.takeBack(h)
	if len(f.free) < keepSpare && cap(h.buf) <= keepBytes {
		f.free = append(f.free, h)
	}
}

// Return says that the attempt came to nothing, or may have.
func (f *Feed) Return(h *Held) {
	if !f.insist {
		f.Settle(h)
		return
	}
	f.takeBack(h)
	f.again = append(f.again, h)
}

// ReturnAll returns everything that the owner has under way, in the order in which it was taken first. It is for owners that crashed.
func (f *Feed) ReturnAll(owner int) {
	var back []*Held
	for _, h := range f.away {
		if h.owner == owner {
			back = append(back, h)
		}
	}
	slices.SortFunc(back, func(a, b *Held) int { return cmp.Compare(a.number, b.number) })
	for _, h := range back {
		f.Return(h)
	}
}

// Over reports that the source has ended and that nothing is under way or to be sent again.
func (f *Feed) Over() bool { return f.ended && len(f.away) == 0 && len(f.again) == 0 }

// Ended reports that the source has made its last message, or was stopped.
func (f *Feed) Ended() bool { return f.ended }

// Away is how many messages are under way.
func (f *Feed) Away() int { return len(f.away) }

// Taken is how many messages the source has made.
func (f *Feed) Taken() int64 { return f.taken }

// Stop ends the source: only what is to be sent again is still handed out.
func (f *Feed) Stop() { f.ended = true }

// Err is the source's error.
func (f *Feed) Err() error { return f.source.Err() }
