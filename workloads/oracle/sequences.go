package oracle

import (
	"encoding/binary"
	"math"
	"strings"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sequences judges what idempotent producers are promised (IDEMP), by the batches on the brokers' disks: in a log each sequence number of a producer is there at most once, and in order.
//
// Verified, on the disk of each broker, be it leader or follower, whenever a batch is appended; of the whole log when it is opened, after a cut, and at the end: the first batch of a producer,
// and of each of its epochs, begins at sequence number 0; each further one begins behind the one before; no batch of an earlier epoch follows one of a later.
// So a retry that is not recognised shows - after a restart, in the log of a new leader, or behind a window that is too small - and a batch that gets in before the one that it follows.
//
// Verified, of each answer to a produce request, by the log of the broker that answers, as it was before the request began and still is: a batch that is among the last five of its producer in the
// log is recognised, so nobody says of it that it is too old to know where; a batch that follows the producer's last one is not refused as out of order; and a producer of which the log has a batch in this
// epoch is not unknown. What a leader forgets of its producers shows here: after a restart, a cut, or a compaction.
//
// Where a replica of the partition began anew ([Begun]), a producer may begin at 0 once more behind a batch that lies before.
//
// Where a log begins above offset 0, or compaction took batches, what is gone is not known: there the first batch that is left of a producer may begin anywhere.
//
// Beyond the atlas ([Ruins]): nothing is judged on a disk that is ruined, and nothing at all once a wire changes bytes or the registry, which hands out the ids, was ruined.
//
// Not verified: that what is acknowledged is where the acknowledgement says, and what becomes of a record that gets a new sequence number (Delivery); anything across partitions.
type Sequences struct {
	Findings
	promise *Promise
	disks   *Disks
	logs    map[*diskLog]*sequenced
	begun   map[place]Begun
}

// sequenced is what was read of a log: up to the offset next, at pos of the segment with the base.
type sequenced struct {
	base, pos, next int64
	whole           bool // nothing is missing before next
	producers       map[int64]sequence
}

// sequence is where a producer stands.
type sequence struct {
	epoch int16
	last  int32
	at    int64                 // offset of the batch that says so
	known time.Duration         // since when the log has a batch of the epoch
	ends  [retryable]lastNumber // of the last batches, the latest first
}

// lastNumber is the last sequence number of a batch that is in the log since a moment.
type lastNumber struct {
	number int32
	since  time.Duration
	there  bool
}

// retryable is how many batches a producer may have under way, so that a retry is one of its last so many (KIP-98).
const retryable = 5

// NewSequences judges the logs on the disks that d watches.
func NewSequences(p *Promise, d *Disks) *Sequences {
	o := &Sequences{promise: p, disks: d, logs: map[*diskLog]*sequenced{}, begun: map[place]Begun{}}
	o.Free(p.Ruins.Records)
	return o
}

// Invariants implements [Oracle].
func (o *Sequences) Invariants() []string { return []string{Idemp} }

// Needs implements [history.Selective].
func (*Sequences) Needs() history.Steps { return history.Appending | history.Requesting }

// Observe implements [Oracle].
func (o *Sequences) Observe(e *history.Event) {
	if e.Kind == history.KafkaCalled {
		o.answered(e)
		return
	}
	if e.Kind != history.Traced {
		return
	}
	switch e.Trace.Kind {
	case machine.LogAppended, machine.LogOpened, machine.LogTruncated:
	default:
		return
	}
	at, ok := parsePlace(e.Trace.Subject)
	if !ok {
		return
	}
	if e.Trace.Kind == machine.LogTruncated {
		begun := o.begun[at]
		begun.Note(&e.Trace)
		o.begun[at] = begun
	}
	l := o.disks.on(e.Machine, at)
	if l == nil || !l.open {
		return
	}
	if e.Trace.Kind != machine.LogAppended {
		delete(o.logs, l) // what was read may have been cut off
	}
	o.read(e, l, e.Trace.B)
}

// Finish implements [Oracle].
func (o *Sequences) Finish(end End) {
	for _, b := range o.disks.brokers {
		for _, l := range b.order {
			if l.open {
				delete(o.logs, l)
				o.read(&history.Event{At: end.At}, l, math.MaxInt64)
			}
		}
	}
}

// answered judges what a broker says of the sequence numbers of batches.
func (o *Sequences) answered(e *history.Event) {
	req, _ := e.Kafka.Req.(*kmsg.ProduceRequest)
	resp, _ := e.Kafka.Resp.(*kmsg.ProduceResponse)
	if req == nil || resp == nil {
		return
	}
	broker, _, _ := strings.Cut(e.Kafka.Broker, ":")
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			switch p.ErrorCode {
			case kerr.DuplicateSequenceNumber.Code, kerr.OutOfOrderSequenceNumber.Code, kerr.UnknownProducerID.Code:
			default:
				continue
			}
			at := place{resp.Topics[i].Topic, p.Partition}
			if l := o.disks.on(broker, at); l != nil && l.open && !l.unsound(e) && o.logs[l] != nil {
				if h, ok := asked(req, at); ok {
					o.refused(e, l, &h, p.ErrorCode)
				}
			}
		}
	}
}

// asked is the batch for a partition in a request.
func asked(req *kmsg.ProduceRequest, at place) (h numbers, ok bool) {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if p := &req.Topics[i].Partitions[j]; req.Topics[i].Topic == at.topic && p.Partition == at.partition && len(p.Records) >= batchHead {
				h, _ = readNumbers(p.Records)
				return h, h.producer >= 0
			}
		}
	}
	return h, false
}

