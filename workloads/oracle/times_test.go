package oracle

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	wire "faultline/broker/record"
	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stamped puts a batch of records with these timestamps behind the log's end.
func (f *forger) stamped(times ...int64) {
	var b wire.Builder
	b.Reset(wire.None)
	for _, at := range times {
		b.Add(at, nil, []byte("value"), nil)
	}
	p, err := b.Finish()
	require.NoError(f.t, err)
	binary.BigEndian.PutUint64(p, uint64(f.next))
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[batchSummed:], castagnoli))
	f.write(p)
	f.next += int64(len(times))
}

// answersTime tells the oracle what the broker answered to the question for the first record of a time.
func answersTime(f *forger, o *Times, asked, offset, timestamp int64) {
	part := kmsg.ListOffsetsRequestTopicPartition{Timestamp: asked}
	req := &kmsg.ListOffsetsRequest{Topics: []kmsg.ListOffsetsRequestTopic{{Topic: "visits", Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}}
	resp := &kmsg.ListOffsetsResponse{Topics: []kmsg.ListOffsetsResponseTopic{{Topic: "visits", Partitions: []kmsg.ListOffsetsResponseTopicPartition{{Offset: offset, Timestamp: timestamp}}}}}
	f.rec.KafkaCalled(history.Who{Machine: "consumer-1"}, &history.KafkaCall{Broker: "broker-1:9092", Req: req, Resp: resp, Start: f.w.Now() - time.Millisecond, End: f.w.Now()})
}

func TestTheFirstRecordOfATime(t *testing.T) {
	const cut = 7 // offsets from there on are not shown yet
	for _, c := range []struct {
		name                     string
		asked, offset, timestamp int64
		invariant, says          string // empty: the answer is right
	}{
		{"the first of all", 0, 0, 100, "", ""},
		{"the first though a later one fits better", 110, 1, 130, "", ""},
		{"in the next segment", 135, 6, 140, "", ""},
		{"there is none yet", 150, -1, -1, "", ""},
		{"too late", 110, 2, 120, Deliver, "says that offset 2 of visits/0 is the first of time 110 or later, but offset 1 is one"},
		{"too early", 135, 1, 130, Deliver, "is the first of time 135 or later, though it is of 130"},
		{"another time than it has", 135, 6, 139, Deliver, "is of time 139, but it is of 140"},
		{"what is not shown", 150, 7, 150, Dirty, "tells of offset 7 of visits/0, of time 150, but it shows only what lies below 7"},
		{"none though there is one", 140, -1, -1, Deliver, "has no record of time 140 or later, but offset 6 is one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := forge(t, Topic{RetentionTime: -1, RetentionBytes: -1})
			o := NewTimes(f.disks)
			f.rec.Attach(o)
			f.stamped(100, 130, 120)
			f.stamped(105)
			f.segment(4)
			f.stamped(110, 131, 140)
			f.stamped(150)
			f.trace(machine.LogVisible, cut, 0)
			f.pass(time.Second)
			answersTime(f, o, c.asked, c.offset, c.timestamp)
			if c.says == "" {
				require.Empty(t, o.Violations())
				return
			}
			require.Len(t, o.Violations(), 1)
			require.Equal(t, c.invariant, o.Violations()[0].Invariant)
			require.Contains(t, o.Violations()[0].Message, c.says)
		})
	}
}
