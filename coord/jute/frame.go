package jute

import (
	"encoding/binary"
	"fmt"
	"io"
)

// BeginPacket reserves the length before a packet. It returns the slice to append the packet to and the mark for EndPacket.
func BeginPacket(b []byte) ([]byte, int) { return append(b, 0, 0, 0, 0), len(b) }

// EndPacket fills in the length of the packet begun at the mark.
func EndPacket(b []byte, mark int) []byte {
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-4))
	return b
}

// PacketReader reads packets from a connection into a buffer of its own.
type PacketReader struct {
	r          io.Reader
	limit      int
	buf        []byte
	start, end int // unread bytes in buf
}

// NewPacketReader refuses packets longer than limit bytes.
func NewPacketReader(r io.Reader, limit int) *PacketReader {
	return &PacketReader{r: r, limit: limit, buf: make([]byte, 4096)}
}

// Next returns the next packet, which is valid until the next call. io.EOF: the peer closed between packets.
func (p *PacketReader) Next() ([]byte, error) {
	if err := p.fill(4); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(p.buf[p.start:])))
	if n < 0 || n > p.limit {
		return nil, fmt.Errorf("%w: packet of %d bytes, at most %d are accepted", ErrMalformed, n, p.limit)
	}
	if err := p.fill(4 + n); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	packet := p.buf[p.start+4 : p.start+4+n]
	p.start += 4 + n
	return packet, nil
}

// growStep bounds what a length alone can make the reader allocate.
const growStep = 64 << 10

// fill makes at least n unread bytes available. It believes that there are so many only as fast as they arrive.
func (p *PacketReader) fill(n int) error {
	for p.end-p.start < n {
		have := p.end - p.start
		if room := min(n, have+max(have, growStep)); p.start+room > len(p.buf) {
			to := p.buf
			if room > len(to) {
				to = make([]byte, max(room, 2*len(p.buf)))
			}
			copy(to, p.buf[p.start:p.end])
			p.buf, p.start, p.end = to, 0, have
		}
		k, err := p.r.Read(p.buf[p.end:])
		p.end += k
		if err != nil && p.end-p.start < n {
			if err == io.EOF && p.end > p.start {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// Shrink gives a buffer that one large packet grew back, when nothing unread is in it.
func (p *PacketReader) Shrink() {
	if p.start == p.end && len(p.buf) > 64<<10 {
		p.buf, p.start, p.end = make([]byte, 4096), 0, 0
	}
}
