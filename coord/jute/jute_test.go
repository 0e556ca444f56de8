package jute_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
)

var requests = []jute.Request{
	{Xid: 1, Op: jute.OpCreate, Path: "/a", Data: []byte("x"), Flags: 3},
	{Xid: 2, Op: jute.OpCreate2, Path: "/a", Data: []byte{}},
	{Xid: 3, Op: jute.OpDelete, Path: "/a", Version: -1},
	{Xid: 4, Op: jute.OpExists, Path: "/a", Watch: true},
	{Xid: 5, Op: jute.OpGetData, Path: "/a"},
	{Xid: 6, Op: jute.OpSetData, Path: "/a", Version: 7},
	{Xid: 7, Op: jute.OpGetChildren, Path: "/", Watch: true},
	{Xid: 8, Op: jute.OpGetChildren2, Path: "/"},
	{Xid: 9, Op: jute.OpGetACL, Path: "/"},
	{Xid: 10, Op: jute.OpSync, Path: "/"},
	{Xid: jute.XidPing, Op: jute.OpPing},
	{Xid: 11, Op: jute.OpCheck, Path: "/a", Version: 1},
	{Xid: 12, Op: jute.OpMulti, Steps: []jute.Step{
		{Op: jute.OpCreate, Path: "/b", Data: []byte("y"), Flags: 1}, {Op: jute.OpCreate2, Path: "/c"},
		{Op: jute.OpDelete, Path: "/b", Version: 0}, {Op: jute.OpSetData, Path: "/c", Data: []byte("z"), Version: -1}, {Op: jute.OpCheck, Path: "/c", Version: 1}}},
	{Xid: 13, Op: jute.OpMulti},
	{Xid: jute.XidSetWatches, Op: jute.OpSetWatches, Watches: &jute.SetWatches{RelativeZxid: 5, Data: []string{"/a", "/b"}, Child: []string{"/"}}},
	{Xid: jute.XidSetWatches, Op: jute.OpSetWatches2, Watches: &jute.SetWatches{Exist: []string{"/c"}, Persistent: []string{"/p"}, Recurse: []string{"/r"}}},
	{Xid: jute.XidAuth, Op: jute.OpAuth, Scheme: "digest", Data: []byte("me:secret")},
	{Xid: 14, Op: jute.OpCloseSession},
	{Xid: 15, Op: 999},
}

func TestRequestsComeBack(t *testing.T) {
	for _, r := range requests {
		var got jute.Request
		require.NoError(t, got.Decode(r.Append(nil)), r.Op)
		require.Equal(t, r, got)
	}
}

var stat = jute.Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, EphemeralOwner: 8, DataLength: 9, NumChildren: 10, Pzxid: 11}

var replies = []struct {
	op jute.OpCode
	r  jute.Reply
}{
	{jute.OpCreate, jute.Reply{Xid: 1, Zxid: 7, Path: "/a"}},
	{jute.OpCreate2, jute.Reply{Xid: 1, Zxid: 7, Path: "/a", Stat: stat}},
	{jute.OpDelete, jute.Reply{Xid: 1, Zxid: 7}},
	{jute.OpExists, jute.Reply{Xid: 1, Zxid: 7, Code: jute.NoNode}},
	{jute.OpExists, jute.Reply{Xid: 1, Zxid: 7, Stat: stat}},
	{jute.OpGetData, jute.Reply{Xid: 1, Zxid: 7, Data: []byte("x"), Stat: stat}},
	{jute.OpSetData, jute.Reply{Xid: 1, Zxid: 7, Stat: stat}},
	{jute.OpGetChildren, jute.Reply{Xid: 1, Zxid: 7, Children: []string{"a", "b"}}},
	{jute.OpGetChildren2, jute.Reply{Xid: 1, Zxid: 7, Children: []string{"a", "b"}, Stat: stat}},
	{jute.OpGetACL, jute.Reply{Xid: 1, Zxid: 7, Stat: stat}},
	{jute.OpSync, jute.Reply{Xid: 1, Zxid: 7, Path: "/"}},
	{jute.OpPing, jute.Reply{Xid: jute.XidPing, Zxid: 7}},
	{jute.OpMulti, jute.Reply{Xid: 1, Zxid: 7, Results: []jute.StepResult{
		{Op: jute.OpCreate, Path: "/a"}, {Op: jute.OpCreate2, Path: "/b", Stat: stat}, {Op: jute.OpSetData, Stat: stat}, {Op: jute.OpDelete}, {Op: jute.OpCheck}}}},
	{jute.OpMulti, jute.Reply{Xid: 1, Zxid: 7, Results: []jute.StepResult{
		{Op: jute.OpError}, {Op: jute.OpError, Code: jute.NodeExists}, {Op: jute.OpError, Code: jute.RuntimeInconsistency}}}},
}

func TestRepliesComeBack(t *testing.T) {
	for _, x := range replies {
		var got jute.Reply
		body, err := got.DecodeHeader(x.r.Append(nil, x.op))
		require.NoError(t, err)
		require.NoError(t, got.DecodeBody(body, x.op), x.op)
		require.Equal(t, x.r, got)
	}
	data := jute.AppendDataReply(nil, 1, 7, "x", &stat)
	require.Equal(t, replies[5].r.Append(nil, jute.OpGetData), data)
	e := jute.Event{Type: jute.EventChildrenChanged, Path: "/a"}
	var head jute.Reply
	var got jute.Event
	body, err := head.DecodeHeader(e.Append(nil))
	require.NoError(t, err)
	require.Equal(t, jute.XidEvent, head.Xid)
	require.NoError(t, got.DecodeBody(body))
	require.Equal(t, e, got)
}

