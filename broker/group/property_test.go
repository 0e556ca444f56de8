package group_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"faultline/broker/group"
	"faultline/consumer/assign"
)

const partitions = 5 // of topic t, which all subscribe to

// world is one group, its coordinators, one after the other, and consumers that lose answers, pause, die and start again.
type world struct {
	t        *rapid.T
	cfg      group.Config
	c        *group.Coordinator
	now      group.Time
	ids      int
	log      []group.Record // what lasts
	flying   []group.Effect // appends that were not confirmed
	assignor *assign.Assignor

	actors  []*actor
	owner   map[group.Ref]*actor
	refs    group.Ref
	replied map[group.Ref]bool
	lossy   bool
	session int32 // ms: shorter or longer than the rebalance time-out

	generation int32                                 // of this coordinator
	assigned   map[int32]map[string]string           // acknowledged: generation, member, assignment
	owners     map[int32]map[assign.Partition]string // acknowledged: generation, partition, member
	acked      [partitions]int64                     // the highest acknowledged commit
	seen       [partitions]int64                     // the highest commit that was fetched
	commits    int64
}

// actor is a consumer.
type actor struct {
	name     string
	instance *string
	off      bool // dead
	version  int16

	id         string
	generation int32
	phase      int // 0: out, 1: joined, 2: has an assignment
	plan       []kmsg.SyncGroupRequestGroupAssignment
	owned      []assign.Partition
	waits      group.Ref // 0: for nothing
	beat       time.Duration
	commit     map[int]int64 // under way
}

func (w *world) send(a *actor) group.Ref {
	w.refs++
	w.owner[w.refs] = a
	a.waits = w.refs
	return w.refs
}

func (w *world) act(a *actor) {
	if a.off || a.waits != 0 {
		return
	}
	switch a.phase {
	case 0:
		w.join(a)
	case 1:
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation, r.GroupAssignment = 5, "g", a.id, a.instance, a.generation, a.plan
		w.c.Sync(w.now, w.send(a), r)
	case 2:
		if w.now.Up < a.beat {
			return
		}
		a.beat = w.now.Up + 2*time.Second
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, "g", a.id, a.instance, a.generation
		w.c.Heartbeat(w.now, w.send(a), r)
	}
	w.effects()
}

func (w *world) join(a *actor) {
	if !w.assignor.Cooperative() {
		// claims are told, work has stopped
		a.phase = 0
	}
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.ProtocolType = a.version, "g", a.id, a.instance, assign.ProtocolType
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = w.session, 15_000
	meta := w.assignor.Metadata(assign.Member{ID: a.id, Topics: []string{"t"}, Owned: a.owned, Generation: a.generation})
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: w.assignor.Name(), Metadata: meta}}
	w.c.Join(w.now, w.send(a), group.Client{ID: a.name}, r)
}

func (w *world) tryCommit(a *actor) {
	if a.off || a.waits != 0 || a.phase != 2 || len(a.owned) == 0 {
		return
	}
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 8, "g", a.id, a.instance, a.generation
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	a.commit = map[int]int64{}
	for _, p := range a.owned {
		w.commits++
		at := kmsg.NewOffsetCommitRequestTopicPartition()
		at.Partition, at.Offset = p.Partition, w.commits
		topic.Partitions = append(topic.Partitions, at)
		a.commit[int(p.Partition)] = w.commits
	}
	r.Topics = append(r.Topics, topic)
	w.c.Commit(w.now, w.send(a), r)
	w.effects()
}

func (w *world) leave(a *actor) {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, "g"
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: a.id, InstanceID: a.instance}}
	w.c.Leave(w.now, w.send(a), r)
	w.effects()
}

// restart is another process of the same name.
func (a *actor) restart() {
	*a = actor{name: a.name, instance: a.instance, version: a.version, generation: -1}
}

func (w *world) effects() {
	for {
		effects := slices.Clone(w.c.Effects())
		if len(effects) == 0 {
			break
		}
		for _, e := range effects {
			switch e.Kind {
			case group.Append:
				w.flying = append(w.flying, e)
			case group.Changed:
				if e.Change.Reason == "loaded" {
					w.generation = e.Change.Generation // one that nobody synced in is forgotten
				}
				require.GreaterOrEqual(w.t, e.Change.Generation, w.generation)
				if e.Change.To == group.CompletingRebalance {
					require.Greater(w.t, e.Change.Generation, w.generation)
				}
				w.generation = e.Change.Generation
			case group.Reply:
				require.False(w.t, w.replied[e.Ref], "answered twice")
				w.replied[e.Ref] = true
				w.acknowledged(w.owner[e.Ref], e)
				if a := w.owner[e.Ref]; a.waits == e.Ref && !(w.lossy && rapid.IntRange(0, 9).Draw(w.t, "loses the answer") == 0) {
					a.waits = 0
					w.answer(a, e.Response)
				}
			}
		}
	}
	require.NoError(w.t, w.c.Check())
}

