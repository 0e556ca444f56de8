package log

import (
	"fmt"
	"math"
	"time"

	"faultline/broker/record"
	"faultline/broker/sequence"
)

// producerExpiry is how long an idempotent producer is remembered after its last batch, by the batches' timestamps (Kafka's producer.id.expiration.ms).
const producerExpiry = 24 * time.Hour

// recognise looks up the batches of an idempotent producer. dup: they are in the log already. Errors: record.ErrInvalid, those of package sequence. Call with appending.
func (l *Log) recognise(batches []byte) (dup *sequence.Batch, err error) {
	b, rest, err := record.Next(batches)
	if err != nil || b.ProducerID < 0 && len(rest) == 0 {
		return nil, err
	}
	if len(rest) > 0 {
		for ; err == nil && b.ProducerID < 0 && len(rest) > 0; b, rest, err = record.Next(rest) {
		}
		if err == nil && b.ProducerID >= 0 {
			err = fmt.Errorf("%w: more than one batch with those of an idempotent producer among them", record.ErrInvalid)
		}
		return nil, err
	}
	if err := b.Check(); err != nil {
		return nil, err // before anything that it says is believed
	}
	if b.Count < 1 || b.LastOffsetDelta != b.Count-1 || b.BaseSequence < 0 || b.ProducerEpoch < 0 {
		return nil, fmt.Errorf("%w: %d records of producer %d in epoch %d from sequence number %d on", record.ErrInvalid, b.Count, b.ProducerID, b.ProducerEpoch, b.BaseSequence)
	}
	asked := sequenced(&b.Header)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Check(&asked)
}

// note takes down a batch that is in the log now. Call with mu, or while nobody else knows the log.
func (l *Log) note(h *record.Header) {
	if isSequenced(h) {
		l.producers.Add(sequenced(h))
	}
}

// isSequenced reports whether the batch is one of an idempotent producer. Its records may be gone: what was compacted keeps the header.
func isSequenced(h *record.Header) bool { return h.ProducerID >= 0 && h.BaseSequence >= 0 }

func sequenced(h *record.Header) sequence.Batch {
	return sequence.Batch{Producer: h.ProducerID, Epoch: h.ProducerEpoch, First: h.BaseSequence, Last: int32((int64(h.BaseSequence) + int64(h.LastOffsetDelta)) & math.MaxInt32),
		Base: h.BaseOffset, End: h.LastOffset(), Time: h.MaxTimestamp}
}

// remember finds out again what producers appended below a boundary in segment s: below the recovery point only the last few batches of each are known. What is known and lies below the log start stays known. Call
// with appending and flushing.
func (l *Log) remember(s *segment, until spot) error {
	var p sequence.Producers
	l.mu.Lock()
	segments := l.segments
	l.mu.Unlock()
	buf := make([]byte, window)
	for _, o := range segments {
		end := o.size
		if o == s {
			end = until.pos
		}
		w := walk{file: o.file, end: end, buf: buf}
		for at := (spot{o.base, 0}); at.pos < end; {
			h, err := w.batch(at)
			if err != nil {
				return err
			}
			if isSequenced(&h) {
				p.Add(sequenced(&h))
			}
			at = at.after(&h)
		}
		if o == s {
			break
		}
	}
	l.mu.Lock()
	p.Precede(&l.producers, until.offset)
	l.producers = p
	l.mu.Unlock()
	return nil
}