// The bytes of the protocol as zookeeper.jute lays them out, written by hand.
func TestBytesOnTheWire(t *testing.T) {
	for _, x := range []struct {
		what string
		b    []byte
		want string
	}{
		{"connect", (&jute.ConnectRequest{LastZxid: 1, Timeout: 6000, SessionID: 2, Password: []byte("pw"), HasReadOnly: true}).Append(nil),
			"00000000 0000000000000001 00001770 0000000000000002 00000002 7077 00"},
		{"connect of an old client", (&jute.ConnectRequest{Timeout: 6000}).Append(nil), "00000000 0000000000000000 00001770 0000000000000000 ffffffff"},
		{"connected", (&jute.ConnectReply{Timeout: 6000, SessionID: 2, Password: []byte("pw")}).Append(nil), "00000000 00001770 0000000000000002 00000002 7077"},
		{"ping", requests[10].Append(nil), "fffffffe 0000000b"},
		{"create", requests[0].Append(nil), "00000001 00000001 00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000003"},
		{"getData", requests[4].Append(nil), "00000005 00000004 00000002 2f61 00"},
		{"failed exists", replies[3].r.Append(nil, jute.OpExists), "00000001 0000000000000007 ffffff9b"},
		{"event", (&jute.Event{Type: jute.EventDeleted, Path: "/a"}).Append(nil), "ffffffff ffffffffffffffff 00000000 00000002 00000003 00000002 2f61"},
		{"empty multi", requests[13].Append(nil), "0000000d 0000000e ffffffff 01 ffffffff"},
	} {
		require.Equal(t, strings.ReplaceAll(x.want, " ", ""), hex.EncodeToString(x.b), x.what)
	}
}

func TestPacketsAreReadWhateverTheReads(t *testing.T) {
	big := bytes.Repeat([]byte("big"), 100_000)
	var stream []byte
	want := [][]byte{[]byte("one"), {}, big, []byte("two"), big, []byte("three")}
	for _, p := range want {
		var mark int
		stream, mark = jute.BeginPacket(stream)
		stream = jute.EndPacket(append(stream, p...), mark)
	}
	for _, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream)), iotest.HalfReader(bytes.NewReader(stream)), iotest.DataErrReader(bytes.NewReader(stream))} {
		packets := jute.NewPacketReader(r, jute.MaxPacket)
		for _, p := range want {
			got, err := packets.Next()
			require.NoError(t, err)
			require.True(t, bytes.Equal(p, got))
			packets.Shrink()
		}
		_, err := packets.Next()
		require.Equal(t, io.EOF, err)
	}
	_, err := jute.NewPacketReader(bytes.NewReader(stream[:5]), 10).Next()
	require.Equal(t, io.ErrUnexpectedEOF, err)
	_, err = jute.NewPacketReader(strings.NewReader("ruok"), jute.MaxPacket).Next()
	require.ErrorIs(t, err, jute.ErrMalformed)
	_, err = jute.NewPacketReader(bytes.NewReader([]byte{255, 255, 255, 255}), jute.MaxPacket).Next()
	require.ErrorIs(t, err, jute.ErrMalformed)
}

// FuzzRequest: bytes are a request that comes back from its encoding, or an error; never a panic or an allocation beyond their size.
func FuzzRequest(f *testing.F) {
	for _, r := range requests {
		f.Add(r.Append(nil))
	}
	// Counts and lengths that demand gigabytes.
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, '/'})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, '/', 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 5, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second jute.Request
		if err := first.Decode(b); err != nil {
			require.ErrorIs(t, err, jute.ErrMalformed)
			return
		}
		require.NoError(t, second.Decode(first.Append(nil)))
		require.Equal(t, first, second)
	})
}

// FuzzReply does the same for what a server sends.
func FuzzReply(f *testing.F) {
	for _, x := range replies {
		f.Add(int32(x.op), x.r.Append(nil, x.op))
	}
	f.Add(int32(jute.OpGetChildren), []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Add(int32(0), (&jute.Event{Type: 1, Path: "/a"}).Append(nil))
	f.Add(int32(-1), (&jute.ConnectReply{Timeout: 1, Password: []byte("p"), HasReadOnly: true}).Append(nil))
	f.Fuzz(func(t *testing.T, op int32, b []byte) {
		var connect jute.ConnectReply
		_ = connect.Decode(b)
		var ask jute.ConnectRequest
		_ = ask.Decode(b)
		var e jute.Event
		var first, second jute.Reply
		body, err := first.DecodeHeader(b)
		if err != nil {
			return
		}
		_ = e.DecodeBody(body)
		if first.DecodeBody(body, jute.OpCode(op)) != nil {
			return
		}
		if first.Code != jute.OK {
			return
		}
		body, err = second.DecodeHeader(first.Append(nil, jute.OpCode(op)))
		require.NoError(t, err)
		require.NoError(t, second.DecodeBody(body, jute.OpCode(op)))
		require.Equal(t, first, second)
	})
}
