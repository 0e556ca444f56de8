// Package sequence is what a partition's log knows of idempotent producers (KIP-98): which batches each appended last, so that a batch that is sent again is in the log once and in its
// place. It is plain data: no I/O, no clock. Leaders check with it; followers and recovery only note what is in the log.
package sequence

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

var (
	// ErrFenced: a later incarnation of the producer has appended already.
	ErrFenced = errors.New("producer epoch is over")
	// ErrOutOfOrder: a batch before this one is missing.
	ErrOutOfOrder = errors.New("sequence number out of order")
	// ErrUnknown: nothing is known of the producer, so it must begin at 0. Its batches were deleted, or it is forgotten after a long silence.
	ErrUnknown = errors.New("unknown producer")
	// ErrDuplicate: the batch was appended so long ago that its offset is not known any more.
	ErrDuplicate = errors.New("sequence number was appended before")
)

// Window is how many of a producer's latest batches a retry is recognised among. It bounds the requests that a producer may have under way.
const Window = 5

// kept is how many of a producer's batches stay known: so many as it may have under way may be cut off a log again, and those before them are to be recognised then, be they in the log or deleted.
const kept = 2 * Window

// Batch is an appended batch, or one that asks to be.
type Batch struct {
	Producer    int64
	Epoch       int16
	First, Last int32 // sequence numbers; they go from MaxInt32 to 0
	Base, End   int64 // offsets of its first and last record
	Time        int64 // ms since 1970
}

// entry is one producer. Batches rise in offset; all are of the epoch.
type entry struct {
	epoch   int16
	batches []Batch
}

// Producers is all that is known. The zero value knows nobody.
type Producers struct{ byID map[int64]*entry }

// Next is the sequence number after one.
func Next(sequence int32) int32 {
	if sequence == math.MaxInt32 {
		return 0
	}
	return sequence + 1
}

// Check decides about a batch that asks to be appended. dup is the batch that it is a copy of, if it was appended before.
func (p *Producers) Check(b *Batch) (dup *Batch, err error) {
	e := p.byID[b.Producer]
	switch {
	case e == nil && b.First == 0:
		return nil, nil
	case e == nil:
		return nil, fmt.Errorf("%w: producer %d begins at %d", ErrUnknown, b.Producer, b.First)
	case b.Epoch < e.epoch:
		return nil, fmt.Errorf("%w: producer %d is in epoch %d, the batch of %d", ErrFenced, b.Producer, e.epoch, b.Epoch)
	case b.Epoch > e.epoch && b.First == 0:
		return nil, nil
	case b.Epoch > e.epoch:
		return nil, fmt.Errorf("%w: producer %d begins epoch %d at %d", ErrOutOfOrder, b.Producer, b.Epoch, b.First)
	}
	for i := range e.batches {
		if k := &e.batches[i]; k.First == b.First && k.Last == b.Last {
			return k, nil
		}
	}
	last := e.batches[len(e.batches)-1].Last
	// The numbers are a ring of 2^31: the distance is a number of 31 bits with a sign.
	switch ahead := int32(uint32(b.First-Next(last))<<1) >> 1; {
	case ahead == 0:
		return nil, nil
	case ahead < 0:
		return nil, fmt.Errorf("%w: producer %d is at %d, the batch at %d", ErrDuplicate, b.Producer, last, b.First)
	}
	return nil, fmt.Errorf("%w: producer %d is at %d, the batch at %d", ErrOutOfOrder, b.Producer, last, b.First)
}

// Add notes a batch that is in the log.
func (p *Producers) Add(b Batch) {
	e := p.byID[b.Producer]
	if e == nil {
		if p.byID == nil {
			p.byID = map[int64]*entry{}
		}
		e = &entry{epoch: b.Epoch}
		p.byID[b.Producer] = e
	}
	if b.Epoch != e.epoch {
		e.epoch, e.batches = b.Epoch, nil
	}
	e.batches = append(e.batches, b)
}

// Truncate forgets the batches from an offset on.
func (p *Producers) Truncate(to int64) {
	for id, e := range p.byID { // order: each entry by itself
		e.batches = slices.DeleteFunc(e.batches, func(b Batch) bool { return b.End >= to })
		if len(e.batches) == 0 {
			delete(p.byID, id)
		}
	}
}

// Precede adds, before what is known of each producer, what an earlier account knew of batches that lie before, and below an offset: the log may not have them any more. Both are of one log.
func (p *Producers) Precede(earlier *Producers, offset int64) {
	for id, was := range earlier.byID { // order: each entry by itself
		e := p.byID[id]
		to := offset
		if e != nil {
			to = min(to, e.batches[0].Base)
		}
		n, _ := slices.BinarySearchFunc(was.batches, to, func(b Batch, o int64) int { return cmp.Compare(b.End, o) })
		switch before := was.batches[:n]; {
		case e == nil:
			for _, b := range before {
				p.Add(b)
			}
		case e.epoch == was.epoch:
			e.batches = slices.Concat(before, e.batches)
		}
	}
}

// Prune forgets what is not needed any more: all but the last few of the batches below an offset, those from there on being all kept, and producers whose last batch is from before a time. So
// Below can tell for the offset what was known there.
func (p *Producers) Prune(offset, before int64) {
	for id, e := range p.byID { // order: each entry by itself
		if e.batches[len(e.batches)-1].Time < before {
			delete(p.byID, id)
			continue
		}
		n, _ := slices.BinarySearchFunc(e.batches, offset, func(b Batch, o int64) int { return cmp.Compare(b.End, o) })
		if drop := n - kept; drop > 0 {
			e.batches = slices.Clone(e.batches[drop:])
		}
	}
}

// Below lists the batches that are known below an offset, the last few of each producer, by producer and offset.
func (p *Producers) Below(offset int64) []Batch {
	var out []Batch
	for _, e := range p.byID { // order: sorted below
		n, _ := slices.BinarySearchFunc(e.batches, offset, func(b Batch, o int64) int { return cmp.Compare(b.End, o) })
		out = append(out, e.batches[max(0, n-kept):n]...)
	}
	slices.SortFunc(out, func(a, b Batch) int { return cmp.Or(cmp.Compare(a.Producer, b.Producer), cmp.Compare(a.Base, b.Base)) })
	return out
}

// Needs reports whether the batch of a producer that ends at this offset says where its sequence stands, as far as the log goes below another offset: it is the last one there, or there is none below that
// is known.
func (p *Producers) Needs(producer int64, end, below int64) bool {
	e := p.byID[producer]
	if e == nil {
		return false
	}
	n, _ := slices.BinarySearchFunc(e.batches, below, func(b Batch, o int64) int { return cmp.Compare(b.End, o) })
	return n == 0 || end >= e.batches[n-1].End
}

// String is the batch as a word of a text file.
func (b Batch) String() string {
	return fmt.Sprintf("%d/%d/%d-%d/%d-%d/%d", b.Producer, b.Epoch, b.First, b.Last, b.Base, b.End, b.Time)
}

// Parse reads a word that String made.
func Parse(word string) (b Batch, ok bool) {
	n, err := fmt.Sscanf(word, "%d/%d/%d-%d/%d-%d/%d", &b.Producer, &b.Epoch, &b.First, &b.Last, &b.Base, &b.End, &b.Time)
	return b, err == nil && n == 7 && b.Producer >= 0 && b.Base >= 0 && b.End >= b.Base && strings.Compare(word, b.String()) == 0
}
