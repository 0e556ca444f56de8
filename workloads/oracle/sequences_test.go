package oracle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// numbered appends batches to a forged log, each "producer/epoch/first-last", "-" for one without number, "cut N" to cut the log at an offset, "retain" to delete all but a new segment, or "begun N" for another replica that begins
// anew at an offset, and says what is found.
func numbered(t *testing.T, start int64, batches ...string) []Violation {
	f := forge(t, Topic{})
	if start > 0 {
		f.must(func() error { return f.m.Disk().Remove(segmentPath(0)) })
		f.segment(start)
		f.syncDirs()
		f.opened(start, start)
	}
	o := NewSequences(f.disks.promise, f.disks)
	f.rec.Attach(o)
	f.number(batches...)
	live := len(o.Violations())
	o.Finish(End{At: f.w.Now()})
	require.GreaterOrEqual(t, len(o.Violations()), 2*live, "what was found while it went on is found at the end")
	return o.Violations()
}

// number appends such batches.
func (f *forger) number(batches ...string) {
	ends := map[int64]int64{f.next: f.pos}
	base := f.next
	for _, text := range batches {
		var at int64
		if n, _ := fmt.Sscanf(text, "cut %d", &at); n == 1 {
			before := f.next
			f.must(func() error { return f.file.Truncate(ends[at]) })
			f.pos, f.next = ends[at], at
			f.trace(machine.LogTruncated, before, at)
			continue
		}
		if n, _ := fmt.Sscanf(text, "begun %d", &at); n == 1 {
			f.rec.Traced(history.Who{Machine: "broker-2"}, machine.Event{Kind: machine.LogTruncated, Subject: "visits/0", B: at, C: 1})
			continue
		}
		if text == "retain" {
			f.segment(f.next)
			f.trace(machine.LogDeleted, base, f.next)
			f.remove(base)
			base = f.next
			continue
		}
		p := numberedBatch(f, text)
		f.write(p)
		first := f.next
		f.next += int64(binary.BigEndian.Uint32(p[23:])) + 1
		ends[f.next] = f.pos
		f.trace(machine.LogAppended, first, f.next)
	}
}

// numberedBatch is such a batch, to follow.
func numberedBatch(f *forger, text string) []byte {
	var producer int64
	var epoch int16
	var first, last int32
	if n, _ := fmt.Sscanf(text, "%d/%d/%d-%d", &producer, &epoch, &first, &last); n != 4 {
		return forged(f.next, 1, f.stamp, "x")
	}
	p := forged(f.next, int(last-first)+1, f.stamp, "x")
	binary.BigEndian.PutUint64(p[43:], uint64(producer))
	binary.BigEndian.PutUint16(p[51:], uint16(epoch))
	binary.BigEndian.PutUint32(p[53:], uint32(first))
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[batchSummed:], castagnoli))
	return p
}

func TestSequences(t *testing.T) {
	for _, c := range []struct {
		name    string
		start   int64
		batches []string
		want    string // "": silence
	}{
		{"one after the other", 0, []string{"1/0/0-4", "-", "2/0/0-0", "1/0/5-5", "2/0/1-3"}, ""},
		{"again at once", 0, []string{"1/0/0-4", "1/0/0-4"}, "at offset 5, the sequence numbers 0..4 of producer 1 in epoch 0, though it had come to 4 at offset 0"},
		{"again behind others", 0, []string{"1/0/0-0", "1/0/1-1", "1/0/2-2", "1/0/3-3", "1/0/4-4", "1/0/5-5", "1/0/0-0"}, "at offset 6, the sequence numbers 0..0"},
		{"a part again", 0, []string{"1/0/0-4", "1/0/3-7"}, "the sequence numbers 3..7"},
		{"before its turn", 0, []string{"1/0/0-4", "1/0/6-7"}, "the sequence numbers 6..7 of producer 1 in epoch 0, though it had come to 4"},
		{"begins in the middle", 0, []string{"1/0/3-4"}, "the sequence numbers 3..4 of producer 1 in epoch 0, and nothing of it before"},
		{"begins in the middle of a log whose start is gone", 7, []string{"1/0/3-4", "1/0/5-5"}, ""},
		{"again in a log whose start is gone", 7, []string{"1/0/3-4", "1/0/3-4"}, "the sequence numbers 3..4"},
		{"the next epoch", 0, []string{"1/0/0-4", "1/1/0-4", "1/2/0-0"}, ""},
		{"the next epoch goes on", 0, []string{"1/0/0-4", "1/1/5-6"}, "the sequence numbers 5..6 of producer 1 in epoch 1, with which that epoch begins"},
		{"the epoch before", 0, []string{"1/0/0-4", "1/1/0-1", "1/0/5-6"}, "the sequence numbers 5..6 of producer 1 in epoch 0, behind its epoch 1 at offset 5"},
		{"around the ring", 9, []string{"1/0/2147483640-2147483647", "1/0/0-3"}, ""},
		{"again after a cut", 0, []string{"1/0/0-4", "1/0/5-6", "cut 5", "1/0/5-6"}, ""},
		{"again where a replica began anew in between", 0, []string{"1/1/0-1", "1/1/2-2", "begun 3", "-", "1/1/0-1", "1/1/2-2"}, ""},
		{"again where a replica began anew before", 0, []string{"-", "begun 1", "1/1/0-1", "1/1/0-1"}, "the sequence numbers 0..1 of producer 1 in epoch 1, though it had come to 1"},
		{"again in the middle where a replica began anew in between", 0, []string{"1/1/0-1", "1/1/2-2", "begun 3", "1/1/2-2"}, "the sequence numbers 2..2"},
		{"not again after a cut", 0, []string{"1/0/0-4", "1/0/5-6", "cut 5", "1/0/7-7"}, "the sequence numbers 7..7 of producer 1 in epoch 0, though it had come to 4 at offset 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := numbered(t, c.start, c.batches...)
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.NotEmpty(t, found)
			require.Equal(t, Idemp, found[0].Invariant)
			require.Contains(t, found[0].Message, c.want)
		})
	}
}

