package replica

import (
	"fmt"
	"slices"
	"sort"
)

// Entry says that a leader epoch begins at an offset.
type Entry struct {
	Epoch int32
	Start int64
}

// Epochs is the history of leader epochs of one log, rising in epoch and in offset. The zero value is that of an empty log.
type Epochs struct{ entries []Entry }

// NewEpochs makes a history of stored entries. They must rise.
func NewEpochs(entries []Entry) (Epochs, error) {
	for i, e := range entries {
		if e.Epoch < 0 || e.Start < 0 || i > 0 && (e.Epoch <= entries[i-1].Epoch || e.Start < entries[i-1].Start) {
			return Epochs{}, fmt.Errorf("leader epoch %d from offset %d on: want epochs and offsets that rise", e.Epoch, e.Start)
		}
	}
	return Epochs{slices.Clone(entries)}, nil
}

// Entries lists the history. The caller must not change it.
func (e *Epochs) Entries() []Entry { return e.entries }

// Latest is the last epoch, -1: there is none.
func (e *Epochs) Latest() int32 {
	if len(e.entries) == 0 {
		return -1
	}
	return e.entries[len(e.entries)-1].Epoch
}

// Begin notes that the epoch's records begin at start, and reports whether that was new. Epochs that begin at or behind start have no records and are forgotten.
func (e *Epochs) Begin(epoch int32, start int64) bool {
	if epoch <= e.Latest() {
		return false
	}
	e.entries = append(slices.Clip(e.until(start)), Entry{epoch, start})
	return true
}

// until are the entries that begin before an offset.
func (e *Epochs) until(offset int64) []Entry {
	i := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].Start >= offset })
	return e.entries[:i]
}

// At is the epoch of the record at an offset below the end, -1: not known.
func (e *Epochs) At(offset int64) int32 {
	before := e.until(offset + 1)
	if len(before) == 0 {
		return -1
	}
	return before[len(before)-1].Epoch
}

// End answers where an epoch ends in a log that ends at end: the largest epoch that is not above the one asked for, and the offset behind its last record
// (OffsetForLeaderEpoch, KIP-101 and KIP-279). For an epoch below all that are known it is that epoch and the start of what is known. Nothing known, or an epoch that is still to come: -1, -1.
func (e *Epochs) End(epoch int32, end int64) (int32, int64) {
	i := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].Epoch > epoch })
	switch {
	case len(e.entries) == 0 || epoch < 0:
		return -1, -1
	case i == 0:
		return epoch, e.entries[0].Start
	case i < len(e.entries):
		return e.entries[i-1].Epoch, e.entries[i].Start
	case e.entries[i-1].Epoch == epoch:
		return epoch, end
	}
	return -1, -1
}

// TruncateEnd forgets what begins at or behind an offset.
func (e *Epochs) TruncateEnd(end int64) { e.entries = slices.Clip(e.until(end)) }

// TruncateStart forgets what ends before an offset: the log now starts there. The epoch of the last record that went stays known, so that another log that ends there can be compared.
func (e *Epochs) TruncateStart(start int64) {
	if i := len(e.until(start)); i > 0 {
		e.entries = slices.Clone(e.entries[i-1:])
	}
}

// Divergence is a leader's answer to a follower whose log is not the beginning of its own: the largest epoch that is not above the follower's last one, and
// where it ends.
type Divergence struct {
	Epoch int32
	End   int64
}

// Diverges compares a follower's end (offset, and epoch of its last record) with this log, which has what lies from start to end. With an epoch of -1 (an empty log, or one that tells none) the
// offset alone counts.
func (e *Epochs) Diverges(offset int64, epoch int32, start, end int64) (Divergence, bool) {
	latest := e.Latest()
	switch {
	case epoch < 0:
		return Divergence{}, false
	case latest < 0:
		return Divergence{epoch, max(start-1, 0)}, true // there is nothing to tell by that anything below is the same
	case epoch < e.entries[0].Epoch:
		return Divergence{epoch, max(min(e.entries[0].Start, start-1), 0)}, true // nor what was here of that epoch, if there was any
	case epoch > latest:
		return Divergence{latest, end}, true
	}
	have, until := e.End(epoch, end)
	if have == epoch && until >= offset {
		return Divergence{}, false
	}
	return Divergence{have, until}, true
}

// Cut is where a follower, whose log has what lies from start to end, must cut it after the answer of its leader, whose log starts at first: the largest offset up to which both may be
// the same. The answer may have to be asked for again afterwards, with the epoch that is last then. anew: nothing of the log counts, and it begins anew there.
//
// A log that starts behind the leader's End begins anew there. One that would end before the leader's start is cut at that, and begins anew at it once it ends there. What lies below the leader's
// start is not to be cut off: a leader whose own log began anew cannot tell whether records are right that it never had, but they may be known to be committed.
func (e *Epochs) Cut(d Divergence, first, start, end int64) (to int64, anew bool) {
	own, until := e.End(d.Epoch, end)
	if own < 0 {
		until = end // the leader's epoch is above all of ours
	}
	switch to = max(start, min(until, d.End, end)); {
	case first <= to && to <= d.End:
		return to, false
	case first <= d.End && d.End < to:
		return d.End, true
	case start <= first && first < end:
		return first, false
	}
	return first, true
}
