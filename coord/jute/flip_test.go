package jute_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
)

// Nothing protects this protocol on the wire. Whatever single bit is wrong, decoding ends with a value or ErrMalformed, and takes memory for the bytes that are
// there, not for those that a length claims.
func TestAnyFlippedBitIsDecodedOrRefused(t *testing.T) {
	bounded(t, func() {
		flips := func(b []byte, decode func(b []byte)) {
			for bit := range 8 * len(b) {
				b[bit/8] ^= 1 << (bit % 8)
				decode(b)
				b[bit/8] ^= 1 << (bit % 8)
			}
		}
		refused := func(err error) {
			if err != nil {
				require.ErrorIs(t, err, jute.ErrMalformed)
			}
		}
		for _, r := range requests {
			flips(r.Append(nil), func(b []byte) {
				var got jute.Request
				refused(got.Decode(b))
			})
		}
		for _, x := range replies {
			flips(x.r.Append(nil, x.op), func(b []byte) {
				var got jute.Reply
				body, err := got.DecodeHeader(b)
				refused(err)
				if err == nil {
					refused(got.DecodeBody(body, x.op))
				}
			})
		}
		flips((&jute.Event{Type: 1, Path: "/a"}).Append(nil), func(b []byte) {
			var head jute.Reply
			var e jute.Event
			if body, err := head.DecodeHeader(b); err == nil {
				refused(e.DecodeBody(body))
			}
		})
		flips((&jute.ConnectReply{Timeout: 1, Password: []byte("p"), HasReadOnly: true}).Append(nil), func(b []byte) {
			var got jute.ConnectReply
			refused(got.Decode(b))
		})
		flips((&jute.ConnectRequest{Timeout: 1, Password: []byte("p"), HasReadOnly: true}).Append(nil), func(b []byte) {
			var got jute.ConnectRequest
			refused(got.Decode(b))
		})
	})
}

func TestPacketLengthIsNotBelievedBeforeItsBytes(t *testing.T) {
	bounded(t, func() {
		for range 20 {
			_, err := jute.NewPacketReader(bytes.NewReader([]byte{0x3f, 0xff, 0xff, 0xff, 1, 2, 3}), 1<<30).Next()
			require.Error(t, err)
		}
	})
}

// bounded fails when fn takes more than 16 MiB altogether.
func bounded(t *testing.T, fn func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}
