package wire

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetches are the most frequent requests by far, and kmsg allocates every list of a message that it reads. What is read here goes into the lists of the message before, and only in the form that brokers
// and clients of today write: versions from 15 on, no tags but those that have a case below. Everything else is left to kmsg.

const leastPlain = 15 // the version

// DecodeFetch is Decode of a fetch request, in the memory of the one that req held before. The fields of the one before that req is read into are lost.
func DecodeFetch(req *kmsg.FetchRequest, rest []byte) error {
	topics := req.Topics[:0]
	*req = kmsg.FetchRequest{Version: req.Version}
	if req.Version >= leastPlain {
		if body, err := skipTags(rest); err == nil && plainFetch(req, topics, body) {
			return nil
		}
		*req = kmsg.FetchRequest{Version: req.Version}
	}
	return Decode(req, rest)
}

func plainFetch(req *kmsg.FetchRequest, topics []kmsg.FetchRequestTopic, body []byte) bool {
	r := reader{b: body}
	req.Default()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = r.int32(), r.int32(), r.int32()
	req.IsolationLevel = int8(r.byte())
	req.SessionID, req.SessionEpoch = r.int32(), r.int32()
	req.Topics = lists(&r, topics, 32, func(t *kmsg.FetchRequestTopic) *[]kmsg.FetchRequestTopicPartition {
		*t = kmsg.FetchRequestTopic{TopicID: r.uuid(), Partitions: t.Partitions}
		return &t.Partitions
	}, func(p *kmsg.FetchRequestTopicPartition) {
		*p = kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.FetchOffset = r.int32(), r.int32(), r.int64()
		p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes = r.int32(), r.int64(), r.int32()
		r.untagged()
	})
	if r.length(1) > 0 {
		return false // topics that a session forgets
	}
	if r.byte() != 1 {
		return false // a rack
	}
	r.tagged(1, &req.ReplicaState.ID, &req.ReplicaState.Epoch)
	return r.done()
}

// DecodeFetched is DecodeResponse of the answer to a fetch, in the memory of the one that resp held before. Record batches refer to rest.
func DecodeFetched(resp *kmsg.FetchResponse, rest []byte) error {
	topics := resp.Topics[:0]
	*resp = kmsg.FetchResponse{Version: resp.Version}
	if resp.Version >= leastPlain {
		if body, err := skipTags(rest); err == nil && plainFetched(resp, topics, body) {
			return nil
		}
		*resp = kmsg.FetchResponse{Version: resp.Version}
	}
	return DecodeResponse(resp, rest, false)
}

func plainFetched(resp *kmsg.FetchResponse, topics []kmsg.FetchResponseTopic, body []byte) bool {
	r := reader{b: body}
	resp.Default()
	resp.ThrottleMillis, resp.ErrorCode, resp.SessionID = r.int32(), r.int16(), r.int32()
	resp.Topics = lists(&r, topics, 37, func(t *kmsg.FetchResponseTopic) *[]kmsg.FetchResponseTopicPartition {
		*t = kmsg.FetchResponseTopic{TopicID: r.uuid(), Partitions: t.Partitions}
		return &t.Partitions
	}, func(p *kmsg.FetchResponseTopicPartition) {
		*p = kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode = r.int32(), r.int16()
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = r.int64(), r.int64(), r.int64()
		switch r.byte() { // aborted transactions
		case 0: // null
		case 1:
			p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		default:
			r.stop()
		}
		p.PreferredReadReplica = r.int32()
		p.RecordBatches = r.bytes()
		r.tagged(0, &p.DivergingEpoch.Epoch, &p.DivergingEpoch.EndOffset)
	})
	r.untagged()
	return r.done()
}

// lists takes topics off a message, each a uuid and its partitions, into the memory of a list. A partition has at least so many bytes.
func lists[T, P any](r *reader, topics []T, least int, topic func(*T) *[]P, partition func(*P)) []T {
	for range r.length(18) {
		topics = more(topics)
		list := topic(&topics[len(topics)-1])
		*list = (*list)[:0]
		for range r.length(least) {
			*list = more(*list)
			partition(&(*list)[len(*list)-1])
		}
		r.untagged()
	}
	return topics
}

// more makes a list longer by one, the last element being what the memory held before.
func more[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	return append(list, *new(T))
}

// reader takes Kafka primitives off a message of a flexible version. Once something was not as expected it has nothing more to give.
type reader struct {
	b       []byte
	strange bool
}

func (r *reader) stop() { r.b, r.strange = nil, true }

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.stop()
		return zeros[:n]
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

var zeros [16]byte

func (r *reader) byte() byte   { return r.take(1)[0] }
func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

func (r *reader) uuid() [16]byte { return [16]byte(r.take(16)) }

// untagged takes a section of tags that has none.
func (r *reader) untagged() { r.strange = r.byte() != 0 || r.strange }

// tagged takes a section of tags that has none, or the one whose value is two numbers.
func (r *reader) tagged(tag byte, a *int32, b *int64) {
	for range r.byte() {
		if r.byte() != tag || r.byte() != 13 {
			r.stop()
			return
		}
		*a, *b = r.int32(), r.int64()
		r.untagged()
	}
}

// length takes that of a list whose elements have at least so many bytes.
func (r *reader) length(least int) int {
	n, rest, ok := uvarint(r.b)
	if !ok || n == 0 || int64(n-1)*int64(least) > int64(len(rest)) {
		r.stop()
		return 0
	}
	r.b = rest
	return int(n - 1)
}

// bytes takes a byte string, nil: null.
func (r *reader) bytes() []byte {
	n, rest, ok := uvarint(r.b)
	switch {
	case !ok || int64(n) > int64(len(rest))+1:
		r.stop()
		return nil
	case n == 0:
		r.b = rest
		return nil
	}
	r.b = rest[n-1:]
	return rest[: n-1 : n-1]
}

// done tells whether the message was plain and is read to its end.
func (r *reader) done() bool { return !r.strange && len(r.b) == 0 }