// acknowledged holds what the coordinator promised, whether or not the answer arrives.
func (w *world) acknowledged(a *actor, e group.Effect) {
	switch r := e.Response.(type) {
	case *kmsg.OffsetCommitResponse:
		if r.Topics[0].Partitions[0].ErrorCode == 0 && a.waits == e.Ref {
			for p, n := range a.commit {
				w.acked[p] = max(w.acked[p], n)
			}
		}
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 || a.waits != e.Ref {
			return
		}
		d := w.c.Describe("g")
		require.Equal(w.t, "Stable", d.State)
		i := slices.IndexFunc(d.Members, func(m kmsg.DescribeGroupsResponseGroupMember) bool { return m.MemberID == a.id })
		require.GreaterOrEqual(w.t, i, 0, "%s got an assignment and is not a member", a.id)
		if w.assigned[a.generation] == nil {
			require.Zero(w.t, w.later(a.generation), "an assignment for generation %d after later ones", a.generation)
			w.assigned[a.generation] = map[string]string{}
			w.owners[a.generation] = map[assign.Partition]string{}
		}
		if was, ok := w.assigned[a.generation][a.id]; ok {
			require.Equal(w.t, was, string(r.MemberAssignment), "two assignments of %s in generation %d", a.id, a.generation)
		}
		w.assigned[a.generation][a.id] = string(r.MemberAssignment)
		got, err := assign.ParseAssignment(r.MemberAssignment)
		require.NoError(w.t, err)
		who := a.id
		if a.instance != nil {
			who = *a.instance // one after the other
		}
		for _, p := range got {
			if was := w.owners[a.generation][p]; was != "" {
				require.Equal(w.t, was, who, "%v has two owners in generation %d", p, a.generation)
			}
			w.owners[a.generation][p] = who
		}
	}
}

// later counts the acknowledged generations after one.
func (w *world) later(generation int32) int {
	n := 0
	for g := range w.assigned {
		if g > generation {
			n++
		}
	}
	return n
}

func (w *world) answer(a *actor, resp kmsg.Response) {
	var code int16
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		if code = r.ErrorCode; code == 0 || code == kerr.MemberIDRequired.Code {
			a.id = r.MemberID
		}
		if code != 0 {
			break
		}
		a.generation, a.phase, a.plan = r.Generation, 1, nil
		if r.LeaderID == a.id && !r.SkipAssignment {
			members, err := w.assignor.Members(r.Members)
			require.NoError(w.t, err)
			a.plan = w.assignor.Assign(members, map[string]int32{"t": partitions}).Encode()
		}
	case *kmsg.SyncGroupResponse:
		if code = r.ErrorCode; code != 0 {
			break
		}
		got, err := assign.ParseAssignment(r.MemberAssignment)
		require.NoError(w.t, err)
		lost := slices.ContainsFunc(a.owned, func(p assign.Partition) bool { return !slices.Contains(got, p) })
		a.phase, a.owned = 2, got
		if w.assignor.Cooperative() && lost {
			a.phase = 0
		}
	case *kmsg.HeartbeatResponse:
		code = r.ErrorCode
	case *kmsg.OffsetCommitResponse:
		code = r.Topics[0].Partitions[0].ErrorCode
		if code == kerr.CoordinatorNotAvailable.Code || code == kerr.NotCoordinator.Code {
			return // tried again some time
		}
	}
	switch code {
	case 0:
		return
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
		a.restart()
	case kerr.NotCoordinator.Code, kerr.CoordinatorNotAvailable.Code:
		if a.phase == 2 {
			return
		}
	}
	a.phase = 0
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.now.Up += d
	w.now.Wall += d.Milliseconds()
	w.c.Tick(w.now)
	w.effects()
}

// settle ends an append: the oldest well, or any one badly, which leaves open what the log has.
func (w *world) settle(i int, ok, lasts bool) {
	e := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	if lasts {
		w.log = append(w.log, e.Records...)
	}
	w.c.Appended(w.now, e.Token, ok)
	w.effects()
}

// failover makes another coordinator of what lasts: everything that was confirmed, and of the rest as much as made it.
func (w *world) failover(keep int) {
	for _, e := range w.flying[:min(keep, len(w.flying))] {
		w.log = append(w.log, e.Records...)
	}
	w.flying = nil
	w.c.Unload()
	w.effects()
	for ref := range w.owner {
		require.True(w.t, w.replied[ref], "a request was never answered")
	}
	w.start()
	d := w.c.Describe("g")
	last := int32(0)
	for g := range w.assigned {
		last = max(last, g)
	}
	if last == 0 {
		return
	}
	stored := w.stored()
	require.GreaterOrEqual(w.t, stored.Generation, last, "acknowledged generation lost")
	if stored.Generation == last && d.State == "Stable" {
		for _, m := range d.Members {
			if was, ok := w.assigned[last][m.MemberID]; ok {
				require.Equal(w.t, was, string(m.MemberAssignment))
			}
		}
	}
}

// stored is what the log says of the group.
func (w *world) stored() (v kmsg.GroupMetadataValue) {
	for _, r := range w.log {
		e, _, err := group.Decode(r)
		require.NoError(w.t, err)
		if e.Metadata != nil {
			v = *e.Metadata
		}
	}
	return v
}

