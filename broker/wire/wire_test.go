package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func frameOf(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestReadFrame(t *testing.T) {
	stream := append(frameOf("first message"), frameOf("second")...)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(stream), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream))} {
		buf, err := ReadFrame(r, nil, 4, 100)
		require.NoError(t, err, name)
		require.Equal(t, "first message", string(buf))
		buf, err = ReadFrame(r, buf, 4, 100)
		require.NoError(t, err)
		require.Equal(t, "second", string(buf))
		_, err = ReadFrame(r, buf, 4, 100)
		require.Equal(t, io.EOF, err)
	}
}

func TestReadFrameReusesTheBuffer(t *testing.T) {
	stream := bytes.Repeat(frameOf("some message"), 100)
	r := bytes.NewReader(stream)
	buf, err := ReadFrame(r, nil, 4, 100)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(50, func() {
		if buf, err = ReadFrame(r, buf, 4, 100); err != nil {
			t.Fatal(err)
		}
	}))
}

func TestReadFrameOfLargeFrames(t *testing.T) {
	body := make([]byte, 5<<20)
	for i := range body {
		body[i] = byte(i * 7)
	}
	got, err := ReadFrame(bytes.NewReader(frameOf(string(body))), nil, 4, 100<<20)
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got))
	got, err = ReadFrame(bytes.NewReader(frameOf("small")), got, 4, 100<<20)
	require.NoError(t, err)
	require.Less(t, cap(got), 1<<20, "a large buffer does not stay for small frames")
}

func TestReadFrameRefusesGarbage(t *testing.T) {
	for _, c := range []struct{ stream, say string }{
		{"\x00\x00\x00\x03abc", "frame of 3 bytes, expected 4 to 100"},
		{"\xff\xff\xff\xff", "frame of -1 bytes"},
		{"\x00\x00\x01\x00", "raise the limit"},
		{"GET / HTTP/1.1", "HTTP"},
		{"\x16\x03\x01\x02\x00", "TLS"},
	} {
		_, err := ReadFrame(bytes.NewReader([]byte(c.stream)), nil, 4, 100)
		require.ErrorIs(t, err, ErrGarbage, c.stream)
		require.ErrorContains(t, err, c.say)
	}
	for _, cut := range []string{"\x00", "\x00\x00\x00", "\x00\x00\x00\x08", "\x00\x00\x00\x08abc"} {
		_, err := ReadFrame(bytes.NewReader([]byte(cut)), nil, 4, 100)
		require.Equal(t, io.ErrUnexpectedEOF, err, "%q", cut)
	}
}

func TestReadFrameBelievesALengthOnlyAsBytesCome(t *testing.T) {
	stream := append([]byte{0x06, 0, 0, 0}, make([]byte, 1000)...) // says 100 MB
	buf, err := ReadFrame(bytes.NewReader(stream), nil, 4, 1<<30)
	require.Equal(t, io.ErrUnexpectedEOF, err)
	require.LessOrEqual(t, cap(buf), 2*growStep)
}

func TestRequestsRoundTripInEveryVersion(t *testing.T) {
	for _, key := range []int16{0, 1, 2, 3, 18, 19, 20, 32, 10, 22} {
		for v := range kmsg.RequestForKey(key).MaxVersion() + 1 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			b := AppendRequest(nil, 42, "me", req)
			frame, err := ReadFrame(bytes.NewReader(b), nil, MinRequest, 1<<20)
			require.NoError(t, err)
			h, rest, err := ParseHeader(frame)
			require.NoError(t, err)
			require.Equal(t, Header{Key: key, Version: v, Correlation: 42, ClientID: []byte("me")}, h)
			back := kmsg.RequestForKey(key)
			back.SetVersion(v)
			require.NoError(t, Decode(back, rest), "key %d version %d", key, v)
			require.Equal(t, req.AppendTo(nil), back.AppendTo(nil))

			// kmsg's own formatter agrees, so other clients do.
			require.Equal(t, b, kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, req, 42), "key %d version %d", key, v)

			resp := req.ResponseKind()
			out := AppendResponse(nil, 42, resp)
			correlation, rest, err := ResponseCorrelation(out[4:])
			require.NoError(t, err)
			require.EqualValues(t, 42, correlation)
			again := req.ResponseKind()
			require.NoError(t, DecodeResponse(again, rest, false))
			require.Equal(t, resp.AppendTo(nil), again.AppendTo(nil))
		}
	}
}

func TestApiVersionsHasTheOldResponseHeader(t *testing.T) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	out := AppendResponse(nil, 1, resp)
	require.Equal(t, resp.AppendTo(nil), out[8:], "no tags between correlation id and body")
	metadata := kmsg.NewPtrMetadataResponse()
	metadata.Version = 9
	out = AppendResponse(nil, 1, metadata)
	require.Equal(t, metadata.AppendTo(nil), out[9:])
}

