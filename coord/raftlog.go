package coord

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/tree"
)

// raftLog is the part of the replicated log that is kept in memory: what is not applied yet, and before it what a server that lags may need. It is
// the library's view of the disk (raft.Storage). An entry is in it from the moment it is handed to the disk task, a little before it is durable; what may
// be promised of it is decided by the library's own bookkeeping of what was acknowledged.
type raftLog struct {
	index, term uint64          // of the entry before the first
	entries     []*raftpb.Entry // never changed in place
	hard        hardState
	voters      []uint64
	snapshot    func() (*raftpb.Snapshot, error) // of what is applied
}

// hardState is what a server must remember of elections.
type hardState struct{ term, vote, commit uint64 }

func (l *raftLog) last() uint64 { return l.index + uint64(len(l.entries)) }

// append puts entries behind those that stay: the first one may replace an older one and all that follow it.
func (l *raftLog) append(entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	if first <= l.index || first > l.last()+1 {
		return fmt.Errorf("%w: entry %d cannot follow entries %d to %d", tree.ErrCorrupt, first, l.index+1, l.last())
	}
	if keep := first - l.index - 1; keep < uint64(len(l.entries)) {
		l.entries = l.entries[:keep:keep] // older slices, which may be on their way to the disk or to a peer, stay as they are
	}
	l.entries = append(l.entries, entries...)
	return nil
}

// tail is the entries behind an index.
func (l *raftLog) tail(index uint64) []*raftpb.Entry { return l.entries[index-l.index:] }

// compact forgets the entries up to an index.
func (l *raftLog) compact(index uint64) {
	if index <= l.index {
		return
	}
	term, _ := l.Term(index)
	l.entries = append([]*raftpb.Entry(nil), l.entries[index-l.index:]...)
	l.index, l.term = index, term
}

// reset makes the log begin behind a snapshot.
func (l *raftLog) reset(index, term uint64) {
	l.index, l.term, l.entries = index, term, nil
}

// InitialState implements raft.Storage.
func (l *raftLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return &raftpb.HardState{Term: &l.hard.term, Vote: &l.hard.vote, Commit: &l.hard.commit}, l.members(), nil
}

func (l *raftLog) members() *raftpb.ConfState {
	return &raftpb.ConfState{Voters: append([]uint64(nil), l.voters...)}
}

// Entries implements raft.Storage.
func (l *raftLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	switch {
	case lo <= l.index:
		return nil, raft.ErrCompacted
	case hi > l.last()+1 || lo >= hi:
		return nil, raft.ErrUnavailable
	}
	out := l.entries[lo-l.index-1 : hi-l.index-1]
	size := uint64(0)
	for i, e := range out {
		if size += entrySize(e); size > maxSize && i > 0 {
			out = out[:i]
			break
		}
	}
	return out[:len(out):len(out)], nil
}

// entrySize bounds the encoded size of an entry.
func entrySize(e *raftpb.Entry) uint64 { return uint64(len(e.GetData())) + 32 }

// Term implements raft.Storage.
func (l *raftLog) Term(i uint64) (uint64, error) {
	switch {
	case i < l.index:
		return 0, raft.ErrCompacted
	case i == l.index:
		return l.term, nil
	case i > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.entries[i-l.index-1].GetTerm(), nil
}

// LastIndex implements raft.Storage.
func (l *raftLog) LastIndex() (uint64, error) { return l.last(), nil }

// FirstIndex implements raft.Storage.
func (l *raftLog) FirstIndex() (uint64, error) { return l.index + 1, nil }

// Snapshot implements raft.Storage.
func (l *raftLog) Snapshot() (*raftpb.Snapshot, error) { return l.snapshot() }
