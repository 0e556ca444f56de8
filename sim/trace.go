package sim

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Kind classes events.
type Kind uint8

const (
	KindRun   Kind = iota + 1 // a task gets the processor
	KindStart                 // a task starts. A: hash of its name
	KindEnd                   // a task ends
	KindWake                  // a parked task becomes runnable
	KindTimer                 // a timer fires. A: its argument
	KindNet                   // Text: what. See sim/net
	KindDisk                  // Text: operation and path. See sim/disk
	KindFault                 // Text: the fault
	KindState                 // an event of a program (machine.Event). Text: kind and subject
	KindDraw                  // a decision of a failpoint
)

func (k Kind) String() string {
	return [...]string{"?", "run", "start", "end", "wake", "timer", "net", "disk", "fault", "state", "draw"}[k]
}

// Entry is one event as traced.
type Entry struct {
	Seq    uint64 // 1 for the first event of the world
	At     time.Duration
	Kind   Kind
	Task   *Task  // the task that it happened in or to, if any
	Origin string // machine or link, if any
	Text   string
	Detail string
	A, B   uint64
}

func (e *Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9d %14s %-5s", e.Seq, e.At, e.Kind)
	if e.Task != nil {
		fmt.Fprintf(&b, " %s#%d", e.Task, e.Task.id)
	}
	for _, s := range [...]string{e.Origin, e.Text, e.Detail} {
		if s != "" {
			b.WriteByte(' ')
			b.WriteString(s)
		}
	}
	if e.A != 0 || e.B != 0 {
		fmt.Fprintf(&b, " %d %d", int64(e.A), int64(e.B))
	}
	return b.String()
}

// record folds an event of the kernel itself.
func (w *World) record(k Kind, t *Task, a, b uint64) {
	var id uint64
	if t != nil {
		id = uint64(t.id)
	}
	w.fold(uint64(k)|id<<8, a, b)
	if w.cfg.Trace != nil {
		w.show(Entry{Kind: k, Task: t, A: a, B: b})
	}
}

// show passes the latest event to the trace.
func (w *World) show(e Entry) {
	e.Seq, e.At = w.events, w.Now()
	w.shown = e
	w.cfg.Trace(&w.shown)
}

// Record folds an event of a model or a program into the hash and the trace. The strings must be kept ones.
func (w *World) Record(k Kind, origin, text, detail string, a, b uint64) {
	var id uint64
	if w.cur != nil {
		id = uint64(w.cur.id)
	}
	w.fold(uint64(k)|id<<8, a^textHash(text), b^textHash(origin))
	if detail != "" {
		w.hash = mum(w.hash^textHash(detail), 0xd6e8feb86659fd93)
	}
	if w.cfg.Trace != nil {
		w.show(Entry{Kind: k, Task: w.cur, Origin: origin, Text: text, Detail: detail, A: a, B: b})
	}
}

func (w *World) fold(x, a, b uint64) {
	w.events++
	w.instant++
	if w.instant > w.cfg.MaxInstant && w.halt == nil {
		w.livelock(w.cur)
	}
	h := mum(w.hash^x^0x2d358dccaa6c78a5, uint64(w.now)^0x8bb84b93962eacc9)
	w.hash = mum(h^a, b^0x4b33a62ed433d4a3) + w.events
}

// mum is the mixing step of wyhash: the two halves of a 128-bit product.
func mum(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo ^ a
}

func finish(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

func textHash(s string) uint64 { return xxhash.Sum64String(s) }

// HashBytes is the hash of a payload, for events that carry one.
func HashBytes(p []byte) uint64 { return xxhash.Sum64(p) }