func TestHeaderTagsAreSkipped(t *testing.T) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	b := AppendRequest(nil, 1, "", req)
	h, rest, err := ParseHeader(b[4:])
	require.NoError(t, err)
	require.Empty(t, h.ClientID)
	tagged := append([]byte{2, 7, 3, 'a', 'b', 'c', 9, 0}, rest[1:]...)
	require.NoError(t, Decode(kmsg.RequestForKey(3), rest[1:])) // version 0 has no tags
	again := kmsg.NewPtrMetadataRequest()
	again.Version = 12
	require.NoError(t, Decode(again, tagged))
	for _, bad := range [][]byte{{}, {1}, {1, 7}, {1, 7, 200, 1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		require.ErrorIs(t, Decode(again, bad), ErrGarbage)
	}
}

func TestNullClientID(t *testing.T) {
	h, rest, err := ParseHeader([]byte{0, 18, 0, 0, 0, 0, 0, 5, 0xff, 0xff})
	require.NoError(t, err)
	require.Nil(t, h.ClientID)
	require.Empty(t, rest)
	for _, bad := range [][]byte{{}, {0, 18, 0, 0, 0, 0, 0, 5}, {0, 18, 0, 0, 0, 0, 0, 5, 0, 9, 'x'}} {
		_, _, err := ParseHeader(bad)
		require.True(t, errors.Is(err, ErrGarbage))
	}
}

func TestFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 4, 600), 0, 20).Draw(t, "bodies")
		var stream []byte
		for _, b := range bodies {
			stream = append(stream, frameOf(string(b))...)
		}
		r := bytes.NewReader(stream)
		var buf []byte
		var err error
		for _, b := range bodies {
			buf, err = ReadFrame(r, buf, 4, 600)
			if err != nil || !bytes.Equal(b, buf) {
				t.Fatalf("got %q, %v, want %q", buf, err, b)
			}
		}
	})
}

// FuzzRequest: no bytes make the decoder panic, and what it accepts encodes again.
func FuzzRequest(f *testing.F) {
	for _, key := range []int16{0, 1, 2, 3, 18, 19, 20, 32} {
		req := kmsg.RequestForKey(key)
		for _, v := range []int16{0, req.MaxVersion()} {
			req.SetVersion(v)
			f.Add(AppendRequest(nil, 7, "fuzz", req))
		}
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Version = 9
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte("records")}}}}
	f.Add(AppendRequest(nil, 7, "fuzz", produce))
	messages(func(req kmsg.Request, _ kmsg.Response) { f.Add(AppendRequest(nil, 7, "fuzz", req)) })
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 12, 0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stream []byte) {
		frame, err := ReadFrame(bytes.NewReader(stream), nil, MinRequest, 1<<16)
		if err != nil {
			return
		}
		h, rest, err := ParseHeader(frame)
		if err != nil {
			return
		}
		req := kmsg.RequestForKey(h.Key)
		if req == nil || h.Version < 0 || h.Version > req.MaxVersion() {
			return
		}
		req.SetVersion(h.Version)
		if Decode(req, rest) != nil {
			return
		}
		b := AppendRequest(nil, h.Correlation, string(h.ClientID), req)
		h2, rest2, err := ParseHeader(b[4:])
		require.NoError(t, err)
		require.Equal(t, h.Correlation, h2.Correlation)
		again := kmsg.RequestForKey(h2.Key)
		again.SetVersion(h2.Version)
		require.NoError(t, Decode(again, rest2))
	})
}

// FuzzResponse: no bytes make the decoder panic.
func FuzzResponse(f *testing.F) {
	messages(func(req kmsg.Request, resp kmsg.Response) {
		f.Add(req.Key(), req.GetVersion(), AppendResponse(nil, 7, resp)[4:])
	})
	// Lengths and counts that demand gigabytes: a topic array of 2^31-1, a record set of 2^31-1 bytes, a compact array of 2^32-2.
	f.Add(int16(1), int16(4), []byte{0, 0, 0, 7, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Add(int16(1), int16(4), append(append([]byte{0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1}, make([]byte, 26)...), 0x7f, 0xff, 0xff, 0xff))
	f.Add(int16(1), int16(12), []byte{0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xf})
	f.Fuzz(func(t *testing.T, key, version int16, frame []byte) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() {
			return
		}
		req.SetVersion(version)
		_, rest, err := ResponseCorrelation(frame)
		if err != nil {
			return
		}
		_ = DecodeResponse(req.ResponseKind(), rest, true)
	})
}
