package log

import "faultline/broker/replica"

// What a log knows of leader epochs: where each begins. It learns them from the batches that are appended and from [Log.BeginEpoch], keeps those below the recovery point in
// the checkpoint, and finds the others again when it recovers.

// BeginEpoch says that what is appended from now on belongs to the epoch.
func (l *Log) BeginEpoch(epoch int32) {
	l.mu.Lock()
	l.epochs.Begin(epoch, l.end)
	l.mu.Unlock()
}

// LastEpoch is the latest leader epoch and the log end, both at one moment; -1: the log knows no epoch.
func (l *Log) LastEpoch() (epoch int32, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.Latest(), l.end
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

// Diverges compares another log, which ends at an offset in an epoch, with this one. See replica.Epochs.
func (l *Log) Diverges(offset int64, epoch int32) (replica.Divergence, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.Diverges(offset, epoch, l.end)
}

// CutPoint is where this log must be cut after its leader answered that it diverges.
func (l *Log) CutPoint(d replica.Divergence) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.Cut(d, l.start, l.end)
}
