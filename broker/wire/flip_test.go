package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// spoken are the requests of this system: the broker's and those of its clients.
var spoken = []int16{0, 1, 2, 3, 18, 19, 20, 32}

// full gives every field of a message a value, every list two elements.
func full(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		full(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Name != "Version" && v.Type().Field(i).Name != "UnknownTags" {
				full(f)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		full(v.Index(0))
		full(v.Index(1))
	case reflect.String:
		v.SetString("name")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	}
}

// messages calls fn with each message, full, in each version.
func messages(fn func(req kmsg.Request, resp kmsg.Response)) {
	for _, key := range spoken {
		for version := range kmsg.RequestForKey(key).MaxVersion() + 1 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			resp := req.ResponseKind()
			full(reflect.ValueOf(req))
			full(reflect.ValueOf(resp))
			fn(req, resp)
		}
	}
}

// The wire protects record batches by CRC-32C and nothing else. Whatever single bit of a frame is wrong, reading it ends with a message, ErrGarbage, or the
// wait for bytes that a wrong length promised; and takes memory for the bytes that are there, not for those that a length claims.
func TestAnyFlippedBitIsDecodedOrRefused(t *testing.T) {
	flips := func(what string, b []byte, decode func(frame []byte) error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var frame []byte
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			var err error
			if frame, err = ReadFrame(bytes.NewReader(b), frame, 4, 100<<20); err == nil {
				if err := decode(frame); err != nil && !errors.Is(err, ErrGarbage) {
					t.Fatalf("%s, bit %d: %v", what, bit, err)
				}
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
		runtime.ReadMemStats(&after)
		// 32 wrong lengths may take growStep each; a wrong count takes what the frame could hold of the smallest elements.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32*growStep+8*len(b)*(16<<10+200*len(b))), what)
	}
	messages(func(req kmsg.Request, resp kmsg.Response) {
		what := fmt.Sprintf("key %d version %d", req.Key(), req.GetVersion())
		flips("request "+what, AppendRequest(nil, 7, "client", req), func(frame []byte) error {
			h, rest, err := ParseHeader(frame)
			if err != nil {
				return err
			}
			got := kmsg.RequestForKey(h.Key)
			if got == nil || h.Version < 0 || h.Version > got.MaxVersion() {
				return nil
			}
			got.SetVersion(h.Version)
			return Decode(got, rest)
		})
		flips("response "+what, AppendResponse(nil, 7, resp), func(frame []byte) error {
			_, rest, err := ResponseCorrelation(frame)
			if err != nil {
				return err
			}
			got := req.ResponseKind()
			got.SetVersion(req.GetVersion())
			return DecodeResponse(got, rest, true)
		})
	})
}

// In a large frame a wrong count has many bytes to be taken for elements.
func TestAWrongCountTakesMemoryInProportionToTheFrame(t *testing.T) {
	for _, version := range []int16{4, 12} {
		req := kmsg.NewPtrFetchRequest()
		req.Version = version
		req.Topics = []kmsg.FetchRequestTopic{{Topic: "t"}}
		b := AppendRequest(nil, 7, "", req)[4:]
		b = append(b, make([]byte, 1<<20)...) // as if record data followed
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		flips := 0
		for bit := 8 * 8; bit < 8*60; bit++ {
			b[bit/8] ^= 1 << (bit % 8)
			if h, rest, err := ParseHeader(b); err == nil {
				got := kmsg.NewPtrFetchRequest()
				got.Version = h.Version
				_ = Decode(got, rest)
				flips++
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
		runtime.ReadMemStats(&after)
		require.Greater(t, flips, 300)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(flips), uint64(16*len(b)), "on average")
	}
}
