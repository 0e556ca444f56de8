package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"faultline/broker/client"
	coord "faultline/coord/client"
	"faultline/sim/machine"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

type list []Event

func (l *list) Observe(e *Event) { *l = append(*l, *e) }

// tell records one event of every kind.
func tell(r *Recorder) {
	p, c := Who{"producer-1", 1}, Who{"consumer-1", 2}
	r.PhaseBegan(Load)
	r.MachineStarted(p)
	r.Sent(p, NewID(3, 7), "producer-1", "visits", -1, 0xdef, 0xabc)
	r.Acked(p, NewID(3, 7), "visits", 2, 41)
	r.Failed(p, NewID(3, 8), -1, "too large")
	r.Unknown(p, NewID(3, 9), 2, "timed out")
	r.Processed(c, "g", "c1", "visits", 2, 41, NewID(3, 7), 0xabc)
	r.Sought(c, "g", "c1", "visits", 2, 0)
	r.Suspended(c, "g", "c1", "visits", 2)
	r.Continued(c, "g", "c1", "visits", 2)
	r.Traced(c, machine.Event{Kind: machine.ConsumerHanded, Subject: "g/visits/2", Detail: "c1", A: 41})
	r.KafkaCalled(p, &KafkaCall{Broker: "b1:9092", Key: 0, Version: 7, Err: errors.New("reset"), Start: 1, End: 2})
	r.CoordCalled(c, &CoordCall{Session: 5, Op: "multi", Ops: []CoordCall{{Op: "create", Path: "/a", Data: []byte("x"), Ephemeral: true}},
		Start: 3, End: 4})
	r.CoordHeard(c, &CoordSaid{Session: 5, What: "answer", Op: "get", Path: "/a", Watch: true, Found: true, Zxid: 9, Mzxid: 8, Pzxid: 7})
	r.CoordHeard(c, &CoordSaid{Session: 5, What: "alive", Since: 3})
	r.CoordAsked(c, &CoordCall{Op: "set", Path: "/a", Data: []byte("x"), Version: -1, Session: 5, Start: 4})
	r.FaultInjected(1, Fault{Kind: "clog", Hit: []string{"b1"}, Peers: []string{"b2", "b3"}}, "crash b1")
	r.FaultHealed(1, "crash b1")
	r.MachineCrashed(Who{"b1", 1}, true, "fault 1")
	r.MachineExited(Who{"b1", 2}, errors.New("disk on fire"))
	r.MachinePaused(c)
	r.MachineResumed(c)
	r.MachineWiped(c)
	r.MachineRuined("broker-1", 3, "bytes")
	r.MachineMended("broker-1", 3, "bytes")
	r.FaultHeld(4, "power-loss")
	r.PartitionRuined("t", 2, 5)
}

func TestRecorderStampsAndTellsInOrder(t *testing.T) {
	now := time.Duration(0)
	r := NewRecorder(func() time.Duration { now += time.Second; return now })
	var a, b list
	r.Attach(&a)
	r.Attach(&b)
	tell(r)
	require.Equal(t, a, b)
	require.EqualValues(t, len(a), r.Count())
	seen := map[Kind]bool{}
	for i, e := range a {
		require.EqualValues(t, i+1, e.Seq)
		require.Equal(t, time.Duration(i+1)*time.Second, e.At)
		seen[e.Kind] = true
	}
	require.Len(t, seen, len(kindNames)-1, "one event of every kind")
}

func TestRecorderAllocatesNothing(t *testing.T) {
	r := NewRecorder(func() time.Duration { return 1 })
	r.Attach(NewRing(8))
	kafka, err := &KafkaCall{Broker: "b"}, errors.New("x")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.Sent(Who{"p", 1}, 1, "p", "t", 0, 0, 1)
		r.Acked(Who{"p", 1}, 1, "t", 0, 1)
		r.Processed(Who{"c", 1}, "g", "c", "t", 0, 1, 1, 1)
		r.Traced(Who{"c", 1}, machine.Event{Kind: machine.ConsumerHanded, Subject: "g/t/0"})
		r.KafkaCalled(Who{"c", 1}, kafka)
		r.MachineExited(Who{"c", 1}, err)
	}))
}

