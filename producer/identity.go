package producer

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// identity makes retries recognisable: the producer's id, which brokers give, and the epoch in which its batches are numbered, partition by partition, from 0 on (KIP-98).
//
// A batch that is given up leaves a gap, behind which brokers accept nothing. Then the producer goes to the next epoch, in which the numbers begin anew (KIP-360). Whatever may be in the
// log already keeps its old identity until that is settled: under a new one a broker would not recognise it, and it would be there twice (KAFKA-14034).
type identity struct {
	producer int64 // -1: not known yet
	epoch    int16
}

// follow is the sequence number so many records after one.
func follow(sequence int32, records int) int32 {
	return int32((int64(sequence) + int64(records)) & math.MaxInt32)
}

// may tells whether a batch at the head of its queue may go.
func (a *accumulator) may(b *batch) bool {
	switch {
	case !a.cfg.Idempotent:
		return true
	case a.as.producer < 0:
		return false
	case a.renewing:
		return b.numbered && b.unknown // to find out what became of it
	}
	return true
}

// number gives a batch that goes for the first time its place among those of its partition.
func (a *accumulator) number(b *batch) {
	if a.cfg.Idempotent && !b.numbered {
		b.numbered, b.stamped, b.as, b.sequence = true, false, a.as, b.part.nextSequence
		b.part.nextSequence = follow(b.part.nextSequence, b.builder.Count())
	}
}

// foremost tells whether all batches of the partition before this one are settled. Those behind it may be under way: if it had to be the only one, batches that are refused and sent again together would be so for ever.
func (a *accumulator) foremost(b *batch) bool {
	for x := a.oldest; x != b; x = x.next {
		if x.part == b.part && x.charged > 0 {
			return false
		}
	}
	return true
}

// gap notes that the batch ended without being in the log for sure.
func (a *accumulator) gap(b *batch) {
	if b.numbered && b.as == a.as {
		a.renewing = true
	}
}

// renew goes to the next epoch when nothing is under way that could be in the log. What waits is numbered anew. It reports whether it did.
func (a *accumulator) renew() bool {
	if !a.renewing || a.inFlight > 0 {
		return false
	}
	each := func(parts []*partition, fn func(p *partition) bool) bool {
		for _, p := range parts {
			if !fn(p) {
				return false
			}
		}
		return true
	}
	all := func(fn func(p *partition) bool) bool {
		for _, n := range a.nodes {
			if !each(n.parts, fn) {
				return false
			}
		}
		return each(a.lost, fn)
	}
	// What is surely not in the log lets nothing behind it be there: the broker accepts no gap.
	if !all(func(p *partition) bool { return len(p.queue) == 0 || !p.queue[0].numbered || !p.queue[0].unknown }) {
		return false
	}
	all(func(p *partition) bool {
		p.nextSequence = 0
		for _, b := range p.queue {
			b.numbered, b.stamped, b.unknown = false, false, false
		}
		return true
	})
	a.renewing = false
	if a.as.epoch == math.MaxInt16 || a.spoilt {
		a.as, a.spoilt = identity{producer: -1}, false
		return true
	}
	a.as.epoch++
	return true
}

// identify asks a broker for an id. Called by the keeper, without the lock.
func (p *Producer) identify() (identity, error) {
	if p.m.Failpoint("fault/producer/identify") {
		return identity{producer: -1}, errMisfortune
	}
	conn, err := p.cluster.Any()
	if err != nil {
		return identity{producer: -1}, err
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = int32(p.cfg.RequestTimeout.Milliseconds())
	resp, err := conn.Request(req)
	if err != nil {
		return identity{producer: -1}, err
	}
	r := resp.(*kmsg.InitProducerIDResponse)
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return identity{producer: -1}, err
	}
	return identity{r.ProducerID, r.ProducerEpoch}, nil
}