// TestSequencesThatAreRefused tells what a broker answers to a batch, after some are in its log and, perhaps, it was opened again.
func TestSequencesThatAreRefused(t *testing.T) {
	in := []string{"1/0/0-0", "1/0/1-2", "1/0/3-3", "1/0/4-4", "1/0/5-5", "1/0/6-9"}
	for _, c := range []struct {
		name    string
		batches []string
		asked   string
		ago     time.Duration // since when the request is under way
		code    int16
		want    string // "": silence
	}{
		{"one of the last five", in, "1/0/1-2", 0, kerr.DuplicateSequenceNumber.Code, "says of the sequence numbers 1..2 of producer 1 in epoch 0 for visits/0: DUPLICATE_SEQUENCE_NUMBER"},
		{"one before these", in, "1/0/0-0", 0, kerr.DuplicateSequenceNumber.Code, ""},
		{"another that ends elsewhere", in, "1/0/1-1", 0, kerr.DuplicateSequenceNumber.Code, ""},
		{"of an epoch that is over", append(in[:6:6], "1/1/0-0"), "1/0/1-2", 0, kerr.DuplicateSequenceNumber.Code, ""},
		{"the next one", in, "1/0/10-12", 0, kerr.OutOfOrderSequenceNumber.Code, "they follow the batches of that producer in its log, the latest at offset 6"},
		{"the one behind it", in, "1/0/11-12", 0, kerr.OutOfOrderSequenceNumber.Code, ""},
		{"the next one, while the one before came", in, "1/0/10-12", time.Hour, kerr.OutOfOrderSequenceNumber.Code, ""},
		{"a producer that is there", in, "1/0/11-12", 0, kerr.UnknownProducerID.Code, "its log has batches of that producer in that epoch, the latest at offset 6"},
		{"one that came meanwhile", in, "1/0/11-12", time.Hour, kerr.UnknownProducerID.Code, ""},
		{"another producer", in, "2/0/1-2", 0, kerr.UnknownProducerID.Code, ""},
		{"another epoch", in, "1/1/1-2", 0, kerr.UnknownProducerID.Code, ""},
		{"what was cut off", append(in[:6:6], "cut 1"), "1/0/6-9", 0, kerr.OutOfOrderSequenceNumber.Code, ""},
		{"what is left behind a cut", append(in[:6:6], "cut 1"), "1/0/1-2", 0, kerr.UnknownProducerID.Code, "its log has batches of that producer in that epoch, the latest at offset 0"},
		{"one of the last five, which are all deleted", append(in[:6:6], "retain"), "1/0/1-2", 0, kerr.DuplicateSequenceNumber.Code, "they are among the last five batches of that producer in its log, the latest at offset 6"},
		{"one before these, which came when all others were deleted", append(in[:6:6], "retain", "1/0/10-10"), "1/0/1-2", 0, kerr.DuplicateSequenceNumber.Code, ""},
		{"nothing is refused", in, "1/0/10-12", 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := forge(t, Topic{})
			o := NewSequences(f.disks.promise, f.disks)
			f.rec.Attach(o)
			f.number(c.batches...)
			now := f.w.Now() + time.Second
			begun := now - time.Millisecond - c.ago
			ask := numberedBatch(f, c.asked)
			o.Observe(&history.Event{Kind: history.KafkaCalled, At: now, Kafka: &history.KafkaCall{Broker: "broker-1:9092", Start: begun, End: now,
				Req:  &kmsg.ProduceRequest{Topics: []kmsg.ProduceRequestTopic{{Topic: "visits", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: ask}}}}},
				Resp: &kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{{Topic: "visits", Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: c.code}}}}}}})
			if c.want == "" {
				require.Empty(t, o.Violations())
				return
			}
			require.Len(t, o.Violations(), 1)
			require.Contains(t, o.Violations()[0].Message, c.want)
		})
	}
}
