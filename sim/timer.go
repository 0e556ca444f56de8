package sim

import (
	"math/bits"
	"time"
)

// Event is something that the loop does at a moment, outside any task.
type Event interface{ Fire(arg uint64) }

// Timer is a pending event. Its owner keeps it and may use it again once it has fired or was stopped.
type Timer struct {
	ev   Event
	arg  uint64
	task *Task // wake this task instead
	at   int   // index in the heap, -1: not pending
}

// NewTimer makes a timer for an event.
func NewTimer(ev Event) *Timer { return &Timer{ev: ev, at: -1} }

// Init readies a timer that is part of a larger value.
func (t *Timer) Init(ev Event) { t.ev, t.at = ev, -1 }

// Pending tells whether the timer is set.
func (t *Timer) Pending() bool { return t.at >= 0 }

// Set lets the timer fire at the given world time with the argument, replacing an earlier setting.
// Timers of one instant fire in the order in which they were set.
func (w *World) Set(t *Timer, when time.Duration, arg uint64) {
	w.timers.remove(t)
	t.arg = arg
	w.timers.add(w, t, max(int64(when), w.now))
}

// Unset stops a timer and reports whether it was pending.
func (w *World) Unset(t *Timer) bool { return w.timers.remove(t) }

// At runs fn in the loop at the given world time.
func (w *World) At(when time.Duration, fn func()) *Timer {
	t := NewTimer(call(fn))
	w.Set(t, when, 0)
	return t
}

type call func()

func (c call) Fire(uint64) { c() }

// timerHeap is a 4-ary heap ordered by (time, order of setting); every timer knows its index so that it can be removed.
type timerHeap struct{ h []timerEntry }

type timerEntry struct {
	when int64
	seq  uint64
	t    *Timer
}

func (e *timerEntry) before(o *timerEntry) bool {
	return e.when < o.when || e.when == o.when && e.seq < o.seq
}

// borrow is before as a number: what the difference of the two, taken as numbers of 128 bits, borrows. The earliest of four is found without a
// branch, which no processor could foretell.
func (e *timerEntry) borrow(o *timerEntry) uint64 {
	_, b := bits.Sub64(e.seq, o.seq, 0)
	_, b = bits.Sub64(uint64(e.when), uint64(o.when), b)
	return b
}

func (q *timerHeap) len() int    { return len(q.h) }
func (q *timerHeap) next() int64 { return q.h[0].when }

func (q *timerHeap) add(w *World, t *Timer, when int64) {
	w.seq++
	q.h = append(q.h, timerEntry{})
	q.up(len(q.h)-1, timerEntry{when, w.seq, t})
}

func (q *timerHeap) pop() *Timer {
	t := q.h[0].t
	q.remove(t)
	return t
}

func (q *timerHeap) remove(t *Timer) bool {
	i := t.at
	if i < 0 {
		return false
	}
	t.at = -1
	n := len(q.h) - 1
	e := q.h[n]
	q.h[n] = timerEntry{}
	q.h = q.h[:n]
	if i == n {
		return true
	}
	if i > 0 && e.before(&q.h[(i-1)/4]) {
		q.up(i, e)
	} else {
		q.down(i, e)
	}
	return true
}

func (q *timerHeap) up(i int, e timerEntry) {
	h := q.h
	for i > 0 {
		p := (i - 1) / 4
		if !e.before(&h[p]) {
			break
		}
		h[i] = h[p]
		h[i].t.at = i
		i = p
	}
	h[i] = e
	e.t.at = i
}

func (q *timerHeap) down(i int, e timerEntry) {
	h := q.h
	for {
		c := i*4 + 1
		if c >= len(h) {
			break
		}
		m := c
		for k := c + 1; k < min(c+4, len(h)); k++ {
			m += (k - m) & -int(h[k].borrow(&h[m]))
		}
		if !h[m].before(&e) {
			break
		}
		h[i] = h[m]
		h[i].t.at = i
		i = m
	}
	h[i] = e
	e.t.at = i
}
