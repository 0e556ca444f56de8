package broker

import (
	"encoding/binary"
	"fmt"
	"math"

	"faultline/broker/log"
	"faultline/broker/wire"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// copyBelow is the size of a span below which its bytes are copied into the response: one write is cheaper than three system calls.
const copyBelow = 16 << 10

// cut is a place in the response's own bytes where those of a span are sent.
type cut struct {
	at   int // bytes of the response before it
	span *log.Span
}

// sendFetch writes the response: headers from memory, large spans straight from their files.
func (c *conn) sendFetch(h wire.Header, req *kmsg.FetchRequest) error {
	f := &c.fetch
	least := int64(copyBelow)
	if c.b.cfg.CopyReads {
		least = math.MaxInt64
	}
	c.out, f.cuts = appendFetch(c.out[:0], f.cuts[:0], h, req, f.items, least)
	copied, sent := int64(0), int64(0)
	for i := range f.items {
		copied += f.items[i].span.Len // from the file; those that are not sent straight from it
	}
	for _, k := range f.cuts {
		sent += k.span.Len
	}
	copied -= sent
	wire.SetFrameSize(c.out, sent)
	c.b.m.Work(machine.Work{Served: 1, Copied: copied, Moved: int64(len(c.out)), Syscalls: c.calls.Take() + 1 + 2*len(f.cuts)})
	from := 0
	for _, k := range f.cuts {
		if _, err := c.nc.Write(c.out[from:k.at]); err != nil {
			return err
		}
		from = k.at
		if c.b.m.Failpoint("fault/broker/fetch-cut") {
			return errMisfortune
		}
		c.b.m.Mark("mark/broker/fetch-sends-file")
		if n, err := c.b.m.SendFile(c.nc, k.span.File, k.span.Pos, k.span.Len); err != nil {
			return fmt.Errorf("sent %d of %d bytes of a log: %w", n, k.span.Len, err) // the frame is broken: hang up
		}
	}
	if from < len(c.out) {
		if _, err := c.nc.Write(c.out[from:]); err != nil {
			return err
		}
	}
	return nil
}

// appendFetch encodes a fetch response as kmsg does, but for the spans of the least length, which are sent from their files. The items are in the order of
// the request's partitions.
func appendFetch(out []byte, cuts []cut, h wire.Header, req *kmsg.FetchRequest, items []fetchItem, least int64) ([]byte, []cut) {
	v := req.Version
	e := encoder{b: wire.AppendResponseHeader(out, h.Correlation, req.Key(), req.IsFlexible()), flexible: req.IsFlexible()}
	e.int32(0) // throttle
	if v >= 7 {
		e.int16(0) // error
		e.int32(0) // session
	}
	e.length(len(req.Topics))
	i := 0
	for ti := range req.Topics {
		rt := &req.Topics[ti]
		if v >= 13 {
			e.b = append(e.b, rt.TopicID[:]...)
		} else {
			e.string(rt.Topic)
		}
		e.length(len(rt.Partitions))
		for pi := range rt.Partitions {
			it := &items[i]
			i++
			begin := len(e.b)
			e.fetchHead(v, rt.Partitions[pi].Partition, it)
			if it.span.Len >= least {
				e.bytesLength(it.span.Len)
				cuts = append(cuts, cut{len(e.b), &it.span})
			} else if !e.copySpan(&it.span) {
				e.b = e.b[:begin]
				it.code = codeStorageError
				it.span.Release()
				it.span = log.Span{}
				e.fetchHead(v, rt.Partitions[pi].Partition, it)
				e.bytesLength(0)
			}
			e.parting(it)
		}
		e.tags()
	}
	e.tags()
	return e.b, cuts
}

// fetchHead encodes a partition up to its records.
func (e *encoder) fetchHead(v int16, id int32, it *fetchItem) {
	e.int32(id)
	e.int16(it.code)
	e.int64(it.visible) // high watermark
	e.int64(it.visible) // last stable offset
	if v >= 5 {
		e.int64(it.start)
	}
	e.length(0) // aborted transactions
	if v >= 11 {
		e.int32(-1) // preferred replica
	}
}

// parting ends a partition, with the place where the asking replica's log parts from this one, if it does (KIP-595).
func (e *encoder) parting(it *fetchItem) {
	if !it.parted || it.code != 0 || !e.flexible {
		e.tags()
		return
	}
	e.b = append(e.b, 1, 0, 13) // one tagged field: number 0, of 13 bytes
	e.int32(it.where.Epoch)
	e.int64(it.where.End)
	e.tags()
}

// copySpan encodes the length and the bytes of a span and reports whether they could be read.
func (e *encoder) copySpan(s *log.Span) bool {
	e.bytesLength(s.Len)
	if s.Len == 0 {
		return true
	}
	at := len(e.b)
	for cap(e.b)-at < int(s.Len) {
		e.b = append(e.b[:cap(e.b)], 0)
	}
	e.b = e.b[:at+int(s.Len)]
	_, err := machine.ReadFull(s.File, e.b[at:], s.Pos)
	return err == nil
}

// encoder appends Kafka primitives.
type encoder struct {
	b        []byte
	flexible bool
}

func (e *encoder) int16(v int16) { e.b = binary.BigEndian.AppendUint16(e.b, uint16(v)) }
func (e *encoder) int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

// length is that of an array.
func (e *encoder) length(n int) {
	if e.flexible {
		e.b = binary.AppendUvarint(e.b, uint64(n)+1)
	} else {
		e.int32(int32(n))
	}
}

// bytesLength is that of a byte string.
func (e *encoder) bytesLength(n int64) { e.length(int(n)) }

func (e *encoder) string(s string) {
	if e.flexible {
		e.b = binary.AppendUvarint(e.b, uint64(len(s))+1)
	} else {
		e.int16(int16(len(s)))
	}
	e.b = append(e.b, s...)
}

// tags ends a structure that has none.
func (e *encoder) tags() {
	if e.flexible {
		e.b = append(e.b, 0)
	}
}