func (w *world) start() {
	w.c = group.New(w.cfg)
	for _, r := range w.log {
		require.NoError(w.t, w.c.Load(r))
	}
	w.generation = 0
	w.c.Loaded(w.now)
	w.effects()
}

// look fetches what was committed: nothing acknowledged is missing, and nothing goes back.
func (w *world) look() {
	r := kmsg.NewOffsetFetchRequestGroup()
	r.Group = "g"
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic = "t"
	for p := range int32(partitions) {
		topic.Partitions = append(topic.Partitions, p)
	}
	r.Topics = append(r.Topics, topic)
	resp := w.c.Fetch(&r)
	require.Zero(w.t, resp.ErrorCode)
	for p, at := range resp.Topics[0].Partitions {
		if at.Offset < 0 {
			at.Offset = 0
		}
		require.GreaterOrEqual(w.t, at.Offset, w.acked[p], "an acknowledged commit of %d is gone", p)
		require.GreaterOrEqual(w.t, at.Offset, w.seen[p], "partition %d goes back", p)
		w.seen[p] = at.Offset
	}
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: group.Time{Up: time.Hour, Wall: 1_000_000}, owner: map[group.Ref]*actor{}, replied: map[group.Ref]bool{},
		assigned: map[int32]map[string]string{}, owners: map[int32]map[assign.Partition]string{}}
	w.cfg = group.Defaults(func() string { w.ids++; return strconv.Itoa(w.ids) })
	w.cfg.NewMemberJoinTimeout = 20 * time.Second
	w.cfg.InitialDelay = rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "initial delay")
	w.assignor = rapid.SampledFrom(assign.All()).Draw(t, "assignor")
	for i := range rapid.IntRange(1, 4).Draw(t, "consumers") {
		a := &actor{name: fmt.Sprintf("c%d", i), generation: -1, version: rapid.SampledFrom([]int16{9, 9, 8, 3}).Draw(t, "version")}
		if rapid.IntRange(0, 2).Draw(t, "static") == 0 {
			a.instance = kmsg.StringPtr(fmt.Sprintf("i%d", i))
		}
		w.actors = append(w.actors, a)
	}
	w.session = rapid.SampledFrom([]int32{10_000, 30_000}).Draw(t, "session")
	w.start()
	return w
}

func TestGroupKeepsItsPromises(t *testing.T) {
	stable := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.lossy = true
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			a := rapid.SampledFrom(w.actors).Draw(t, "who")
			switch what := rapid.IntRange(0, 29).Draw(t, "what"); {
			case what < 12:
				w.act(a)
			case what < 16:
				w.tryCommit(a)
			case what < 22:
				if len(w.flying) > 0 {
					w.settle(0, true, true)
				}
			case what < 24:
				w.pass(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond)
			case what == 24: // gives up waiting, and asks again
				if a.waits != 0 && !a.off {
					a.waits = 0
					if a.phase == 1 && rapid.Bool().Draw(t, "joins again") {
						a.phase = 0
					}
				}
			case what == 25:
				a.phase = 0
			case what == 26:
				if rapid.Bool().Draw(t, "leaves") {
					w.leave(a)
				}
				a.restart()
			case what == 27:
				a.off = !a.off
				a.waits = 0
			case what == 28:
				if len(w.flying) > 0 {
					i := rapid.IntRange(0, len(w.flying)-1).Draw(t, "which")
					w.settle(i, false, i == 0 && rapid.Bool().Draw(t, "lasts")) // the log keeps the order of what it takes
				}
			case what == 29 && rapid.Bool().Draw(t, "failover"):
				w.failover(rapid.IntRange(0, 3).Draw(t, "keep"))
			}
			w.look()
		}
		// The faults are over. Those who live are served, and within a bound the group is stable.
		w.lossy = false
		for _, a := range w.actors {
			a.waits = 0
		}
		for range 240 {
			for range 4 {
				for _, a := range w.actors {
					w.act(a)
				}
				for len(w.flying) > 0 {
					w.settle(0, true, true)
				}
			}
			w.pass(500 * time.Millisecond)
		}
		w.settled()
		w.look()
		if len(w.assigned) > 1 {
			stable++
		}
	})
	require.Positive(t, stable, "no run had more than one generation: nothing was tested")
}

// settled holds that the group consists of those who live, and that each partition has one owner.
func (w *world) settled() {
	d := w.c.Describe("g")
	owner := map[assign.Partition]string{}
	alive := 0
	for _, a := range w.actors {
		if a.off {
			continue
		}
		alive++
		require.Equal(w.t, 2, a.phase, "%s has no assignment; the group is %s", a.name, d.State)
		for _, p := range a.owned {
			require.Empty(w.t, owner[p])
			owner[p] = a.name
		}
	}
	require.Len(w.t, d.Members, alive)
	if alive > 0 {
		require.Equal(w.t, "Stable", d.State)
		require.Len(w.t, owner, partitions)
	}
}
