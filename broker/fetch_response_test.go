package broker

import (
	"testing"

	"faultline/broker/log"
	"faultline/broker/wire"
	"faultline/sim/machine"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// bytesFile is a file in memory.
type bytesFile struct {
	machine.File
	data []byte
	bad  bool
}

func (f *bytesFile) Pread(p []byte, at int64) (int, error) {
	if f.bad {
		return 0, machine.ErrIO
	}
	return copy(p[:min(len(p), 1000)], f.data[at:]), nil // short, as reads may be
}

// TestFetchResponseIsWhatKmsgWouldEncode compares the encoder of spans with kmsg in every version.
func TestFetchResponseIsWhatKmsgWouldEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Int16Range(4, 18).Draw(t, "version")
		req := kmsg.NewPtrFetchRequest()
		want := kmsg.NewPtrFetchResponse()
		req.Version, want.Version = version, version
		var items []fetchItem
		for range rapid.IntRange(0, 3).Draw(t, "topics") {
			rt, wt := kmsg.NewFetchRequestTopic(), kmsg.NewFetchResponseTopic()
			rt.Topic = rapid.StringMatching("[a-z]{1,300}").Draw(t, "topic")
			copy(rt.TopicID[:], rt.Topic)
			wt.Topic, wt.TopicID = rt.Topic, rt.TopicID
			for i := range rapid.IntRange(0, 4).Draw(t, "partitions") {
				rp, wp := kmsg.NewFetchRequestTopicPartition(), kmsg.NewFetchResponseTopicPartition()
				rp.Partition, wp.Partition = int32(i), int32(i)
				it := fetchItem{
					code:    rapid.Int16Range(0, 100).Draw(t, "code"),
					start:   rapid.Int64().Draw(t, "start"),
					visible: rapid.Int64().Draw(t, "visible"),
				}
				wp.ErrorCode, wp.HighWatermark, wp.LastStableOffset, wp.LogStartOffset = it.code, it.visible, it.visible, it.start
				wp.PreferredReadReplica = -1
				wp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
				wp.RecordBatches = []byte{}
				if rapid.Bool().Draw(t, "some") {
					n := rapid.SampledFrom([]int{1, 126, 127, 128, 5000, copyBelow - 1, copyBelow, 3 * copyBelow}).Draw(t, "bytes")
					f := &bytesFile{data: make([]byte, n+10)}
					for k := range f.data {
						f.data[k] = byte(k*31 + i)
					}
					it.span = log.Span{File: f, Pos: 10, Len: int64(n)}
					wp.RecordBatches = f.data[10:]
				}
				items = append(items, it)
				rt.Partitions = append(rt.Partitions, rp)
				wt.Partitions = append(wt.Partitions, wp)
			}
			req.Topics = append(req.Topics, rt)
			want.Topics = append(want.Topics, wt)
		}
		out, cuts := appendFetch([]byte{}, nil, wire.Header{Correlation: 9}, req, items, copyBelow)
		var got []byte
		from := 0
		sent := int64(0)
		for _, k := range cuts {
			got = append(got, out[from:k.at]...)
			got = append(got, k.span.File.(*bytesFile).data[k.span.Pos:k.span.Pos+k.span.Len]...)
			from = k.at
			sent += k.span.Len
		}
		got = append(got, out[from:]...)
		wire.SetFrameSize(out, sent)
		copy(got, out[:4])
		require.Equal(t, wire.AppendResponse(nil, 9, want), got)
	})
}

func TestFetchResponseOfAFileThatCannotBeRead(t *testing.T) {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 12
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.Partitions = "t", []kmsg.FetchRequestTopicPartition{{Partition: 3}}
	req.Topics = append(req.Topics, rt)
	out, cuts := appendFetch(nil, nil, wire.Header{}, req, []fetchItem{{span: log.Span{File: &bytesFile{bad: true}, Len: 50}}}, copyBelow)
	require.Empty(t, cuts)
	var resp kmsg.FetchResponse
	resp.Version = 12
	_, rest, err := wire.ResponseCorrelation(out[4:])
	require.NoError(t, err)
	require.NoError(t, wire.DecodeResponse(&resp, rest, false))
	require.Equal(t, codeStorageError, resp.Topics[0].Partitions[0].ErrorCode)
	require.Empty(t, resp.Topics[0].Partitions[0].RecordBatches)
}
