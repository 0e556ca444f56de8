package oracle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker/log"
	wire "faultline/broker/record"
	"faultline/sim"
	simdisk "faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/virtual"
	"faultline/workloads/history"
)

// bench is a simulated broker's machine with the disk oracles on it. What runs there is the real log, or a forger that writes
// what no correct log would.
type bench struct {
	t     *testing.T
	w     *sim.World
	c     *virtual.Computer
	m     machine.Machine
	rec   *history.Recorder
	disks *Disks
	recs  *Recoveries
	ret   *Retention
	dirty *Unflushed
}

const benchDir = "broker/visits-0"

func newBench(t *testing.T, seed uint64, topic Topic) *bench {
	b := &bench{t: t, w: sim.New(sim.Config{Seed: seed})}
	cluster := virtual.New(b.w, virtual.Config{})
	b.c = cluster.Add("broker-1")
	b.rec = history.NewRecorder(b.w.Now)
	topic.Name, topic.Partitions = "visits", 1
	p := &Promise{Brokers: []string{"broker-1"}, Coord: []string{"coord-1"}, Topics: []Topic{topic}, HealWithin: time.Minute}
	b.disks = NewDisks(p, b.w.Now)
	b.disks.Watch("broker-1", b.c.Disk(), func() time.Time { return b.c.Clock().Wall(b.w.Now()) })
	b.recs, b.ret, b.dirty = NewRecoveries(b.disks), NewRetention(b.disks), NewUnflushed(b.disks)
	b.ret.Within = 10 * time.Second
	p.Ruins = NewRuins(p)
	b.rec.Attach(p.Ruins)
	b.rec.Attach(b.disks)
	b.rec.Attach(b.recs)
	b.rec.Attach(b.ret)
	b.rec.Attach(b.dirty)
	cluster.OnEvent = func(c *virtual.Computer, e *machine.Event) { b.rec.Traced(b.who(), *e) }
	b.boot()
	return b
}

func (b *bench) who() history.Who {
	return history.Who{Machine: "broker-1", Incarnation: b.c.Incarnation()}
}

func (b *bench) boot() {
	b.c.Boot(func(m machine.Machine) error {
		b.m = m
		b.w.Halt()
		m.Sleep(time.Duration(1 << 62))
		return nil
	})
	b.rec.MachineStarted(b.who())
	b.w.Run(b.w.Now())
}

func (b *bench) do(fn func() error) error {
	b.t.Helper()
	var err error
	done := false
	b.c.Go("step", func() {
		err = fn()
		done = true
		b.w.Halt()
	})
	b.w.Run(b.w.Now() + time.Hour)
	require.True(b.t, done, "the step does not end")
	return err
}

func (b *bench) pass(d time.Duration) { b.w.Run(b.w.Now() + d) }

func (b *bench) crash() {
	b.c.Crash()
	b.rec.MachineCrashed(b.who(), false, "test")
	b.boot()
}

func (b *bench) power() {
	b.c.PowerLoss()
	b.rec.MachineCrashed(b.who(), true, "test")
	b.boot()
}

// found finishes the run and returns what the three oracles say.
func (b *bench) found() (out []Violation) {
	end := End{At: b.w.Now()}
	for _, o := range []Oracle{b.recs, b.ret, b.dirty} {
		o.Finish(end)
		out = append(out, o.Violations()...)
	}
	return out
}

func (b *bench) silent() {
	b.t.Helper()
	require.Empty(b.t, b.found())
}

func (b *bench) fires(invariant, text string) {
	b.t.Helper()
	all := b.found()
	for _, v := range all {
		if v.Invariant == invariant {
			require.Contains(b.t, v.Message, text)
			return
		}
	}
	require.Fail(b.t, "no violation of "+invariant, "%v", all)
}

// fetched tells that a client got a reply.
func (b *bench) fetched(offset, hw int64, start, end time.Duration, batches ...[]byte) {
	b.answered(1<<20, offset, 0, hw, start, end, batches...)
}

// answered tells that a client, which asked for at most so many bytes, got a reply from a log that begins at first.
func (b *bench) answered(most int32, offset, first, hw int64, start, end time.Duration, batches ...[]byte) {
	var all []byte
	for _, p := range batches {
		all = append(all, p...)
	}
	req := &kmsg.FetchRequest{Topics: []kmsg.FetchRequestTopic{{Topic: "visits", Partitions: []kmsg.FetchRequestTopicPartition{{FetchOffset: offset, PartitionMaxBytes: most}}}}}
	resp := &kmsg.FetchResponse{Topics: []kmsg.FetchResponseTopic{{Topic: "visits", Partitions: []kmsg.FetchResponseTopicPartition{{HighWatermark: hw, LogStartOffset: first, RecordBatches: all}}}}}
	b.rec.KafkaCalled(history.Who{Machine: "consumer-1"}, &history.KafkaCall{Broker: "broker-1:9092", Req: req, Resp: resp, Start: start, End: end})
}

