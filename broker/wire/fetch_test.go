package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// Whatever the bytes are, and whatever the memory held before, a fetch is read as kmsg reads it.
func TestFetchIsReadAsKmsgReadsIt(t *testing.T) {
	var mine kmsg.FetchRequest
	rapid.Check(t, func(t *rapid.T) {
		sent := drawFetch(t)
		body := damaged(t, sent.AppendTo(tagged(sent.IsFlexible())))
		theirs := kmsg.FetchRequest{Version: sent.Version}
		mine.Version = sent.Version
		want, got := Decode(&theirs, body), DecodeFetch(&mine, body)
		require.Equal(t, want, got)
		if want == nil {
			require.Equal(t, theirs.AppendTo(nil), mine.AppendTo(nil))
		}
	})
}

func TestAnswerToFetchIsReadAsKmsgReadsIt(t *testing.T) {
	var mine kmsg.FetchResponse
	rapid.Check(t, func(t *rapid.T) {
		sent := drawFetched(t)
		body := damaged(t, sent.AppendTo(tagged(sent.IsFlexible())))
		theirs := kmsg.FetchResponse{Version: sent.Version}
		mine.Version = sent.Version
		want, got := DecodeResponse(&theirs, body, false), DecodeFetched(&mine, body)
		require.Equal(t, want, got)
		if want == nil {
			require.Equal(t, theirs.AppendTo(nil), mine.AppendTo(nil))
		}
	})
}

func TestFetchIsReadWithoutGarbage(t *testing.T) {
	req, resp := kmsg.FetchRequest{Version: 17}, kmsg.FetchResponse{Version: 17}
	req.Topics = []kmsg.FetchRequestTopic{{Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}}}
	resp.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{kmsg.NewFetchResponseTopicPartition()}}}
	asked, answered := req.AppendTo([]byte{0}), resp.AppendTo([]byte{0})
	require.Zero(t, testing.AllocsPerRun(50, func() {
		if DecodeFetch(&req, asked) != nil || DecodeFetched(&resp, answered) != nil {
			t.Fatal("not read")
		}
	}))
}

func tagged(flexible bool) []byte {
	if flexible {
		return []byte{0} // the header's
	}
	return nil
}

// damaged is the message, or what is left of it.
func damaged(t *rapid.T, p []byte) []byte {
	if len(p) == 0 {
		return p
	}
	switch rapid.IntRange(0, 5).Draw(t, "damage") {
	case 0:
		return p[:rapid.IntRange(0, len(p)).Draw(t, "left")]
	case 1:
		p[rapid.IntRange(0, len(p)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	case 2:
		return append(p, 0)
	}
	return p
}

func drawID(t *rapid.T) (id [16]byte) {
	id[3] = rapid.Byte().Draw(t, "id")
	return id
}

func rare(t *rapid.T) bool { return rapid.IntRange(0, 9).Draw(t, "rare") == 0 }

func drawFetch(t *rapid.T) *kmsg.FetchRequest {
	num := rapid.Int32()
	req := kmsg.NewPtrFetchRequest()
	req.Version = rapid.Int16Range(4, 17).Draw(t, "version")
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = num.Draw(t, "wait"), num.Draw(t, "min"), num.Draw(t, "max")
	req.IsolationLevel, req.SessionID, req.SessionEpoch = rapid.Int8().Draw(t, "level"), num.Draw(t, "session"), num.Draw(t, "epoch")
	if rapid.Bool().Draw(t, "replica") {
		req.ReplicaState.ID, req.ReplicaState.Epoch = num.Draw(t, "replica id"), rapid.Int64().Draw(t, "broker epoch")
	}
	if rare(t) {
		req.Rack = "rack"
	}
	if rare(t) {
		req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Partitions: []int32{1}}}
	}
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		topic := kmsg.FetchRequestTopic{TopicID: drawID(t)}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.PartitionMaxBytes = num.Draw(t, "id"), num.Draw(t, "epoch"), num.Draw(t, "fetched"), num.Draw(t, "most")
			p.FetchOffset, p.LogStartOffset = rapid.Int64().Draw(t, "offset"), rapid.Int64().Draw(t, "start")
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func drawFetched(t *rapid.T) *kmsg.FetchResponse {
	num, large := rapid.Int32(), rapid.Int64()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = rapid.Int16Range(4, 17).Draw(t, "version")
	resp.ThrottleMillis, resp.ErrorCode, resp.SessionID = num.Draw(t, "throttle"), rapid.Int16().Draw(t, "error"), num.Draw(t, "session")
	if rare(t) {
		resp.Brokers = []kmsg.FetchResponseBroker{{Host: "host"}}
	}
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		topic := kmsg.FetchResponseTopic{TopicID: drawID(t)}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode, p.PreferredReadReplica = num.Draw(t, "id"), rapid.Int16().Draw(t, "code"), num.Draw(t, "preferred")
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = large.Draw(t, "hw"), large.Draw(t, "stable"), large.Draw(t, "start")
			p.RecordBatches = []byte(rapid.StringN(0, 200, 200).Draw(t, "records"))
			if rare(t) {
				p.RecordBatches = nil
			}
			if rare(t) {
				p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 1)
			}
			if rapid.Bool().Draw(t, "diverges") {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = num.Draw(t, "epoch"), large.Draw(t, "end")
			}
			if rare(t) {
				p.CurrentLeader.LeaderID = 3
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}
