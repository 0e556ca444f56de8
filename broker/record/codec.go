package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec names what the records of a batch are compressed with. The numbers are those of the attributes.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func (c Codec) String() string {
	if c < 0 || int(c) >= len(codecNames) {
		return fmt.Sprintf("codec-%d", int8(c))
	}
	return codecNames[c]
}

// ParseCodec reads what String writes.
func ParseCodec(s string) (Codec, error) {
	for i, name := range codecNames {
		if s == name {
			return Codec(i), nil
		}
	}
	return None, fmt.Errorf("compression %q is unknown: want none, gzip, snappy, lz4 or zstd", s)
}

// MaxInflated bounds the records of one batch after decompression, so that a few bytes cannot take all memory.
const MaxInflated = 128 << 20

// Compressor holds the state of the encoders that were used. The zero value is ready. One task at a time.
//
// The libraries are used single-threaded: they start no goroutine and use no timer or randomness.
type Compressor struct {
	gz *gzip.Writer
	lz *lz4.Writer
	zs *zstd.Encoder
}

// Append compresses src and appends the result to dst.
func (c *Compressor) Append(dst, src []byte, codec Codec) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		out := appender{dst}
		if c.gz == nil {
			c.gz = gzip.NewWriter(&out)
		} else {
			c.gz.Reset(&out)
		}
		if _, err := c.gz.Write(src); err != nil {
			return dst, err
		}
		if err := c.gz.Close(); err != nil {
			return dst, err
		}
		return out.buf, nil
	case Snappy:
		at := len(dst)
		dst = append(dst, make([]byte, s2.MaxEncodedLen(len(src)))...)
		return dst[:at+len(s2.EncodeSnappy(dst[at:], src))], nil
	case LZ4:
		out := appender{dst}
		if c.lz == nil {
			c.lz = lz4.NewWriter(&out)
			if err := c.lz.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1)); err != nil {
				return dst, err
			}
		} else {
			c.lz.Reset(&out)
		}
		if _, err := c.lz.Write(src); err != nil {
			return dst, err
		}
		if err := c.lz.Close(); err != nil {
			return dst, err
		}
		return out.buf, nil
	case Zstd:
		if c.zs == nil {
			zs, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
			if err != nil {
				return dst, err
			}
			c.zs = zs
		}
		return c.zs.EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("compression codec %d is unknown", codec)
}

// Decompressor holds the state of the decoders that were used. The zero value is ready. One task at a time.
type Decompressor struct {
	gz *gzip.Reader
	lz *lz4.Reader
	zs *zstd.Decoder
	in bytes.Reader

	limit int // instead of MaxInflated, when > 0
}

func (d *Decompressor) most() int {
	if d.limit > 0 {
		return d.limit
	}
	return MaxInflated
}

// Append decompresses src and appends the result to dst. Errors wrap ErrInvalid: src is not what the codec writes, or holds more than MaxInflated bytes.
func (d *Decompressor) Append(dst, src []byte, codec Codec) ([]byte, error) {
	out, err := d.append(dst, src, codec)
	if err != nil {
		return dst, fmt.Errorf("%w: records cannot be decompressed as %s: %w", ErrInvalid, codec, err)
	}
	return out, nil
}

var errTooMuch = errors.New("it holds too much")

func (d *Decompressor) append(dst, src []byte, codec Codec) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		d.in.Reset(src)
		if d.gz == nil {
			gz, err := gzip.NewReader(&d.in)
			if err != nil {
				return dst, err
			}
			d.gz = gz
		} else if err := d.gz.Reset(&d.in); err != nil {
			return dst, err
		}
		return readAll(dst, d.gz, d.most())
	case Snappy:
		return unsnappy(dst, src, d.most())
	case LZ4:
		d.in.Reset(src)
		if d.lz == nil {
			d.lz = lz4.NewReader(&d.in)
		} else {
			d.lz.Reset(&d.in)
		}
		return readAll(dst, d.lz, d.most())
	case Zstd:
		if d.zs == nil {
			zs, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(d.most())))
			if err != nil {
				return dst, err
			}
			d.zs = zs
		}
		return d.zs.DecodeAll(src, dst)
	}
	return dst, errors.New("unknown codec")
}

// xerial is how the framing starts that Java clients put around snappy blocks: magic, version, lowest compatible version (4 bytes each),
// then blocks, each after its length.
const (
	xerial       = "\x82SNAPPY\x00"
	xerialHeader = len(xerial) + 8
)

func unsnappy(dst, src []byte, most int) ([]byte, error) {
	if len(src) < xerialHeader || string(src[:len(xerial)]) != xerial {
		return unsnappyBlock(dst, src, most)
	}
	start := len(dst)
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return dst, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(src))
		if src = src[4:]; n > int64(len(src)) {
			return dst, io.ErrUnexpectedEOF
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[:n], most-(len(dst)-start)); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

// unsnappyBlock decodes one block of at most so many bytes.
func unsnappyBlock(dst, block []byte, most int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return dst, err
	}
	// A snappy block cannot shrink more than about 21-fold; a longer claim is a lie, and must not be given memory.
	if n > most || n/64 > len(block) {
		return dst, errTooMuch
	}
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	if _, err := s2.Decode(dst[at:], block); err != nil {
		return dst[:at], err
	}
	return dst, nil
}

// appender is a writer at the end of a slice.
type appender struct{ buf []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.buf = append(a.buf, p...)
	return len(p), nil
}

// readAll appends what r holds, at most so many bytes, to dst.
func readAll(dst []byte, r io.Reader, most int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > most {
			return dst, errTooMuch
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
