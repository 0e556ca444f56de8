package tree_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
	"faultline/coord/tree"
)

// FuzzTxn: whatever decodes encodes and decodes to the same.
func FuzzTxn(f *testing.F) {
	x := tree.New()
	open := x.DecideOpen(time.UnixMilli(5), time.Second, [16]byte{9})
	f.Add(open.Append(nil))
	_, err := x.Apply(&open, nil)
	require.NoError(f, err)
	var txn tree.Txn
	_, code := x.Decide(time.UnixMilli(6), 1, []tree.Step{
		{Op: jute.OpCreate, Path: "/a", Data: "x", Flags: 1}, {Op: jute.OpSetData, Path: "/a", Version: 0}, {Op: jute.OpDelete, Path: "/a", Version: -1}}, &txn)
	require.Equal(f, jute.OK, code)
	f.Add(txn.Append(nil))
	end, _ := x.DecideClose(time.UnixMilli(7), 1, tree.TxnClose)
	f.Add(end.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second tree.Txn
		if err := first.Decode(b); err != nil {
			require.ErrorIs(t, err, tree.ErrCorrupt)
			return
		}
		require.NoError(t, second.Decode(first.Append(nil)))
		require.Equal(t, first, second)
		// A transaction that does not fit is an error, never a panic.
		y := tree.New()
		_, _ = y.Apply(&open, nil)
		_, _ = y.Apply(&first, nil)
	})
}

// FuzzSnapshot: bytes are a tree that encodes to an equal tree, or an error.
func FuzzSnapshot(f *testing.F) {
	x := tree.New()
	f.Add(x.Append(nil))
	open := x.DecideOpen(time.UnixMilli(5), time.Second, [16]byte{9})
	_, err := x.Apply(&open, nil)
	require.NoError(f, err)
	var txn tree.Txn
	_, code := x.Decide(time.UnixMilli(6), 1, []tree.Step{{Op: jute.OpCreate, Path: "/a", Data: "x", Flags: 1}, {Op: jute.OpCreate, Path: "/b"}, {Op: jute.OpCreate, Path: "/b/c"}}, &txn)
	require.Equal(f, jute.OK, code)
	_, err = x.Apply(&txn, nil)
	require.NoError(f, err)
	f.Add(x.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := tree.Decode(b)
		if err != nil {
			require.ErrorIs(t, err, tree.ErrCorrupt)
			return
		}
		second, err := tree.Decode(first.Append(nil))
		require.NoError(t, err)
		require.Equal(t, first.Append(nil), second.Append(nil))
	})
}
