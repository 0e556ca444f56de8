package consumer

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	broker "faultline/broker/client"
	"faultline/sim/machine"
)

// fetchEncoder builds fetch requests in memory that it uses again.
type fetchEncoder struct{ req *kmsg.FetchRequest }

func (e *fetchEncoder) begin(maxWait time.Duration, minBytes, maxBytes int32) {
	if e.req == nil {
		e.req = kmsg.NewPtrFetchRequest()
		e.req.ReplicaID = -1
		e.req.SessionEpoch = -1 // no fetch session
	}
	e.req.MaxWaitMillis = int32(max(maxWait/time.Millisecond, 1))
	e.req.MinBytes = minBytes
	e.req.MaxBytes = maxBytes
	e.req.Topics = e.req.Topics[:0]
}

func (e *fetchEncoder) add(topic string, id topicID, partition int32, offset int64, epoch, maxBytes int32) {
	r := e.req
	if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != topic || r.Topics[n-1].TopicID != id {
		if n < cap(r.Topics) {
			r.Topics = r.Topics[:n+1]
			parts := r.Topics[n].Partitions
			r.Topics[n] = kmsg.NewFetchRequestTopic()
			r.Topics[n].Partitions = parts[:0]
		} else {
			r.Topics = append(r.Topics, kmsg.NewFetchRequestTopic())
		}
		r.Topics[n].Topic, r.Topics[n].TopicID = topic, id
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = partition, offset, epoch, maxBytes
	t := &r.Topics[len(r.Topics)-1]
	t.Partitions = append(t.Partitions, p)
}

// fetch asks for the next records of the chosen partitions and queues what comes.
func (f *fetcher) fetch(conn *broker.Conn) error {
	g := f.g
	total := int64(g.cfg.FetchBytes) * int64(len(f.asked))
	f.encoder.begin(f.maxWait, g.cfg.FetchMinBytes, int32(min(total, 64<<20)))
	for _, a := range f.asked {
		f.encoder.add(a.c.topic, a.c.id, a.c.partition, a.position, a.epoch, g.cfg.FetchBytes)
	}
	answer, bytes, err := conn.Fetch(f.encoder.req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return fmt.Errorf("fetch from %s: %w", f.broker.addr, err)
	}
	got := f.match(answer)
	if bytes != nil {
		in := &frame{spare: &g.frames, bytes: bytes}
		for i := range got {
			if ch := got[i].chunk; ch != nil {
				ch.in(in)
			}
		}
	}
	if g.m.Failpoint("fault/consumer/fetched") {
		return errMisfortune // as if it had never come: the positions are where they were
	}
	g.m.Failpoint("fault/consumer/deliver-slow")
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range got {
		g.deliver(&got[i])
	}
	clear(got) // the queue owns the bytes now
	return nil
}

// refused has a claim wait whose broker refuses it. In a coordinator group somebody else may lead it by now; in a registry group that would be told. Called with the
// lock held.
func (g *Group) refused(c *claim) {
	if g.party != nil {
		g.abandon(c)
		g.party.astray(c)
		return
	}
	c.notBefore = g.m.Uptime() + g.pause(c.failures)
	c.failures++
}

// reply is a broker's answer for one partition, with what it answers.
type reply struct {
	ask
	code  int16
	err   error
	end   int64
	chunk *chunk // nil: no records
}

// match pairs the answer with what was asked, and checks the records, which needs no lock.
func (f *fetcher) match(answer *kmsg.FetchResponse) []reply {
	got := f.got[:0]
	sum := 0
	at := 0
	for i := range answer.Topics {
		t := &answer.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			// Answers come in the order of the request, as a rule; look from there.
			for k := range f.asked {
				a := f.asked[(at+k)%len(f.asked)]
				if a.c.partition != p.Partition || a.c.topic != t.Topic || answer.Version >= 13 && a.c.id != t.TopicID {
					continue
				}
				at += k + 1
				r := reply{ask: a, code: p.ErrorCode, err: kerr.ErrorForCode(p.ErrorCode), end: p.HighWatermark}
				if r.err == nil && len(p.RecordBatches) > 0 {
					sum += len(p.RecordBatches)
					r.chunk, r.err = newChunk(a.cursor, a.position, p.HighWatermark, p.RecordBatches)
				}
				got = append(got, r)
				break
			}
		}
	}
	if sum > 0 {
		f.g.m.Work(machine.Work{Summed: int64(sum)})
	}
	f.got = got
	return got
}

// deliver queues what the broker answered for one partition. Called with the lock held.
func (g *Group) deliver(r *reply) {
	c := r.c
	if c.gone || c.cursor != r.cursor || c.position != r.position {
		g.m.Mark("mark/consumer/stale-answer")
		return // an answer to a question that nobody asks any more
	}
	if r.err != nil {
		if r.code == kerr.OffsetOutOfRange.Code {
			g.m.Mark("mark/consumer/out-of-range")
			c.position, c.outOfRange = -1, r.position
		} else {
			g.m.Mark("mark/consumer/partition-refused")
			g.refused(c)
		}
		return
	}
	c.failures = 0
	c.end = r.end
	if r.chunk != nil {
		c.stream.push(r.chunk)
		// Only now: a position that is ahead of the queue would skip the chunk.
		c.position = r.chunk.next
	}
}
