package log

import (
	"fmt"

	"faultline/broker/replica"
)

// What a log knows of leader epochs: where each begins. It learns them from the batches that are appended, keeps those below the recovery point in
// the checkpoint, and finds the others again when it recovers.

// Fence refuses, with ErrOldEpoch, whatever wants to change the log in the name of an older leader epoch: an append of a leader that is none any more, a copy or a cut of a follower that
// has another leader by now. What is under way is done when Fence returns.
func (l *Log) Fence(epoch int32) {
	l.flushing.Lock()
	l.appending.Lock()
	l.least = max(l.least, epoch)
	l.appending.Unlock()
	l.flushing.Unlock()
}

// current refuses a change in the name of an older leader epoch. Call with appending.
func (l *Log) current(epoch int32) error {
	if epoch < l.least {
		return fmt.Errorf("log %s: %w: it is in leader epoch %d, this is of %d", l.subject, ErrOldEpoch, l.least, epoch)
	}
	return nil
}

// Reach is what a follower tells its leader of its log, all at one moment: the leader epoch of the last record (-1: there is no record, or it tells no epoch), the log start
// and the log end.
func (l *Log) Reach() (epoch int32, start, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.start == l.end {
		return -1, l.start, l.end
	}
	return l.epochs.Latest(), l.start, l.end
}

// EpochAt is the leader epoch of the record at the offset, -1: not known.
func (l *Log) EpochAt(offset int64) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.At(offset)
}

// EpochEnd is the largest epoch that is not above the one asked for and the offset behind its last record; -1, -1: not known. See replica.Epochs.
func (l *Log) EpochEnd(epoch int32) (int32, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.End(epoch, l.end)
}

// Diverges compares another log, which ends at an offset in an epoch, with this one: see replica.Epochs. A log that ends beyond this one parts from it at its end. known is false when
// the other log ends below the start of this one.
func (l *Log) Diverges(offset int64, epoch int32) (where replica.Divergence, parted, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < l.start {
		return where, false, false
	}
	if where, parted = l.epochs.Diverges(offset, epoch, l.start, l.end); !parted && offset > l.end {
		return replica.Divergence{Epoch: epoch, End: l.end}, true, true
	}
	return where, parted, true
}

// CutPoint is where this log must be cut, or begin anew, after its leader, whose log starts at first, answered that it diverges: see replica.Epochs.
func (l *Log) CutPoint(d replica.Divergence, first int64) (to int64, anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.Cut(d, first, l.start, l.end)
}
