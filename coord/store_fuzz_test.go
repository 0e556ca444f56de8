package coord

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/jute"
	"faultline/coord/replica"
	"faultline/coord/tree"
)

func entryOf(term, index uint64, data []byte) *raftpb.Entry {
	return &raftpb.Entry{Term: &term, Index: &index, Data: data}
}

// commandEntry is the data of an entry with one command of server 1.
func commandEntry(first uint64, c replica.Command) []byte {
	batch := replica.Batch{Origin: 1, Incarnation: 1, First: first, Count: 1, Commands: c.Append(nil)}
	return batch.Append(replica.BeginEntry(nil, int64(first)))
}

func openCommand() replica.Command {
	return replica.Command{Kind: replica.Open, Timeout: 1000, Password: [16]byte{1}}
}

func createCommand() replica.Command {
	return replica.Command{Kind: replica.Change, Session: 1, Seat: 1, Steps: []tree.Step{{Op: jute.OpCreate, Path: "/a", Data: "x", Flags: 1}}}
}

// sampleLog is log 3: a session, a node, the end of the session, each in a record of its own; the second says that the first is applied, and the third that
// the second is durable. ends says where each record ends.
func sampleLog(t require.TestingT) (log []byte, ends []int) {
	log = append(log, logMagic...)
	log = binary.BigEndian.AppendUint64(log, 3)
	s := &store{sum: crc32.Checksum(log, castagnoli)}
	log = binary.BigEndian.AppendUint32(log, s.sum)
	ends = append(ends, len(log))
	add := func(applied uint64, e *raftpb.Entry) {
		s.append(hardState{1, 1, applied}, applied, []*raftpb.Entry{e})
		ends = append(ends, len(log)+len(s.buf))
	}
	add(0, entryOf(1, 1, commandEntry(1, openCommand())))
	add(1, entryOf(1, 2, commandEntry(2, createCommand())))
	s.synced = int64(ends[2])
	add(1, entryOf(1, 3, replica.ExpireEntry(3, []int64{1})))
	return append(log, s.buf...), ends
}

func empty() *recovered { return &recovered{state: replica.New()} }

// Every prefix of a log is the records that are whole in it; a damaged byte ends it before the damage, or, when the log itself shows that
// the record was durable, is refused.
func TestLogIsCutAtTheFirstDamage(t *testing.T) {
	log, ends := sampleLog(t)
	whole := func(n int) (count uint64) {
		for _, end := range ends[1:] {
			if n >= end {
				count++
			}
		}
		return count
	}
	for n := range len(log) + 1 {
		r := empty()
		torn, err := r.redo("log", 3, log[:n])
		require.NoError(t, err)
		require.Equal(t, whole(n), r.log.last())
		atEnd := n == ends[0] || n == ends[1] || n == ends[2] || n == ends[3]
		require.Equal(t, atEnd, torn == "", "%d bytes: %s", n, torn)
	}
	for n := range log {
		damaged := bytes.Clone(log)
		damaged[n] ^= 0x10
		r := empty()
		torn, err := r.redo("log", 3, damaged)
		require.Equal(t, whole(n), r.log.last())
		if n >= ends[1]+recHeader && n < ends[2] {
			require.ErrorIs(t, err, tree.ErrCorrupt)
			continue
		}
		require.NoError(t, err)
		require.NotEmpty(t, torn)
	}
	_, err := empty().redo("log", 4, log)
	require.ErrorIs(t, err, tree.ErrCorrupt, "a log under the name of another")
}

// What is surely applied is applied, and not traced again; what is behind it waits for the others' word.
func TestRecoveryAppliesWhatWasApplied(t *testing.T) {
	log, _ := sampleLog(t)
	r := empty()
	_, err := r.redo("log", 3, log)
	require.NoError(t, err)
	require.NoError(t, r.settle())
	require.Equal(t, []int64{1}, r.state.Tree.Sessions())
	require.EqualValues(t, 1, r.index)
	require.EqualValues(t, 3, r.log.last())
	require.Equal(t, hardState{1, 1, 1}, r.hard)
	r.id, r.members = 1, 1
	loaded := &recovered{}
	require.NoError(t, loaded.load("snap", 9, saved(r, 9)))
	require.Equal(t, r.state.Append(nil), loaded.state.Append(nil))
	require.Equal(t, r.image, loaded.image)
	require.Len(t, loaded.log.entries, 2)
}

func saved(r *recovered, number uint64) []byte {
	x := r.image
	x.tail, x.state = r.log.entries, r.state.Append(nil)
	return x.encode(number)
}

// An entry takes the place of an older one and of all behind that, as when a new leader corrects a server.
func TestLaterEntriesTakeThePlaceOfOlderOnes(t *testing.T) {
	s := &store{}
	r := empty()
	for _, record := range [][]*raftpb.Entry{{entryOf(1, 1, nil), entryOf(1, 2, nil), entryOf(1, 3, nil)}, {entryOf(2, 2, nil)}, nil} {
		s.buf = nil
		s.append(hardState{2, 3, 0}, 0, record)
		require.NoError(t, r.record(s.buf[recHeader:]))
	}
	require.EqualValues(t, 2, r.log.last())
	term, err := r.log.Term(2)
	require.NoError(t, err)
	require.EqualValues(t, 2, term)
	s.buf = nil
	s.append(hardState{2, 3, 0}, 0, []*raftpb.Entry{entryOf(2, 9, nil)})
	require.ErrorIs(t, r.record(s.buf[recHeader:]), tree.ErrCorrupt)
}

// FuzzLog: no bytes make recovery panic, and a log that was accepted in part gives a state that can be saved and loaded.
func FuzzLog(f *testing.F) {
	log, ends := sampleLog(f)
	f.Add(log)
	f.Add(log[:ends[2]+3])
	f.Add(log[:10])
	f.Fuzz(func(t *testing.T, b []byte) {
		r := empty()
		_, err := r.redo("log", 3, b)
		if err == nil {
			err = r.settle()
		}
		if err != nil {
			require.ErrorIs(t, err, tree.ErrCorrupt)
			return
		}
		loaded := &recovered{}
		require.NoError(t, loaded.load("snap", 1, saved(r, 1)))
		require.Equal(t, saved(r, 1), saved(loaded, 1))
	})
}

// FuzzSnapshotFile: bytes are the snapshot that they say, or an error.
func FuzzSnapshotFile(f *testing.F) {
	log, _ := sampleLog(f)
	r := empty()
	_, err := r.redo("log", 3, log)
	require.NoError(f, err)
	require.NoError(f, r.settle())
	f.Add(saved(r, 1))
	f.Add(saved(empty(), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum is made right, so that what is behind it is reached.
		if len(b) >= snapHeader {
			binary.BigEndian.PutUint64(b[16:], uint64(len(b)-snapHeader))
			binary.BigEndian.PutUint32(b[24:], snapSum(b))
		}
		loaded := &recovered{}
		if err := loaded.load("snap", 1, b); err != nil {
			require.ErrorIs(t, err, tree.ErrCorrupt)
			return
		}
		again := &recovered{}
		require.NoError(t, again.load("snap", 1, saved(loaded, 1)))
	})
}