// refused judges a refusal by what was in the log from before the request on until now.
func (o *Sequences) refused(e *history.Event, l *diskLog, h *numbers, code int16) {
	s, known := o.logs[l].producers[h.producer]
	if !known || s.epoch != h.epoch {
		return
	}
	begun := func(at time.Duration) bool { return at < e.Kafka.Start }
	last := after(h.first, h.records-1)
	wrong := func(why string) {
		o.Violate(e.At, Idemp, "%s says of the sequence numbers %d..%d of producer %d in epoch %d for %v: %v; but %s, the latest at offset %d", l.on.machine, h.first, last, h.producer, h.epoch, l.place, kerr.ErrorForCode(code), why, s.at)
	}
	switch code {
	case kerr.DuplicateSequenceNumber.Code:
		for i := range s.ends {
			if x := &s.ends[i]; x.there && x.number == last && begun(x.since) {
				wrong("they are among the last five batches of that producer in its log")
			}
		}
	case kerr.OutOfOrderSequenceNumber.Code:
		if x := &s.ends[0]; h.first == after(s.last, 1) && begun(x.since) {
			wrong("they follow the batches of that producer in its log")
		}
	default:
		if begun(s.known) {
			wrong("its log has batches of that producer in that epoch")
		}
	}
}

// read judges the batches from where the last read ended up to an offset, or as far as there are whole ones.
func (o *Sequences) read(e *history.Event, l *diskLog, to int64) {
	live := l.live()
	if l.ruined || len(live) == 0 {
		delete(o.logs, l)
		return
	}
	s := o.logs[l]
	if s == nil {
		first := live[0].base
		s = &sequenced{base: first, next: first, whole: first == 0, producers: map[int64]sequence{}}
		o.logs[l] = s
	}
	i, found := l.segment(s.base)
	if !found || l.segs[i].dead {
		// Retention took it, or compaction put it together with others. What was read stays known, as it does to the broker.
		for i = len(l.segs) - 1; i > len(l.segs)-len(live) && l.segs[i].base > s.next; {
			i--
		}
		s.base, s.pos = l.segs[i].base, 0
	}
	var head [batchHead]byte
	for s.next < to {
		f, ok := l.on.model.File(l.segs[i].path)
		if !ok {
			return
		}
		if s.pos >= f.Size && i+1 < len(l.segs) {
			i++
			s.base, s.pos = l.segs[i].base, 0
			continue
		}
		if n, _ := f.ReadAt(head[:], s.pos); n < len(head) {
			return
		}
		h, size := readNumbers(head[:])
		if size < batchHead || s.pos+size > f.Size {
			return // no whole batch: others judge
		}
		if h.base < s.next {
			s.pos += size // it was read where it was before
			continue
		}
		if h.base > s.next || h.gap { // compaction took what was between
			s.whole = false
			clear(s.producers)
		}
		s.next, s.pos = h.base+int64(h.records), s.pos+size
		if h.producer >= 0 && h.first >= 0 {
			o.judge(e, l, s, &h)
		}
	}
}

// numbers is what a batch's header says of its place.
type numbers struct {
	base     int64
	records  int32 // offsets that it takes
	producer int64
	epoch    int16
	first    int32
	newest   int64 // of its times, ms since 1970
	gap      bool  // it only fills the place of batches that are gone
}

func readNumbers(p []byte) (h numbers, size int64) {
	h = numbers{
		base: int64(binary.BigEndian.Uint64(p)), records: int32(binary.BigEndian.Uint32(p[23:])) + 1, producer: int64(binary.BigEndian.Uint64(p[43:])),
		newest: int64(binary.BigEndian.Uint64(p[35:])), epoch: int16(binary.BigEndian.Uint16(p[51:])), first: int32(binary.BigEndian.Uint32(p[53:])),
	}
	h.gap = h.producer < 0 && binary.BigEndian.Uint32(p[57:]) == 0
	return h, int64(int32(binary.BigEndian.Uint32(p[8:]))) + batchPrefix
}

// after is the sequence number so many behind another.
func after(sequence, n int32) int32 { return int32((int64(sequence) + int64(n)) & math.MaxInt32) }

// judge holds a batch against those of its producer before it.
func (o *Sequences) judge(e *history.Event, l *diskLog, s *sequenced, h *numbers) {
	was, known := s.producers[h.producer]
	last := after(h.first, h.records-1)
	now := sequence{epoch: h.epoch, last: last, at: h.base, known: e.At}
	if known && h.first == 0 && o.begun[l.place].Between(was.at, h.base) {
		known = false
	}
	if known && was.epoch == h.epoch {
		now.known = was.known
		copy(now.ends[1:], was.ends[:])
	}
	now.ends[0] = lastNumber{last, e.At, true}
	s.producers[h.producer] = now
	wrong := func(format string, args ...any) {
		args = append([]any{l.on.machine, l.place, h.base, h.first, last, h.producer, h.epoch}, args...)
		o.Violate(e.At, Idemp, "%s has in its log of %v, at offset %d, the sequence numbers %d..%d of producer %d in epoch %d, "+format, args...)
	}
	switch {
	case !known:
		if s.whole && h.first != 0 {
			wrong("and nothing of it before")
		}
	case h.epoch < was.epoch:
		wrong("behind its epoch %d at offset %d", was.epoch, was.at)
	case h.epoch > was.epoch:
		if h.first != 0 {
			wrong("with which that epoch begins")
		}
	case h.first != after(was.last, 1):
		wrong("though it had come to %d at offset %d", was.last, was.at)
	}
}
