package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Header is a request header. ClientID refers to the frame.
type Header struct {
	Key, Version int16
	Correlation  int32
	ClientID     []byte // nil: null
}

// ParseHeader reads the part of a request header that is the same in versions 1 and 2 and returns what follows: the
// header's tags, when the request's version is flexible, and the body. Decode takes both.
func ParseHeader(frame []byte) (h Header, rest []byte, err error) {
	if len(frame) < MinRequest {
		return h, nil, fmt.Errorf("%w: request header of %d bytes, expected at least %d", ErrGarbage, len(frame), MinRequest)
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.Correlation = int32(binary.BigEndian.Uint32(frame[4:]))
	rest = frame[8:]
	if len(rest) < 2 {
		return h, nil, fmt.Errorf("%w: request %s ends inside the client id", ErrGarbage, name(h.Key, h.Version))
	}
	n := int(int16(binary.BigEndian.Uint16(rest)))
	rest = rest[2:]
	if n < 0 {
		return h, rest, nil
	}
	if n > len(rest) {
		return h, nil, fmt.Errorf("%w: request %s has a client id of %d bytes, %d are left", ErrGarbage, name(h.Key, h.Version), n, len(rest))
	}
	h.ClientID = rest[:n:n]
	return h, rest[n:], nil
}

// Decode reads the rest of a request into req, whose version must be set. Strings and bytes in req refer to rest.
func Decode(req kmsg.Request, rest []byte) error {
	if req.IsFlexible() {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return fmt.Errorf("header of request %s: %w", name(req.Key(), req.GetVersion()), err)
		}
	}
	var err error
	if u, ok := req.(kmsg.UnsafeReadFrom); ok {
		err = u.UnsafeReadFrom(rest)
	} else {
		err = req.ReadFrom(rest)
	}
	if err != nil {
		return fmt.Errorf("%w: body of request %s, %d bytes: %v", ErrGarbage, name(req.Key(), req.GetVersion()), len(rest), err)
	}
	return nil
}

// AppendRequest appends a whole frame: length, header and body, in the version that req is set to.
func AppendRequest(dst []byte, correlation int32, clientID string, req kmsg.Request) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if req.IsFlexible() {
		dst = append(dst, 0) // no tags
	}
	dst = req.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// skipTags skips a tag section.
func skipTags(b []byte) ([]byte, error) {
	count, b, ok := uvarint(b)
	for ; ok && count > 0; count-- {
		var size uint32
		if _, b, ok = uvarint(b); !ok {
			break
		}
		if size, b, ok = uvarint(b); !ok {
			break
		}
		if uint64(size) > uint64(len(b)) {
			ok = false
			break
		}
		b = b[size:]
	}
	if !ok {
		return nil, fmt.Errorf("%w: broken tags", ErrGarbage)
	}
	return b, nil
}

func uvarint(b []byte) (uint32, []byte, bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<32-1 {
		return 0, nil, false
	}
	return uint32(v), b[n:], true
}

func name(key, version int16) string {
	return fmt.Sprintf("%s (key %d) v%d", kmsg.NameForKey(key), key, version)
}
