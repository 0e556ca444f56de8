package producer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/broker/client"
	"faultline/broker/record"
)

// TestAccumulator runs the scripts in testdata/accumulator. Commands:
//
//	new [batch=N] [records=N] [linger=D] [inflight=N] [buffer=N] [request=N] [timeout=D]
//	meta leaders=(B,B,...)      topic t: partition 0, 1, ... and the broker that leads it (-1: nobody)
//	add at=D                    input: a line for each record, "partition value [xN]"
//	due at=D                    when each broker has something to send
//	drain broker=B at=D         take a request
//	ack batch=N base=N | fail batch=N | retry batch=N ready=D | split batch=N
//	expire at=D
//	flush
//	show
func TestAccumulator(t *testing.T) {
	datadriven.Walk(t, "testdata/accumulator", func(t *testing.T, path string) {
		w := &bench{}
		datadriven.RunTest(t, path, w.run)
	})
}

// bench drives an accumulator by commands. Batches get their names, 1, 2, ..., when they are taken first.
type bench struct {
	acc    *accumulator
	names  map[*batch]int
	flight []*batch // by name - 1
	told   []string
}

func (w *bench) run(t *testing.T, d *datadriven.TestData) string {
	duration := func(key string) time.Duration {
		var s string
		if !d.MaybeScanArgs(t, key, &s) {
			return 0
		}
		v, err := time.ParseDuration(s)
		require.NoError(t, err)
		return v
	}
	number := func(key string) int {
		n := 0
		d.MaybeScanArgs(t, key, &n)
		return n
	}
	named := func() *batch { return w.flight[number("batch")-1] }
	at := duration("at")
	var out strings.Builder
	w.told = nil
	switch d.Cmd {
	case "new":
		cfg, err := Config{Brokers: []string{"b"}, BatchBytes: number("batch"), BatchRecords: number("records"), Linger: duration("linger"),
			MaxInFlight: number("inflight"), BufferBytes: number("buffer"), RequestBytes: number("request"), DeliveryTimeout: duration("timeout")}.withDefaults()
		require.NoError(t, err)
		w.acc, w.names = newAccumulator(cfg), map[*batch]int{}
	case "meta":
		meta := client.Topic{Name: "t"}
		for _, arg := range d.CmdArgs {
			for i, v := range arg.Vals {
				var b int32
				_, err := fmt.Sscan(v, &b)
				require.NoError(t, err)
				meta.Partitions = append(meta.Partitions, client.Partition{ID: int32(i), Leader: b})
			}
		}
		w.acc.learn(&meta, at)
	case "add":
		for line := range strings.SplitSeq(d.Input, "\n") {
			part, times, value := 0, 1, ""
			n, _ := fmt.Sscanf(line, "%d %s x%d", &part, &value, &times)
			require.GreaterOrEqual(t, n, 2, line)
			for range times {
				w.acc.add(w.acc.topics["t"].parts[part], &Record{Topic: "t", Value: []byte(value)}, 1000, func(r Result) {
					w.told = append(w.told, fmt.Sprintf("%s@%d", value, r.Offset))
				}, at)
			}
		}
	case "due":
		for _, n := range w.acc.nodes {
			if when := w.acc.next(n); when == never {
				fmt.Fprintf(&out, "broker %d: never\n", n.broker)
			} else {
				fmt.Fprintf(&out, "broker %d: %v\n", n.broker, when)
			}
		}
	case "drain":
		for _, b := range w.acc.drain(w.acc.node(int32(number("broker"))), at, nil) {
			_, err := b.encode()
			require.NoError(t, err)
			if w.names[b] == 0 {
				w.flight = append(w.flight, b)
				w.names[b] = len(w.flight)
			}
			fmt.Fprintf(&out, "batch %d: %s\n", w.names[b], show(b))
		}
	case "ack":
		b := named()
		w.acc.finish(b, int64(number("base")), nil)
		b.report()
		w.forget(b)
		out.WriteString(strings.Join(w.told, " ") + "\n")
	case "fail":
		b := named()
		w.acc.finish(b, -1, errors.New("failed"))
		b.report()
		w.forget(b)
		out.WriteString(strings.Join(w.told, " ") + "\n")
	case "retry":
		w.acc.requeue(named(), duration("ready"))
	case "split":
		b := named()
		delete(w.names, b) // its memory is used again
		require.NoError(t, w.acc.split(b))
	case "expire":
		expired, again := w.acc.expire(at)
		for _, b := range expired {
			fmt.Fprintf(&out, "%s: %v\n", b.part.subject, b.err)
			w.forget(b)
		}
		if again == never {
			out.WriteString("again: never\n")
		} else {
			fmt.Fprintf(&out, "again: %v\n", again)
		}
	case "flush":
		id := w.acc.closeOpen()
		fmt.Fprintf(&out, "done: %v\n", w.acc.doneBelow(id))
	case "show":
		for _, p := range w.acc.topics["t"].parts {
			fmt.Fprintf(&out, "%s in flight %d:", p.subject, p.inFlight)
			for _, b := range p.queue {
				fmt.Fprintf(&out, " [%s]", show(b))
			}
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "used %d\n", w.acc.used)
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return out.String()
}

func (w *bench) forget(b *batch) {
	delete(w.names, b)
	w.acc.forget(b)
}

// show is "partition: values".
func show(b *batch) string {
	state := ""
	if !b.closed {
		state = " open"
	}
	values := fmt.Sprintf("%d records from %d", b.builder.Count(), b.first)
	if b.bytes != nil {
		whole, _, err := record.Next(b.bytes)
		if err != nil {
			return err.Error()
		}
		values = ""
		var it record.Iterator
		it.Reset(whole)
		for it.Next() {
			values += " " + string(it.Record.Value)
		}
		values = strings.TrimSpace(values)
	}
	return fmt.Sprintf("%d:%s %s", b.part.id, state, values)
}

// Whatever fails, splits and is tried again: with one batch in flight, a partition's records reach the log in the order of add; every record is
// reported exactly once, with its own offset; and at the end nothing is charged or remembered.
func TestAccumulatorKeepsOrderAndAttribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, err := Config{Brokers: []string{"b"}, BatchBytes: 150, BatchRecords: rapid.IntRange(1, 6).Draw(t, "records"),
			Compression: rapid.SampledFrom([]Codec{None, Snappy}).Draw(t, "codec")}.withDefaults()
		require.NoError(t, err)
		acc := newAccumulator(cfg)
		acc.learn(&client.Topic{Name: "t", Partitions: []client.Partition{{ID: 0, Leader: 1}, {ID: 1, Leader: 1}, {ID: 2, Leader: 2}}}, 0)

		var log [3][]string
		told := map[string]bool{}
		added := [3]int{}
		var now time.Duration
		step := func(fail bool) {
			n := acc.node(int32(rapid.IntRange(1, 2).Draw(t, "broker")))
			for _, b := range acc.drain(n, now, nil) {
				p, err := b.encode()
				require.NoError(t, err)
				what := rapid.IntRange(0, 3).Draw(t, "outcome")
				switch {
				case fail && what == 0:
					acc.requeue(b, now+time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")))
				case fail && what == 1 && len(b.done) > 1:
					require.NoError(t, acc.split(b))
				default:
					base := len(log[b.part.id])
					whole, _, err := record.Next(p)
					require.NoError(t, err)
					var it record.Iterator
					for it.Reset(whole); it.Next(); {
						log[b.part.id] = append(log[b.part.id], string(it.Record.Value))
					}
					require.NoError(t, it.Err())
					acc.finish(b, int64(base), nil)
					b.report()
					acc.forget(b)
				}
			}
			now++
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				part := rapid.IntRange(0, 2).Draw(t, "partition")
				value := fmt.Sprintf("%d-%d", part, added[part])
				added[part]++
				acc.add(acc.topics["t"].parts[part], &Record{Topic: "t", Value: []byte(value)}, 5, func(r Result) {
					require.False(t, told[value], "told twice")
					told[value] = true
					require.NoError(t, r.Err)
					require.Equal(t, value, log[r.Partition][r.Offset])
				}, now)
			} else {
				step(true)
			}
		}
		id := acc.closeOpen()
		for i := 0; !acc.doneBelow(id); i++ {
			require.Less(t, i, 1000, "it comes to an end")
			step(false)
		}
		for p := range log {
			require.Len(t, log[p], added[p])
			for i, v := range log[p] {
				require.Equal(t, fmt.Sprintf("%d-%d", p, i), v)
			}
		}
		require.Zero(t, acc.used)
		require.Nil(t, acc.oldest)
		require.Nil(t, acc.newest)
	})
}
