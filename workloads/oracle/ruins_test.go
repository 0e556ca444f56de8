package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

// under makes an oracle whose promise ruins may free.
func under(make func(*Promise) Oracle, change ...func(*Promise)) leaning {
	p := calmly()
	for _, c := range change {
		c(p)
	}
	p.Ruins = NewRuins(p)
	return leaning{make(p), on(p.Ruins)}
}

func deliveries(p *Promise) Oracle { return NewDelivery(p, nil) }
func owners(p *Promise) Oracle     { return NewOwnership(p) }
func sessions(p *Promise) Oracle   { return NewSessions(p) }
func commits(p *Promise) Oracle    { return NewOffsets(p, nil) }
func lives(p *Promise) Oracle      { return livenessOf(p) }
func caps(p *Promise) Oracle       { return NewBudget(p) }
func why(p *Promise) Oracle        { return NewReasons(p) }
func parties(p *Promise) Oracle    { return NewMembers(p) }

// gathered has a group that brokers coordinate; its offsets are in so many copies.
func gathered(copies int) func(*Promise) {
	return func(p *Promise) {
		p.Groups = meeting(true).Groups
		p.Topics = append(p.Topics, Topic{Name: offsetsTopic, Partitions: 1, Replicas: copies})
	}
}

// capped allows a group of brokers one rebalance for each change.
func capped(p *Promise) {
	gathered(3)(p)
	p.RebalancesPerChange = 1
}

// written is a record that is stored, shown and acknowledged, and read by nobody.
const written = "b1 log.opened t/0 - 0 0; sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.visible t/0 - 1; acked 0/0 t/0 0; "