// forger writes a log by hand.
type forger struct {
	*bench
	file  machine.File
	pos   int64
	next  int64
	stamp int64
}

func forge(t *testing.T, topic Topic) *forger {
	f := &forger{bench: newBench(t, 1, topic), stamp: sim.Epoch.UnixMilli()}
	f.must(func() error { return f.m.Disk().Mkdir(benchDir) })
	f.segment(0)
	f.syncDirs()
	f.opened(0, 0)
	return f
}

func (f *forger) must(fn func() error) {
	f.t.Helper()
	require.NoError(f.t, f.do(fn))
}

func (f *forger) segment(base int64) {
	f.must(func() (err error) {
		f.file, err = f.m.Disk().Open(segmentPath(base), machine.Create)
		f.pos, f.next = 0, base
		return err
	})
}

func segmentPath(base int64) string { return fmt.Sprintf("%s/%020d.log", benchDir, base) }

func (f *forger) reopen(base int64) {
	f.must(func() (err error) {
		if f.file, err = f.m.Disk().Open(segmentPath(base), 0); err == nil {
			f.pos, err = f.file.Size()
		}
		return err
	})
}

func (f *forger) syncDirs() {
	f.must(func() error {
		for _, dir := range []string{"", "broker", benchDir} {
			if err := f.m.Disk().SyncDir(dir); err != nil {
				return err
			}
		}
		return nil
	})
}

// forged is a valid batch.
func forged(base int64, records int, stamp int64, text string) []byte {
	p := make([]byte, batchHead+len(text))
	binary.BigEndian.PutUint64(p, uint64(base))
	binary.BigEndian.PutUint32(p[8:], uint32(len(p)-batchPrefix))
	p[16] = 2
	binary.BigEndian.PutUint32(p[23:], uint32(records-1))
	binary.BigEndian.PutUint64(p[27:], uint64(stamp))
	binary.BigEndian.PutUint64(p[35:], uint64(stamp))
	binary.BigEndian.PutUint64(p[43:], ^uint64(0))
	binary.BigEndian.PutUint32(p[57:], uint32(records))
	copy(p[batchHead:], text)
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[batchSummed:], castagnoli))
	return p
}

func (f *forger) write(p []byte) {
	f.must(func() error {
		_, err := machine.WriteFull(f.file, p, f.pos)
		f.pos += int64(len(p))
		return err
	})
}

func (f *forger) put(records int, text string) []byte {
	p := forged(f.next, records, f.stamp, text)
	f.write(p)
	f.next += int64(records)
	return p
}

func (f *forger) sync() { f.must(func() error { return f.file.Sync() }) }

func (f *forger) trace(kind machine.Kind, a, b int64) {
	f.must(func() error {
		f.m.Trace(machine.Event{Kind: kind, Subject: "visits/0", A: a, B: b})
		return nil
	})
}

func (f *forger) opened(start, end int64) { f.trace(machine.LogOpened, start, end) }
func (f *forger) visible(end int64)       { f.trace(machine.LogVisible, end, 0) }
func (f *forger) remove(base int64) {
	f.must(func() error { return f.m.Disk().Remove(segmentPath(base)) })
}

func (f *forger) truncate(size int64) {
	f.must(func() error { return f.file.Truncate(size) })
	f.pos = size
}