func TestRingKeepsTheLast(t *testing.T) {
	r := NewRecorder(func() time.Duration { return 0 })
	ring := NewRing(3)
	r.Attach(ring)
	data := []byte("before")
	for i := range 5 {
		r.CoordCalled(Who{}, &CoordCall{Op: "set", Data: data, Version: int32(i)})
	}
	copy(data, "after!") // the caller goes on using its bytes
	var got []int32
	ring.Each(func(e *Event) {
		got = append(got, e.Coord.Version)
		require.Equal(t, "before", string(e.Coord.Data))
	})
	require.Equal(t, []int32{2, 3, 4}, got)
	require.EqualValues(t, 2, ring.Dropped())
}

func TestWriterAndReaderAgreeOnEveryKind(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file)
	var want list
	r := NewRecorder(func() time.Duration { return time.Millisecond })
	r.Attach(w)
	r.Attach(&want)
	tell(r)
	require.NoError(t, w.Flush())
	rd := NewReader(&file)
	for i := range want {
		got, err := rd.Next()
		require.NoError(t, err)
		require.Equal(t, want[i], got)
	}
	_, err := rd.Next()
	require.Equal(t, io.EOF, err)
}

func TestWriterAndReaderAgree(t *testing.T) {
	text := rapid.StringMatching(`[ -$&-~\n\x7fäλ€😀]{0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			Seq: rapid.Int64Min(1).Draw(t, "seq"), At: time.Duration(rapid.Int64Min(0).Draw(t, "at")),
			Kind: Kind(rapid.IntRange(1, len(kindNames)-1).Draw(t, "kind")), Machine: text.Draw(t, "machine"),
			Hash: rapid.Uint64().Draw(t, "hash"), Offset: rapid.Int64().Draw(t, "offset"),
			Partition: rapid.Int32().Draw(t, "partition"), Text: text.Draw(t, "text"), Group: text.Draw(t, "group"),
		}
		switch e.Kind {
		case Sent, Acked, Failed, Unknown, Processed:
			e.ID = ID(rapid.Uint64().Draw(t, "id"))
		case Traced:
			e.Trace = machine.Event{Kind: machine.Kind(rapid.Uint8Range(0, uint8(machine.LockActed)).Draw(t, "tk")), Subject: text.Draw(t, "ts"), Detail: text.Draw(t, "td"), C: rapid.Int64().Draw(t, "c")}
		case CoordCalled, CoordAsked:
			e.Coord = &CoordCall{Op: text.Draw(t, "op"), Path: text.Draw(t, "path"), Name: text.Draw(t, "name"),
				Session: rapid.Int64().Draw(t, "session"), Version: rapid.Int32().Draw(t, "version"),
				Stat: Stat{Version: rapid.Int32().Draw(t, "sv"), Owner: rapid.Int64().Draw(t, "owner")}, Unknown: rapid.Bool().Draw(t, "unknown")}
			if d := rapid.SliceOf(rapid.Byte()).Draw(t, "data"); len(d) > 0 {
				e.Coord.Value = d
			}
			if c := rapid.SliceOf(text).Draw(t, "children"); len(c) > 0 {
				e.Coord.Children = c
			}
		case CoordHeard:
			e.Heard = &CoordSaid{Session: rapid.Int64().Draw(t, "hs"), What: text.Draw(t, "what"), Path: text.Draw(t, "hp"), Op: text.Draw(t, "ho"), Watch: rapid.Bool().Draw(t, "watch"),
				Found: rapid.Bool().Draw(t, "found"), Zxid: rapid.Int64().Draw(t, "zxid"), Mzxid: rapid.Int64().Draw(t, "mzxid"), Pzxid: rapid.Int64().Draw(t, "pzxid"), Since: time.Duration(rapid.Int64().Draw(t, "since"))}
		case KafkaCalled:
			e.Kafka = &KafkaCall{Broker: text.Draw(t, "broker"), Key: rapid.Int16().Draw(t, "key"), Sent: rapid.Bool().Draw(t, "sent")}
		case PhaseBegan:
			e.Phase = Phase(rapid.IntRange(1, 4).Draw(t, "phase"))
		}
		var file bytes.Buffer
		w := NewWriter(&file)
		w.Observe(&e)
		require.NoError(t, w.Flush())
		got, err := NewReader(&file).Next()
		require.NoError(t, err)
		require.Equal(t, e, got)
		require.NotContains(t, e.String(), "%!")
	})
}

func TestReaderNamesTheBadLine(t *testing.T) {
	good := `{"seq":1,"at":0,"kind":"paused"}` + "\n"
	for text, want := range map[string]string{
		"{}\n": `line 2: unknown kind ""`,
		`{"seq":2,"kind":"sent","id":"7"}` + "\n":     `line 2: id "7"`,
		`{"seq":2,"kind":"phase","phase":"x"}` + "\n": `line 2: unknown phase "x"`,
		"nonsense\n": "line 2",
		`{"seq":2`:   "line 2: cut off",
	} {
		r := NewReader(strings.NewReader(good + text))
		_, err := r.Next()
		require.NoError(t, err)
		_, err = r.Next()
		require.ErrorContains(t, err, want)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"seq":1,"at":5,"kind":"sent","id":"1/2","hash":"ff"}` + "\n"))
	f.Add([]byte(`{"seq":1,"kind":"coord","coord":{"op":"multi","ops":[{"op":"set"}]}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			e, err := r.Next()
			if err != nil {
				return
			}
			_ = e.String()
		}
	})
}

type full struct{ n int }

func (f *full) Write(p []byte) (int, error) { f.n++; return 0, errors.New("disk full") }

func TestWriterTellsTheFirstError(t *testing.T) {
	f := &full{}
	w := NewWriter(f)
	for range 100_000 {
		w.Observe(&Event{Kind: MachinePaused, Machine: "m"})
	}
	require.EqualError(t, w.Flush(), "disk full")
	require.Equal(t, 1, f.n, "no further attempts")
}

func TestHashTellsKeyFromValue(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	require.NotEqual(t, HashRecord(b("ab"), b("c")), HashRecord(b("a"), b("bc")))
	require.NotEqual(t, HashRecord(b("a"), nil), HashRecord(nil, b("a")))
	require.Equal(t, HashRecord(nil, b("a")), HashRecord(b(""), b("a")))
}

func TestKafkaTapSpeaksWorldTime(t *testing.T) {
	r := NewRecorder(func() time.Duration { return 0 })
	ring := NewRing(1)
	r.Attach(ring)
	tap := &KafkaTap{Recorder: r, Who: Who{"p", 1}, World: func(up time.Duration) time.Duration { return up + time.Hour }}
	req := kmsg.NewPtrFetchRequest()
	req.Version = 11
	var _ client.Tap = tap
	tap.Done(client.Call{Broker: "b:1", Req: req, Start: 1, End: 2})
	ring.Each(func(e *Event) {
		require.Equal(t, KafkaCall{Broker: "b:1", Key: 1, Version: 11, Start: time.Hour + 1, End: time.Hour + 2}, *e.Kafka)
	})
}

func TestCoordTapCopiesEveryField(t *testing.T) {
	r := NewRecorder(func() time.Duration { return 0 })
	ring := NewRing(2)
	r.Attach(ring)
	tap := &CoordTap{Recorder: r, Who: Who{"c", 1}, World: func(up time.Duration) time.Duration { return up + time.Hour }}
	var _ coord.Tap = tap
	tap.Done(coord.Call{Session: 7, Kind: coord.OpCreate, Path: "/a-", Data: []byte("x"), Flags: coord.Ephemeral | coord.Sequential,
		Created: "/a-1", Sent: true, Start: 1, End: 2})
	tap.Done(coord.Call{Kind: coord.OpMulti, Ops: []coord.Op{coord.CheckOp("/a", 3)}, Err: fmt.Errorf("multi: %w", coord.ErrConnectionLoss)})
	var got []CoordCall
	ring.Each(func(e *Event) { got = append(got, *e.Coord) })
	require.Equal(t, CoordCall{Session: 7, Op: "create", Path: "/a-", Data: []byte("x"), Ephemeral: true, Sequential: true, Name: "/a-1",
		Sent: true, Start: time.Hour + 1, End: time.Hour + 2}, withoutEmpty(got[0]))
	require.True(t, got[1].Unknown)
	require.Equal(t, []CoordCall{{Op: "check", Path: "/a", Version: 3}}, []CoordCall{withoutEmpty(got[1].Ops[0])})
}

func withoutEmpty(c CoordCall) CoordCall {
	if len(c.Data) == 0 {
		c.Data = nil
	}
	c.Value, c.Children, c.Ops = nil, nil, nil
	return c
}

func BenchmarkRecorder(b *testing.B) {
	r := NewRecorder(func() time.Duration { return 1 })
	r.Attach(NewRing(1024))
	b.ReportAllocs()
	for b.Loop() {
		r.Processed(Who{"c", 1}, "g", "c", "t", 0, 1, 1, 1)
	}
}