// An excuse takes what its ruin can take and nothing else: each story breaks a promise at the place of RUIN, and is told with the ruin that explains it, without any,
// with the same on another machine, and with others that do not explain it.
func TestAnExcuseIsNoBlindfold(t *testing.T) {
	emptied := "crash b1; b1#2 log.opened t/0 - 0 0; "
	for _, c := range []struct {
		name      string
		oracle    func(*Promise) Oracle
		change    func(*Promise)
		story     string
		invariant string
		freedBy   []string
		not       []string
	}{
		{"a lost record", deliveries, nil, written + "RUIN; " + emptied, Deliver,
			[]string{"ruin 1 b1 bytes", "ruin 1 b1 bytes; mend 1 b1 bytes", "wipe b1", "ruin 1 p wire; ruin 1 b1 wire", "ruin 1 coord bytes"},
			[]string{"ruin 1 b1 flushes", "ruin 1 b2 bytes", "wipe b2", "power b1"}},
		{"a lost record of after the ruin", deliveries, nil, "RUIN; +1s; " + written + emptied, Deliver,
			[]string{"ruin 1 b1 wire"}, []string{"ruin 1 b1 bytes; mend 1 b1 bytes", "wipe b1", "ruin 1 b1 flushes; mend 1 b1 flushes"}},
		{"a flushed record lost with the power", deliveries, nil, "b1 log.opened t/0 - 0 0; RUIN; " + written + "power b1; b1#2 log.opened t/0 - 0 0", Deliver,
			[]string{"ruin 1 b1 flushes", "ruin 1 b1 flushes; mend 1 b1 flushes"}, []string{"ruin 1 b2 flushes"}},
		{"a record flushed before the disk lied, lost with the power", deliveries, nil, written + "RUIN; power b1; b1#2 log.opened t/0 - 0 0", Deliver,
			[]string{"ruin 1 b1 bytes"}, []string{"ruin 1 b1 flushes"}},
		{"a flushed record lost with the process", deliveries, nil, "b1 log.opened t/0 - 0 0; RUIN; " + written + emptied, Deliver, nil, []string{"ruin 1 b1 flushes"}},
		{"an offset given out anew", deliveries, nil, written + "own g/t/0 c1 7; claimed c1 g/t/0 0; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; RUIN; " + emptied + "+1s; sent 1/0 t; acked 1/0 t/0 0", Deliver,
			[]string{"ruin 1 b1 bytes", "wipe b1"}, []string{"ruin 1 b2 bytes", "ruin 1 b1 flushes"}},
		{"an offset given out anew, while a queue holds what was there", deliveries, nil, "own g/t/0 c1 7; claimed c1 g/t/0 0; " + written + "RUIN; " + emptied + "+1s; sent 1/0 t; acked 1/0 t/0 0; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0", Deliver,
			[]string{"wipe b1"}, []string{"wipe b2", "ruin 1 b1 flushes"}},
		{"an idempotent record in another place", deliveries, func(p *Promise) { p.Producers[0].Idempotent = true }, written + "sent 0/1 t; b1 log.appended t/0 - 1 2; b1 log.visible t/0 - 2; own g/t/0 c1 7; claimed c1 g/t/0 0; handed c1 g/t/0 0; " +
			"processed c1 g/t/0 0 0/0; handed c1 g/t/0 1; processed c1 g/t/0 1 0/1; RUIN; " + emptied + "+1s; acked 0/1 t/0 0", Idemp,
			[]string{"wipe b1"}, []string{"wipe b2", "ruin 1 b1 flushes"}},
		{"a gap", deliveries, nil, twoSent + "handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; sent 0/2 t; b1 log.appended t/0 - 2 3; b1 log.visible t/0 - 3; acked 0/2 t/0 2; RUIN; handed c1 g/t/0 2", Deliver,
			[]string{"ruin 1 b1 bytes"}, []string{"ruin 1 b2 bytes"}},
		{"again, at most once", deliveries, atMostOnce, written + "own g/t/0 c1 7; claimed c1 g/t/0 0; commit g/t/0 1; handed c1 g/t/0 0; processed c1 g/t/0 0 0/0; RUIN; processed c1 g/t/0 0 0/0", DupB,
			[]string{"ruin 1 b1 bytes", "wipe b1"}, []string{"wipe b2", "ruin 1 b1 flushes"}},
		{"a phantom", deliveries, nil, written + "RUIN; processed c1 g/t/0 0 5/0", Deliver, nil,
			[]string{"ruin 1 b1 bytes", "ruin 1 b1 flushes", "wipe b1", "ruin 1 b1 wire", "ruin 1 coord bytes", "wipe coord"}},
		{"other bytes", deliveries, nil, written + "RUIN; processed c1 g/t/0 0 0/0 bad", Deliver, nil,
			[]string{"ruin 1 b1 bytes", "ruin 1 b1 flushes", "wipe b1", "ruin 1 b1 wire", "ruin 1 coord bytes", "wipe coord"}},
		{"another topic", deliveries, nil, written + "RUIN; processed c1 g/u/0 0 0/0", Deliver, []string{"ruin 1 b1 wire"}, []string{"ruin 1 b1 bytes", "wipe b1"}},
		{"two owners", owners, nil, expand(oneMember) + "RUIN; handed c1 g/t/0 0; disown g/t/0 7; own g/t/0 c2 8; handed c1 g/t/0 1", Own1,
			[]string{"ruin 1 coord bytes", "wipe coord", "ruin 1 coord wire"}, []string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire"}},
		{"no owner", owners, nil, expand(oneMember) + "RUIN; released c1 g/t/0; disown g/t/0 7; +11s; phase heal", OwnAll,
			[]string{"ruin 1 coord flushes"}, []string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire"}},
		{"a node survives its session", sessions, nil, expand(oneMember) + "RUIN; coord session.expired - - 7", Session,
			[]string{"ruin 1 coord bytes"}, []string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire"}},
		{"too much committed", commits, nil, threeRead + "RUIN; commit g/t/0 4", CommitP,
			[]string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire", "ruin 1 coord bytes"}, []string{"ruin 1 b2 bytes", "ruin 1 b1 flushes"}},
		{"a commit goes back", commits, nil, threeRead + "commit g/t/0 3; RUIN; commit g/t/0 2", CMono,
			[]string{"ruin 1 b1 bytes", "ruin 1 b1 flushes; power b1"}, []string{"ruin 1 b2 bytes", "ruin 1 b1 flushes", "power b1"}},
		{"a commit vanishes", commits, nil, threeRead + "commit g/t/0 3; RUIN; coord znode.deleted /consumers/g/offsets/t/0", CMono,
			[]string{"wipe coord"}, []string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire"}},
		{"committed without being owner", commits, nil, threeRead + "RUIN; disown g/t/0 7; commit g/t/0 3", Gen,
			[]string{"ruin 1 coord bytes"}, []string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire"}},
		{"a broker stays down", lives, nil, expand(upAndRead) + "RUIN; crash b1; phase heal; +31s", Live,
			[]string{"ruin 1 b1 bytes", "ruin 1 b1 flushes; mend 1 b1 flushes", "ruin 1 coord bytes"}, []string{"wipe b1", "ruin 1 b2 bytes", "ruin 1 b1 wire"}},
		{"a broker gives up", lives, nil, expand(upAndRead) + "RUIN; exit b1 what is this; start b1", Live,
			[]string{"ruin 1 b1 bytes"}, []string{"wipe b1", "ruin 1 b2 bytes"}},
		{"a consumer gives up", lives, nil, expand(upAndRead) + "RUIN; exit c1 what is this", Live, []string{"ruin 1 coord bytes"}, []string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire"}},
		{"a record handed over by another than the owner", parties, gathered(1), twoMembers + "RUIN; released c1 g/t/0; handed c1 g/t/0 1", Own1,
			[]string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire", "wipe coord"}, []string{"ruin 1 b2 bytes", "wipe b2", "wipe c1", "ruin 1 c1 flushes"}},
		{"a record handed over by another than the owner, with copies of the group", parties, gathered(3), twoMembers + "RUIN; released c1 g/t/0; handed c1 g/t/0 1", Own1,
			[]string{"free __consumer_offsets/0", "ruin 1 b1 wire", "wipe coord"}, []string{"ruin 1 b1 bytes", "wipe b1", "free __consumer_offsets/1", "free t/0"}},
		{"a partition of a group without owner", parties, gathered(3), twoMembers + "RUIN; released c1 g/t/0; +11s; handed c2 g/t/1 1", OwnAll,
			[]string{"free __consumer_offsets/0"}, []string{"ruin 1 b1 bytes; mend 1 b1 bytes", "free t/0"}},
		{"a commit of an older generation", parties, gathered(3), twoMembers + "RUIN; b1 group.changed g Stable 2 2 0; b1 group.stored g/t/0 m1 1 1 0", Gen,
			[]string{"free __consumer_offsets/0"}, []string{"wipe b1", "free t/0"}},
		{"a rebalance without reason", why, gathered(1), twoOfGroup + "RUIN; b1 group.changed g PreparingRebalance 1", Budget,
			[]string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire", "wipe coord"}, []string{"ruin 1 b2 bytes", "wipe b2"}},
		{"a rebalance without reason, with copies of the group", why, gathered(3), twoOfGroup + "RUIN; b1 group.changed g PreparingRebalance 1", Budget,
			[]string{"free __consumer_offsets/0", "ruin 1 b1 wire"}, []string{"ruin 1 b1 bytes", "wipe b1", "free t/0"}},
		{"a member counted out too soon", why, gathered(3), twoOfGroup + "RUIN; b1 group.went g m2 1; +1ms; answer c2 beat g m2 1ms 25", Budget,
			[]string{"free __consumer_offsets/0", "ruin 1 b1 wire"}, []string{"ruin 1 b1 bytes", "wipe b1", "free t/0"}},
		{"too many rebalances", caps, capped, twoMembers + "RUIN; " + strings.Repeat("b1 group.changed g PreparingRebalance 1 2 0; ", 6), Budget,
			[]string{"free __consumer_offsets/0", "ruin 1 b1 wire"}, []string{"ruin 1 b1 bytes", "wipe b1", "free t/0"}},
		{"too many requests", caps, func(p *Promise) { p.RequestsPerSecond = 3 }, "request c1 0s; request c1 100ms; RUIN; request c1 200ms; request c1 999ms", Budget,
			[]string{"ruin 1 b1 bytes", "wipe b1", "wipe c1", "ruin 1 b1 wire"}, []string{"ruin 1 b2 bytes", "wipe b2", "free t/0"}},
		{"slow produce requests", caps, func(p *Promise) { p.Produce = 20 * time.Millisecond }, "RUIN; produce p1 1 21ms; produce p1 1 21ms", Budget,
			[]string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire"}, []string{"ruin 1 b2 bytes", "free t/0"}},
		{"slow produce requests before", caps, func(p *Promise) { p.Produce = 20 * time.Millisecond }, "produce p1 1 21ms; produce p1 1 21ms; RUIN", Budget,
			nil, []string{"ruin 1 b1 bytes", "wipe b1", "free t/0"}},
		{"a panic", lives, nil, expand(upAndRead) + "RUIN; exit b1 panic: index out of range", Live, nil, []string{"ruin 1 b1 bytes", "wipe b1", "ruin 1 b1 wire", "ruin 1 coord bytes", "wipe coord"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := func() leaning {
				if c.change == nil {
					return under(c.oracle)
				}
				return under(c.oracle, c.change)
			}
			tell := func(ruin string) string { return strings.ReplaceAll(c.story, "RUIN", ruin) }
			for _, ruin := range append(c.not, "+0s") {
				got := judge(t, make(), tell(ruin))
				require.NotEmpty(t, got, "%s does not explain it", ruin)
				require.Equal(t, c.invariant, got[0].Invariant, "%s: %v", ruin, got)
			}
			for _, ruin := range c.freedBy {
				require.Empty(t, judge(t, make(), tell(ruin)), ruin)
			}
		})
	}
}

func TestAWorldThatDoesNotGoOnIsNeverExcused(t *testing.T) {
	for _, ruin := range []string{"ruin 1 b1 bytes", "wipe coord", "ruin 1 coord wire"} {
		o := under(lives)
		newStory(t, o).tell(expand(upAndRead) + ruin)
		o.Finish(End{At: time.Hour, Trouble: "stuck", Detail: "everybody waits"})
		require.Len(t, o.Violations(), 1)
		require.Contains(t, o.Violations()[0].Message, "stuck")
	}
}

func TestAnExcuseBeginsWithItsFault(t *testing.T) {
	fires(t, under(deliveries), Deliver, "offset 0 of t/0 holds record 0/0 (acked) and record 1/0 (acked)", written+"sent 1/0 t; acked 1/0 t/0 0; ruin 1 b1 bytes")
	fires(t, under(owners), Own1, "has no claim", expand(oneMember)+"released c1 g/t/0; handed c1 g/t/0 0; wipe coord")
}

func TestRuins(t *testing.T) {
	type view struct{ disk, exposed, hurt, records, registry bool }
	for _, c := range []struct {
		story string
		want  view
	}{
		{"crash b1; power b1", view{}},
		{"ruin 1 b1 bytes", view{disk: true, hurt: true}},
		{"ruin 1 b1 bytes; mend 1 b1 bytes", view{hurt: true}},
		{"ruin 1 b1 bytes; ruin 2 b1 bytes; mend 1 b1 bytes", view{disk: true, hurt: true}},
		{"ruin 1 b1 flushes; mend 1 b1 flushes", view{disk: true, exposed: true, hurt: true}},
		{"ruin 1 b1 flushes; mend 1 b1 flushes; power b1", view{hurt: true}},
		{"ruin 1 b1 flushes; power b1", view{disk: true, exposed: true, hurt: true}},
		{"ruin 1 b1 flushes; mend 1 b1 flushes; wipe b1", view{}},
		{"ruin 1 b1 bytes; wipe b1", view{disk: true, hurt: true}},
		{"wipe b1", view{}},
		{"ruin 1 b2 bytes", view{}},
		{"ruin 1 p wire; ruin 1 b2 wire", view{records: true}},
		{"ruin 1 p wire; ruin 1 coord wire", view{records: true, registry: true}},
		{"ruin 1 coord bytes", view{records: true, registry: true}},
		{"wipe coord", view{records: true, registry: true}},
	} {
		p := calmly()
		r := NewRuins(p)
		newStory(t, r).tell(c.story)
		require.Equal(t, c.want, view{r.Disk("b1"), r.Exposed("b1"), r.Hurt("b1"), r.Records(), r.Registry()}, c.story)
	}
	var none *Ruins
	require.False(t, none.Disk("b1") || none.Hurt("b1") || none.Records() || none.Registry() || none.Any() || none.Took("b1") || none.Decays("b1") || none.Exposed("b1"))
}

// The disk oracles: a log on a ruined disk is nobody's affair until it is opened on a sound one.
func TestDiskOraclesOfARuinedLog(t *testing.T) {
	told := func(f *forger, ruined bool) {
		if ruined {
			f.rec.MachineRuined("broker-1", 1, "bytes")
		}
	}
	shown := func(f *forger) { // more than is flushed
		f.put(2, "one")
		f.visible(f.next)
	}
	for _, ruined := range []bool{false, true} {
		t.Run(fmt.Sprint("shown too early, ruined: ", ruined), func(t *testing.T) {
			f := forge(t, keepAll)
			told(f, ruined)
			shown(f)
			if ruined {
				f.silent()
			} else {
				f.fires(Dirty, "only those below 0 are flushed")
			}
		})
		t.Run(fmt.Sprint("opened short, ruined: ", ruined), func(t *testing.T) {
			f := forge(t, keepAll)
			f.put(2, "one")
			f.sync()
			f.visible(2)
			told(f, ruined)
			f.crash()
			f.reopen(0)
			f.truncate(0)
			f.sync()
			f.opened(0, 0)
			if ruined {
				f.silent()
			} else {
				f.fires(Recovery, "the log ends at 0")
			}
		})
		t.Run(fmt.Sprint("removed as a whole, ruined: ", ruined), func(t *testing.T) {
			f := forge(t, keepAll)
			told(f, ruined)
			f.must(func() error { return f.m.Disk().Rename(benchDir, benchDir+".deleted") })
			f.fires(Retain, "was removed as a whole")
		})
	}
	f := forge(t, keepAll)
	told(f, true)
	f.rec.MachineMended("broker-1", 1, "bytes")
	f.crash()
	f.reopen(0)
	f.opened(0, 0)
	shown(f)
	f.fires(Dirty, "only those below 0 are flushed")
}

// What takes one copy of several frees nothing; what takes too many, or lets one of them decay, frees that partition, and those that come to the broker later.
func TestAPartitionWithSeveralReplicasIsFreedAsAWhole(t *testing.T) {
	ruins := NewRuins(&Promise{Coord: []string{"coord-1"}})
	r := history.NewRecorder(func() time.Duration { return time.Second })
	r.Attach(ruins)
	freed := func() (out []int32) {
		for p := range int32(4) {
			if ruins.Partition("t", p) {
				out = append(out, p)
			}
		}
		return out
	}
	topic := func(data string) {
		r.Traced(history.Who{Machine: "coord-1", Incarnation: 1}, machine.Event{Kind: machine.ZnodeSet, Subject: "/brokers/topics/t", Detail: data})
	}
	for i := range int64(3) {
		r.Traced(history.Who{Machine: "broker-" + itoa(i+1), Incarnation: 1}, machine.Event{Kind: machine.BrokerUp, A: i + 1})
	}
	topic(`{"partitions":{"0":[1,2],"1":[2,3]}}`)
	r.MachineCrashed(history.Who{Machine: "broker-1"}, true, "")
	r.MachineWiped(history.Who{Machine: "broker-1"})
	require.Empty(t, freed(), "one copy is gone")
	r.PartitionRuined("t", 0, 1)
	require.Equal(t, []int32{0}, freed())
	r.MachineRuined("broker-3", 2, "bytes")
	topic(`{"partitions":{"0":[1,2],"1":[2,3],"2":[1,2],"3":[3,1]}}`)
	require.Subset(t, freed(), []int32{0, 3}, "it comes to a broker whose disk decays")
	require.NotContains(t, freed(), int32(2))
	require.False(t, ruins.Registry())
}
