package linear

import (
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/oracle"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wireBatch is a record batch as a producer sends it (base 0) or a broker stores it.
func wireBatch(base int64, records int32, text string) []byte {
	b := kmsg.RecordBatch{FirstOffset: base, Magic: 2, LastOffsetDelta: records - 1, NumRecords: records, ProducerID: -1, FirstSequence: -1, Records: []byte(text)}
	b.Length = int32(batchHeader - batchOverhead + len(text))
	raw := b.AppendTo(nil)
	b.CRC = int32(crc32.Checksum(raw[batchAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// wire tells what clients asked of a broker, in kmsg's messages.
type wire struct{ *Oracle }

func newWire() wire {
	return wire{New(&oracle.Promise{Brokers: []string{"broker"}, Coord: []string{"coord"}})}
}

func (w wire) call(who string, call, ret int, req kmsg.Request, resp kmsg.Response, err error) {
	c := history.KafkaCall{Req: req, Resp: resp, Err: err, Sent: true, Start: ms * time.Duration(call), End: ms * time.Duration(ret)}
	w.Observe(&history.Event{Kind: history.KafkaCalled, At: c.End, Machine: who, Kafka: &c})
}

func (w wire) produce(call, ret int, acks int16, batch []byte, base int64, code int16, err error) {
	req := &kmsg.ProduceRequest{Acks: acks, Topics: []kmsg.ProduceRequestTopic{{Topic: "visits", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}}
	resp := &kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{{Topic: "visits", Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: code, BaseOffset: base}}}}}
	if err != nil {
		w.call("producer", call, ret, req, nil, err)
		return
	}
	w.call("producer", call, ret, req, resp, nil)
}

func (w wire) fetch(call, ret int, hw int64, batches ...[]byte) {
	var all []byte
	for _, b := range batches {
		all = append(all, b...)
	}
	p := kmsg.FetchResponseTopicPartition{HighWatermark: hw, RecordBatches: all}
	w.call("consumer", call, ret, &kmsg.FetchRequest{}, &kmsg.FetchResponse{Topics: []kmsg.FetchResponseTopic{{Topic: "visits", Partitions: []kmsg.FetchResponseTopicPartition{p}}}}, nil)
}

func (w wire) latest(call, ret int, end int64) {
	req := &kmsg.ListOffsetsRequest{Topics: []kmsg.ListOffsetsRequestTopic{{Topic: "visits", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}}
	resp := &kmsg.ListOffsetsResponse{Topics: []kmsg.ListOffsetsResponseTopic{{Topic: "visits", Partitions: []kmsg.ListOffsetsResponseTopicPartition{{Offset: end}}}}}
	w.call("consumer", call, ret, req, resp, nil)
}

func (w wire) trace(at int, e machine.Event) {
	w.Observe(&history.Event{Kind: history.Traced, At: ms * time.Duration(at), Machine: "broker", Trace: e})
}

func (w wire) finish() []oracle.Violation {
	w.Finish(oracle.End{At: time.Hour})
	return w.Violations()
}

func TestOracleReadsTheWire(t *testing.T) {
	story := func() wire {
		w := newWire()
		w.produce(0, 5, -1, wireBatch(0, 2, "aa"), 0, 0, nil)
		w.produce(6, 9, -1, wireBatch(0, 3, "bbb"), -1, 6, nil) // NOT_LEADER: surely nothing
		w.produce(10, 12, -1, wireBatch(0, 1, "c"), 0, 0, errors.New("gone"))
		w.fetch(3, 13, 2, wireBatch(0, 2, "aa"))
		return w
	}
	w := story()
	w.latest(14, 15, 3)
	w.fetch(14, 16, 3, wireBatch(2, 1, "c"))
	require.Empty(t, w.finish())
	require.Equal(t, 6-1, w.Verdicts()[0].Checked)

	w = story()
	w.latest(14, 15, 1)
	require.Len(t, w.finish(), 1)
	w = story()
	w.latest(14, 15, 3)
	w.latest(16, 17, 2)
	require.Contains(t, w.finish()[0].Message, "stale read")
	w = story()
	w.fetch(14, 16, 2, wireBatch(0, 2, "ax"))
	require.Contains(t, w.finish()[0].Message, "another batch at offset 0")
	w = story()
	w.fetch(14, 16, 2, wireBatch(2, 1, "c"))
	require.Contains(t, w.finish()[0].Message, "with a high watermark of 2")
}

// A ruined disk or wire frees what comes from then on, on that broker, and a ruined registry all logs with several replicas; what was seen before stays judged.
func TestOracleUnderRuins(t *testing.T) {
	for _, c := range []struct {
		what, machine string
		before        bool // the violation comes first
		freed         bool
		replicas      int
	}{
		{"", "", false, false, 1}, {"bytes", "broker", false, true, 1}, {"wire", "broker", false, true, 1}, {"bytes", "broker-2", false, false, 1},
		{"bytes", "broker", true, false, 1}, {"wire", "broker", true, false, 1},
		{"wiped", "coord", false, true, 3}, {"wiped", "coord", true, false, 3}, {"wiped", "coord", false, false, 1}, {"", "", false, false, 3},
	} {
		p := &oracle.Promise{Brokers: []string{"broker"}, Coord: []string{"coord"}, Topics: []oracle.Topic{{Name: "visits", Partitions: 1, Replicas: c.replicas}}}
		p.Ruins = oracle.NewRuins(p)
		w := wire{New(p)}
		ruin := func() {
			e := &history.Event{Kind: history.MachineRuined, At: 8 * ms, Machine: c.machine, Text: c.what}
			if c.what == "wiped" {
				e.Kind = history.MachineWiped
			}
			if c.what != "" {
				p.Ruins.Observe(e)
				w.Observe(e)
			}
		}
		w.trace(0, machine.Event{Kind: machine.LogOpened, Subject: "visits/0"})
		w.produce(0, 5, -1, wireBatch(0, 2, "aa"), 0, 0, nil)
		if !c.before {
			ruin()
		}
		w.fetch(10, 12, 2, wireBatch(0, 2, "ax")) // other bytes at the same offset
		if c.before {
			ruin()
		}
		require.Equal(t, c.freed, len(w.finish()) == 0, "%+v", c)
	}
}

// What was sent before a ruin may have been read before it, though its answer, or the end of the wait for one, comes after. (overload, seed 195.)
func TestOracleHearsOfAnAppendAfterTheRuin(t *testing.T) {
	for _, c := range []struct {
		call  int
		err   error
		freed bool
	}{
		{5, errors.New("timed out"), true}, {5, nil, true},
		{9, nil, false}, {9, errors.New("timed out"), false}, // sent after the ruin: not what was read before it
	} {
		p := &oracle.Promise{Brokers: []string{"broker"}, Coord: []string{"coord"}}
		p.Ruins = oracle.NewRuins(p)
		w := wire{New(p)}
		w.trace(0, machine.Event{Kind: machine.LogOpened, Subject: "visits/0"})
		w.fetch(6, 7, 2, wireBatch(0, 2, "aa"))
		e := &history.Event{Kind: history.MachineRuined, At: 8 * ms, Machine: "broker", Text: "bytes"}
		p.Ruins.Observe(e)
		w.Observe(e)
		w.produce(c.call, 10, -1, wireBatch(0, 2, "aa"), 0, 0, c.err)
		require.Equal(t, c.freed, len(w.finish()) == 0, "%+v", c)
	}
}

func TestOraclePowerLossTakesAcks1Only(t *testing.T) {
	for _, acks := range []int16{1, -1} {
		w := newWire()
		w.trace(0, machine.Event{Kind: machine.LogOpened, Subject: "visits/0"})
		w.produce(0, 5, acks, wireBatch(0, 2, "aa"), 0, 0, nil)
		w.Observe(&history.Event{Kind: history.MachineCrashed, At: 7 * ms, Machine: "broker", Power: true})
		w.produce(10, 15, -1, wireBatch(0, 1, "b"), 0, 0, nil)
		w.fetch(16, 17, 1, wireBatch(0, 1, "b"))
		found := w.finish()
		if acks == 1 {
			require.Empty(t, found)
		} else {
			require.Equal(t, Durable, found[0].Invariant)
		}
	}
}

func TestOracleTopicDeletedAndMadeAgain(t *testing.T) {
	w := newWire()
	w.trace(0, machine.Event{Kind: machine.LogOpened, Subject: "visits/0"})
	w.produce(0, 5, -1, wireBatch(0, 2, "aa"), 0, 0, nil)
	w.fetch(6, 7, 2, wireBatch(0, 2, "aa"))
	w.trace(8, machine.Event{Kind: machine.TopicRemoved, Subject: "visits"})
	w.latest(6, 9, 2) // answered late
	w.trace(10, machine.Event{Kind: machine.LogOpened, Subject: "visits/0"})
	w.produce(10, 15, -1, wireBatch(0, 1, "b"), 0, 0, nil)
	w.fetch(16, 17, 1, wireBatch(0, 1, "b"))
	require.Empty(t, w.finish())
}

func TestOracleRecordsOfACrashedProducerAreNoPhantoms(t *testing.T) {
	for _, crash := range []bool{true, false} {
		w := newWire()
		w.Observe(&history.Event{Kind: history.Sent, Machine: "producer"})
		if crash {
			w.latest(0, 1, 0)
			w.Observe(&history.Event{Kind: history.MachineCrashed, At: 7 * ms, Machine: "producer"})
		}
		w.fetch(16, 17, 1, wireBatch(0, 1, "b"))
		require.Equal(t, crash, len(w.finish()) == 0)
	}
}

func FuzzEachBatch(f *testing.F) {
	f.Add(append(wireBatch(0, 2, "aa"), wireBatch(2, 1, "b")...))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		eachBatch(b, func(b Batch) {
			total++
			require.Positive(t, b.Records)
		})
		require.LessOrEqual(t, total*batchHeader, len(b))
	})
}
