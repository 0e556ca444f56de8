package coord

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// sampleLog is log 3 with three transactions, and where each record ends.
func sampleLog(t require.TestingT) (log []byte, ends []int) {
	log = append(log, logMagic...)
	log = binary.BigEndian.AppendUint64(log, 3)
	log = binary.BigEndian.AppendUint64(log, 0)
	sum := crc32.Checksum(log, castagnoli)
	log = binary.BigEndian.AppendUint32(log, sum)
	ends = append(ends, len(log))
	x := tree.New()
	s := &store{sum: sum}
	add := func(txn tree.Txn) {
		_, err := x.Apply(&txn, nil)
		require.NoError(t, err)
		s.append(&txn)
		ends = append(ends, len(log)+len(s.buf))
	}
	add(x.DecideOpen(time.UnixMilli(1), time.Second, [16]byte{1}))
	var txn tree.Txn
	_, code := x.Decide(time.UnixMilli(2), 1, []tree.Step{{Op: jute.OpCreate, Path: "/a", Data: "x", Flags: 1}}, &txn)
	require.Equal(t, jute.OK, code)
	add(txn)
	s.traced = 2
	end, _ := x.DecideClose(time.UnixMilli(3), 1, tree.TxnExpire)
	add(end)
	return append(log, s.buf...), ends
}

// Every prefix of a log is the transactions that are whole in it; a damaged byte ends it before the damage, or, when the log itself shows that
// the transaction was durable, is refused.
func TestLogIsCutAtTheFirstDamage(t *testing.T) {
	log, ends := sampleLog(t)
	whole := func(n int) (count int64) {
		for _, end := range ends[1:] {
			if n >= end {
				count++
			}
		}
		return count
	}
	for n := range len(log) + 1 {
		r := &recovered{tree: tree.New()}
		torn, err := r.redo("log", 3, log[:n])
		require.NoError(t, err)
		require.Equal(t, whole(n), r.tree.Zxid())
		atEnd := n == ends[0] || n == ends[1] || n == ends[2] || n == ends[3]
		require.Equal(t, atEnd, torn == "", "%d bytes: %s", n, torn)
	}
	for n := range log {
		damaged := bytes.Clone(log)
		damaged[n] ^= 0x10
		r := &recovered{tree: tree.New()}
		torn, err := r.redo("log", 3, damaged)
		require.Equal(t, whole(n), r.tree.Zxid())
		if n >= ends[1]+recHeader && n < ends[2] {
			require.ErrorIs(t, err, tree.ErrCorrupt)
			continue
		}
		require.NoError(t, err)
		require.NotEmpty(t, torn)
	}
	r := &recovered{tree: tree.New()}
	_, err := r.redo("log", 4, log)
	require.ErrorIs(t, err, tree.ErrCorrupt, "a log under the name of another")
}

// What is recovered is told again only from the last batch on.
func TestOnlyTheLastBatchIsTracedAgain(t *testing.T) {
	log, _ := sampleLog(t)
	r := &recovered{tree: tree.New()}
	_, err := r.redo("log", 3, log)
	require.NoError(t, err)
	want := []machine.Event{{Kind: machine.ZnodeDeleted, Subject: "/a", A: 1, B: 3}, {Kind: machine.SessionExpired, A: 1, C: 3}}
	require.Equal(t, want, r.untraced)
	loaded := &recovered{}
	require.NoError(t, loaded.load("snap", 9, encodeSnapshot(r.tree, r.untraced, 9)))
	require.Equal(t, want, loaded.untraced)
	require.Equal(t, r.tree.Append(nil), loaded.tree.Append(nil))
}

// FuzzLog: no bytes make recovery panic, and a log that was accepted in part gives a tree that can be saved and loaded.
func FuzzLog(f *testing.F) {
	log, ends := sampleLog(f)
	f.Add(log)
	f.Add(log[:ends[2]+3])
	f.Add(log[:10])
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &recovered{tree: tree.New()}
		if _, err := r.redo("log", 3, b); err != nil {
			require.ErrorIs(t, err, tree.ErrCorrupt)
			return
		}
		loaded := &recovered{}
		require.NoError(t, loaded.load("snap", 1, encodeSnapshot(r.tree, r.untraced, 1)))
		require.Equal(t, r.untraced, loaded.untraced)
	})
}

// FuzzSnapshotFile: bytes are the snapshot that they say, or an error.
func FuzzSnapshotFile(f *testing.F) {
	log, _ := sampleLog(f)
	r := &recovered{tree: tree.New()}
	_, err := r.redo("log", 3, log)
	require.NoError(f, err)
	f.Add(encodeSnapshot(r.tree, r.untraced, 1))
	f.Add(encodeSnapshot(tree.New(), nil, 1))
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
		require.NoError(t, again.load("snap", 1, encodeSnapshot(loaded.tree, loaded.untraced, 1)))
	})
}
