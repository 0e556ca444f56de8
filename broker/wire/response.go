package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const apiVersionsKey = 18

// flexibleHeader tells whether a response has header version 1. ApiVersions never has: its reader does not know yet
// what the broker speaks (KIP-511).
func flexibleHeader(key int16, flexible bool) bool { return flexible && key != apiVersionsKey }

// AppendResponse appends a whole frame: length, header and body, in the version that resp is set to.
func AppendResponse(dst []byte, correlation int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = AppendResponseHeader(dst, correlation, resp.Key(), resp.IsFlexible())
	dst = resp.AppendTo(dst)
	SetFrameSize(dst[start:], 0)
	return dst
}

// AppendResponseHeader appends a length yet to be set and a response header, for bodies that are not made by kmsg.
func AppendResponseHeader(dst []byte, correlation int32, key int16, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if flexibleHeader(key, flexible) {
		dst = append(dst, 0) // no tags
	}
	return dst
}

// SetFrameSize sets the length of the frame that starts at frame[0], extra bytes of which are sent from elsewhere.
func SetFrameSize(frame []byte, extra int64) {
	binary.BigEndian.PutUint32(frame, uint32(int64(len(frame)-4)+extra))
}

// ResponseCorrelation reads a response frame's correlation id and returns what follows it.
func ResponseCorrelation(frame []byte) (int32, []byte, error) {
	if len(frame) < 4 {
		return 0, nil, fmt.Errorf("%w: response of %d bytes", ErrGarbage, len(frame))
	}
	return int32(binary.BigEndian.Uint32(frame)), frame[4:], nil
}

// DecodeResponse reads what follows the correlation id into resp, whose version must be set. Bytes in resp refer to rest, and
// strings too when unsafe is set.
func DecodeResponse(resp kmsg.Response, rest []byte, unsafe bool) error {
	if flexibleHeader(resp.Key(), resp.IsFlexible()) {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return fmt.Errorf("header of response %s: %w", name(resp.Key(), resp.GetVersion()), err)
		}
	}
	var err error
	if u, ok := resp.(kmsg.UnsafeReadFrom); ok && unsafe {
		err = u.UnsafeReadFrom(rest)
	} else {
		err = resp.ReadFrom(rest)
	}
	if err != nil {
		return fmt.Errorf("%w: body of response %s, %d bytes: %v", ErrGarbage, name(resp.Key(), resp.GetVersion()), len(rest), err)
	}
	return nil
}