func TestDiskOraclesAreSilentOnTheRealLog(t *testing.T) {
	for seed := range uint64(60) {
		draw := rand.New(rand.NewPCG(seed, 7))
		topic := Topic{RetentionTime: -1, RetentionBytes: -1, SegmentBytes: 800}
		switch draw.IntN(3) {
		case 0:
			topic.RetentionBytes = 2000
		case 1:
			topic.RetentionTime = 3 * time.Second
		}
		b := newBench(t, seed, topic)
		cfg := log.Config{SegmentBytes: 800, IndexInterval: 200, FlushInterval: 20 * time.Millisecond,
			RetentionTime: topic.RetentionTime, RetentionBytes: topic.RetentionBytes}
		var l *log.Log
		open := func(clean bool) {
			require.NoError(t, b.do(func() (err error) {
				l, err = log.Open(b.m, benchDir, "visits", 0, cfg, clean)
				return err
			}))
		}
		open(false)
		var builder wire.Builder
		for range 40 {
			switch n := draw.IntN(20); {
			case n < 11:
				builder.Reset(0)
				for i := range 1 + draw.IntN(3) {
					builder.Add(b.m.Now().UnixMilli()+int64(i), nil, make([]byte, draw.IntN(300)), nil)
				}
				p, err := builder.Finish()
				require.NoError(t, err)
				require.NoError(t, b.do(func() error { _, err := l.Append(p, log.AppendOptions{}); return err }))
			case n < 13:
				require.NoError(t, b.do(l.Flush))
			case n < 15:
				b.pass(time.Duration(draw.IntN(2000)) * time.Millisecond)
			case n < 17:
				require.NoError(t, b.do(func() error { return l.Retain(math.MaxInt64) }))
			case n == 17:
				require.NoError(t, b.do(l.Close))
				b.c.Crash()
				b.rec.MachineExited(b.who(), nil)
				b.boot()
				open(true)
			case n == 18:
				b.crash()
				open(false)
			default:
				b.power()
				if draw.IntN(3) == 0 { // again, while it recovers
					b.c.Go("open", func() { log.Open(b.m, benchDir, "visits", 0, cfg, false) })
					b.pass(time.Duration(draw.IntN(3000)) * time.Microsecond)
					b.power()
				}
				open(false)
			}
		}
		require.Empty(t, b.found(), "seed %d", seed)
		b.w.Close()
	}
}

// The real log with everything at once: appends, flushes and retention run while the disk fails, and crashes come at any moment.
func TestDiskOraclesAreSilentOnTheRealLogInChaos(t *testing.T) {
	for seed := range uint64(10) {
		draw := rand.New(rand.NewPCG(seed, 8))
		topic := Topic{RetentionTime: -1, RetentionBytes: 3000, SegmentBytes: 800}
		if seed%2 == 0 {
			topic = Topic{RetentionTime: 200 * time.Millisecond, RetentionBytes: -1, SegmentBytes: 800}
		}
		b := newBench(t, seed, topic)
		cfg := log.Config{SegmentBytes: 800, IndexInterval: 200, FlushInterval: 5 * time.Millisecond, FlushMessages: 20,
			RetentionTime: topic.RetentionTime, RetentionBytes: topic.RetentionBytes}
		live := func(clean bool) {
			l, err := log.Open(b.m, benchDir, "visits", 0, cfg, clean)
			if err != nil {
				return // the disk fails; a crash ends it
			}
			for range 2 {
				sizes := rand.New(rand.NewPCG(draw.Uint64(), 1))
				b.m.Go("append", func() {
					var builder wire.Builder
					for {
						builder.Reset(0)
						for range 1 + sizes.IntN(3) {
							builder.Add(b.m.Now().UnixMilli(), nil, make([]byte, sizes.IntN(300)), nil)
						}
						p, _ := builder.Finish()
						l.Append(p, log.AppendOptions{})
						b.m.Sleep(time.Duration(sizes.IntN(3000)) * time.Microsecond)
					}
				})
			}
			for {
				b.m.Sleep(20 * time.Millisecond)
				l.Retain(math.MaxInt64)
			}
		}
		for round := range 8 {
			faulty := draw.IntN(2) == 0
			if faulty {
				ops := []simdisk.Ops{simdisk.OpSync, simdisk.OpWrite, simdisk.OpSync | simdisk.OpWrite | simdisk.OpRename | simdisk.OpSyncDir, simdisk.OpCreate | simdisk.OpRemove | simdisk.OpTruncate}
				f := simdisk.Fault{ID: fmt.Sprint(round), Kind: simdisk.Error, Ops: ops[draw.IntN(len(ops))], Probability: 0.02}
				if draw.IntN(3) == 0 {
					f = simdisk.Fault{ID: fmt.Sprint(round), Kind: simdisk.Full, Bytes: int64(draw.IntN(40000))}
				}
				require.NoError(t, b.c.Disk().Inject(f))
			}
			b.c.Go("live", func() { live(false) })
			b.pass(time.Duration(draw.IntN(400_000)) * time.Microsecond)
			if faulty {
				b.c.Disk().Heal(fmt.Sprint(round))
			}
			if draw.IntN(2) == 0 {
				b.crash()
			} else {
				b.power()
			}
		}
		b.c.Go("live", func() { live(false) })
		b.rec.PhaseBegan(history.Heal)
		b.ret.Within = time.Second
		b.pass(2 * time.Second)
		require.Empty(t, b.found(), "seed %d", seed)
		require.True(t, b.disks.brokers[0].order[0].open)
		b.w.Close()
	}
}
