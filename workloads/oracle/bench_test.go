package oracle

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

// stream is a run without any fault: one producer, eight partitions, one consumer that reads along and commits now and then.
type stream struct {
	rec      *history.Recorder
	now      time.Duration
	n        int64 // records so far
	at       [8]int64
	events   int64
	subjects [8]string
	logs     [8]string
	offsets  [8]string
}

func newStream(oracles []Oracle) *stream {
	s := &stream{}
	s.rec = history.NewRecorder(func() time.Duration { return s.now })
	for _, o := range oracles {
		s.rec.Attach(o)
	}
	coord, c := history.Who{Machine: "coord", Incarnation: 1}, history.Who{Machine: "c1", Incarnation: 1}
	tell := func(who history.Who, kind machine.Kind, subject, detail string, n ...int64) {
		e := machine.Event{Kind: kind, Subject: subject, Detail: detail}
		for i, v := range n {
			*[]*int64{&e.A, &e.B, &e.C}[i] = v
		}
		s.rec.Traced(who, e)
	}
	for _, m := range []string{"coord", "b1", "c1", "p"} {
		s.rec.MachineStarted(history.Who{Machine: m, Incarnation: 1})
	}
	tell(coord, machine.SessionOpened, "", "", 1, 6e9)
	tell(coord, machine.ZnodeCreated, "/brokers/ids/1", "{}", 1)
	tell(history.Who{Machine: "b1", Incarnation: 1}, machine.BrokerUp, "", "", 1)
	tell(coord, machine.SessionOpened, "", "", 7, 6e9)
	tell(coord, machine.ZnodeCreated, "/consumers/g/ids/c1", `{"subscription":{"t":1}}`, 7)
	tell(c, machine.ConsumerJoined, "g", "c1", 7)
	for p := range s.at {
		s.subjects[p] = fmt.Sprintf("g/t/%d", p)
		s.logs[p] = fmt.Sprintf("t/%d", p)
		s.offsets[p] = fmt.Sprintf("/consumers/g/offsets/t/%d", p)
		tell(coord, machine.ZnodeCreated, fmt.Sprintf("/consumers/g/owners/t/%d", p), "c1", 7)
		tell(c, machine.ConsumerClaimed, s.subjects[p], "c1", -1)
		tell(c, machine.ConsumerReset, s.subjects[p], "c1", -1, 0)
	}
	return s
}

// batch sends 100 records to each partition and reads them.
func (s *stream) batch() {
	const size = 100
	b, c, p := history.Who{Machine: "b1", Incarnation: 1}, history.Who{Machine: "c1", Incarnation: 1}, history.Who{Machine: "p", Incarnation: 1}
	coord := history.Who{Machine: "coord", Incarnation: 1}
	s.now += time.Millisecond
	first := s.n
	for range size * len(s.at) {
		s.rec.Sent(p, history.NewID(0, s.n), "p", "t", -1, 0, uint64(s.n))
		s.n++
	}
	for q := range s.at {
		s.rec.Traced(b, machine.Event{Kind: machine.LogAppended, Subject: s.logs[q], A: s.at[q], B: s.at[q] + size})
		s.rec.Traced(b, machine.Event{Kind: machine.LogVisible, Subject: s.logs[q], A: s.at[q] + size})
		for i := range int64(size) {
			s.rec.Acked(p, history.NewID(0, first+int64(q)*size+i), "t", int32(q), s.at[q]+i)
		}
		for i := range int64(size) {
			s.rec.Traced(c, machine.Event{Kind: machine.ConsumerHanded, Subject: s.subjects[q], Detail: "c1", A: s.at[q] + i})
			id := first + int64(q)*size + i
			s.rec.Processed(c, "g", "c1", "t", int32(q), s.at[q]+i, history.NewID(0, id), uint64(id))
		}
		s.at[q] += size
		s.rec.Traced(coord, machine.Event{Kind: machine.ZnodeSet, Subject: s.offsets[q], Detail: fmt.Sprint(s.at[q])})
	}
}

func TestOraclesForgetWhatIsSettled(t *testing.T) {
	oracles, d := New(calmly(), nil)
	s := newStream(oracles)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 50 {
		s.batch()
	}
	before := heap()
	for range 1000 {
		s.batch()
	}
	require.Less(t, heap(), before+1<<20, "800,000 further records leave nothing behind")
	for _, o := range oracles {
		o.Finish(End{At: s.now})
		require.Empty(t, o.Violations())
	}
	require.Equal(t, s.n, d.Stats().Delivered)
	runtime.KeepAlive(oracles)
}

// BenchmarkOracles tells the time for one record: sent, acked, handed over, processed (four events) and its share of the rest.
func BenchmarkOracles(b *testing.B) {
	one := func(name string, make func(p *Promise) []Oracle) {
		b.Run(name, func(b *testing.B) {
			s := newStream(make(calmly()))
			b.ReportAllocs()
			s.events = s.rec.Count()
			for b.Loop() {
				for target := s.n + 800; s.n < target; {
					s.batch()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(s.n), "ns/record")
			b.ReportMetric(float64(s.rec.Count()-s.events)/b.Elapsed().Seconds(), "events/s")
		})
	}
	one("none", func(*Promise) []Oracle { return nil })
	one("all", func(p *Promise) []Oracle { o, _ := New(p, nil); return o })
	one("delivery", func(p *Promise) []Oracle { return []Oracle{NewDelivery(p, nil)} })
	one("ownership", func(p *Promise) []Oracle { return []Oracle{NewOwnership(p)} })
	one("offsets", func(p *Promise) []Oracle { return []Oracle{NewOffsets(p, nil)} })
	one("sessions", func(p *Promise) []Oracle { return []Oracle{NewSessions(p)} })
	one("liveness", func(p *Promise) []Oracle { return []Oracle{NewLiveness(p, NewDelivery(p, nil))} })
	one("budget", func(p *Promise) []Oracle { return []Oracle{NewBudget(p)} })
}
