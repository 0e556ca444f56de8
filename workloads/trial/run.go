package trial

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"faultline/faults"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
	"faultline/workloads/deploy"
	"faultline/workloads/history"
	"faultline/workloads/linear"
	"faultline/workloads/load"
	"faultline/workloads/oracle"
	"faultline/workloads/scenario"
)

// run is a trial under way.
type run struct {
	sc    *scenario.Scenario // drawn
	seed  uint64
	o     Options
	addrs deploy.Addresses

	w        *sim.World
	c        *virtual.Cluster
	passages virtual.Passages
	rec      *history.Recorder
	registry *registry
	copies   *faults.Copies
	tally    *tally
	names    *oracle.Incarnations
	ruins    *oracle.Ruins // nil without oracles
	jury     []oracle.Oracle
	linear   *linear.Oracle
	delivery *oracle.Delivery

	nodes  []*node
	byName map[string]*node
	admin  *admin
	feed   *load.Feed

	injection *faults.Injection
	phase     history.Phase
	loadAt    time.Duration // world time at which the load began; -1 before
	healAt    time.Duration
	ended     bool
	cut       bool
	end       oracle.End
	sources   int   // producer incarnations so far: numbers their records
	longest   int64 // bytes of the longest message so far
	producers int   // machines that produce
	closers   []io.Closer
	served    *served // what a measurement waits for; else nil
}

func newRun(sc *scenario.Scenario, seed uint64, o Options) (*run, error) {
	r := &run{sc: sc, seed: seed, o: o, byName: map[string]*node{}, registry: newRegistry(), loadAt: -1}
	feed, err := r.openFeed()
	if err != nil {
		return nil, err
	}
	r.feed = feed
	world := sim.Config{Seed: seed, Policy: o.Policy, Trace: o.Trace}
	if o.Program != nil {
		world.MaxInstant = 50_000_000 // a client that drives as fast as it can fills its buffer, of whatever size, at one instant
	}
	r.w = sim.New(world)
	hw := hardware(sc)
	if o.Hardware != nil {
		hw = *o.Hardware
	}
	r.c = virtual.New(r.w, hw)
	if o.Passages {
		r.passages = r.c.CountPassages()
	}
	r.rec = history.NewRecorder(r.w.Now)
	r.c.OnEvent = r.traced
	r.c.OnExit = r.exited
	machines := sc.Machines(seed)
	r.addrs = deploy.Machines(machines)
	for _, m := range machines {
		n := r.add(m.Role, m.Name, r.programOf(m))
		n.restart, n.spare = m.Restart, m.Spare
		if m.Offset != 0 {
			n.comp.JumpClock(m.Offset)
		}
		if m.Role == roleProducer {
			r.producers++
		}
		switch {
		case m.Role == roleBroker:
			n.session = sc.Topology.Brokers.SessionTimeout.V().D()
		case m.Role == roleClient:
			n.session = recipeSession
		case m.Group != nil:
			n.session = m.Group.SessionTimeout.V().D() + m.SessionExtra
		}
	}
	r.admin = newAdmin(r)
	r.names = oracle.NewIncarnations()
	r.rec.Attach(r.names)
	r.rec.Attach(r.registry)
	r.copies = faults.NewCopies()
	r.rec.Attach(&stock{copies: r.copies})
	readers := map[string][]string{}
	for i := range sc.Topology.Groups {
		g := &sc.Topology.Groups[i]
		readers[g.Name] = sc.TopicsOf(g)
	}
	several := map[string]bool{}
	for i := range sc.Topology.Topics {
		several[sc.Topology.Topics[i].Name] = sc.Topology.Topics[i].Replicas.V() > 1
	}
	r.tally = newTally(readers, several)
	for i := range sc.Topology.Groups {
		g := &sc.Topology.Groups[i]
		r.tally.groups[g.Name].coordinated = g.Protocol.V() == "coordinator"
	}
	r.tally.names = r.names
	r.names.Attach(r.tally)
	if !o.Unjudged {
		r.empanel()
	}
	if o.Program != nil || o.Retained != nil {
		r.served = &served{at: map[replicaOf]int{}}
		r.rec.Attach(r.served)
	}
	for _, obs := range o.Observe {
		r.rec.Attach(obs)
	}
	return r, nil
}

func (r *run) traced(c *virtual.Computer, e *machine.Event) {
	r.rec.Traced(history.Who{Machine: c.Name(), Incarnation: c.Incarnation()}, *e)
}

// close ends what the run has open.
func (r *run) close() {
	r.w.Close()
	for _, n := range r.nodes {
		n.comp.Disk().Release()
	}
	for _, c := range r.closers {
		c.Close()
	}
}

// trouble ends the trial: something happened that no run may bring.
func (r *run) trouble(what, detail string) {
	if r.end.Trouble == "" {
		r.end.Trouble, r.end.Detail = what, detail
	}
	r.finish()
}

// finish stops the world.
func (r *run) finish() {
	if !r.ended {
		r.ended = true
		r.enter(history.End)
		r.w.Halt()
	}
}

func (r *run) enter(p history.Phase) {
	r.phase = p
	r.w.Record(sim.KindFault, "", p.String(), "", 0, 0)
	r.rec.PhaseBegan(p)
}

// live runs the world from its first instant to the end of the trial.
func (r *run) live() {
	for _, m := range r.sc.Machines(r.seed) {
		if (m.Role == roleCoord || m.Role == roleBroker) && !m.Spare {
			r.w.At(m.Start, func() { r.boot(r.byName[m.Name]) })
		}
	}
	if !r.o.Foreign {
		r.w.At(0, func() { r.boot(r.admin.node) })
	}
	if r.o.SetUp == 0 {
		r.o.SetUp = time.Second
	}
	r.w.At(r.o.SetUp, r.beginLoad)
	const slice = 100 * time.Millisecond // virtual time between two looks at the outside
	for !r.ended {
		until := r.w.Now() + slice
		if r.o.Until > 0 {
			until = min(until, r.o.Until)
		}
		switch o := r.w.Run(until); o.Kind {
		case sim.Deadline:
			if r.o.Stop != nil && r.o.Stop() || r.o.Until > 0 && r.w.Now() >= r.o.Until {
				r.cut = true
				r.finish()
			}
		case sim.Halted:
		default:
			r.trouble(o.Kind.String(), o.String())
		}
	}
}

// loadClock counts from the begin of the load. It implements faults.Clock.
type loadClock struct{ r *run }

func (c loadClock) At(t time.Duration, fn func()) { c.r.w.At(c.r.loadAt+t, fn) }

// prepared is called when the topics exist.
func (r *run) prepared() {
	if r.o.Retained != nil && r.loadAt < 0 {
		r.retain()
		return
	}
	if r.o.Program != nil {
		r.when(r.ready, r.beginLoad) // a measurement begins with a cluster that is ready
		return
	}
	r.beginLoad()
}

// beginLoad starts the clients and the fault plan.
func (r *run) beginLoad() {
	if r.loadAt >= 0 || r.ended {
		return
	}
	r.loadAt = r.w.Now()
	r.enter(history.Load)
	r.c.Watch(sim.Window{From: r.loadAt + r.o.Window.From, To: r.loadAt + r.o.Window.To})
	if r.o.OnLoad != nil {
		r.o.OnLoad(r.loadAt, r.w.Now)
	}
	for _, m := range r.sc.Machines(r.seed) {
		if (m.Role == roleProducer || m.Role == roleConsumer || m.Role == roleClient) && !m.Spare {
			loadClock{r}.At(m.Start, func() { r.boot(r.byName[m.Name]) })
		}
	}
	r.injection = r.sc.Faults.Schedule(loadClock{r}, target{r}, r.struck, r.o.Without...)
	if r.sc.Workload.Kind == "lines" {
		r.awaitEndOfFile()
		return
	}
	loadClock{r}.At(r.sc.Workload.Duration.V().D(), r.heal)
}

// struck notes a phase of a fault, and what it takes of the promises.
func (r *run) struck(n faults.Note) {
	line := n.Line
	if did := n.Toll.String(); did != "" {
		line += " # " + did
	}
	r.w.Record(sim.KindFault, "", n.Phase, line, uint64(n.Number), 0)
	switch n.Phase {
	case faults.Begun:
		r.rec.FaultInjected(n.Number, history.Fault{Kind: n.Fault.Kind, Hit: n.Hit, Peers: n.Peers}, line)
		r.ruin(n, r.rec.MachineRuined)
		for _, name := range n.Short {
			if p := r.tally.partition(name); len(r.registry.topics[p.topic][p.index]) > 1 {
				r.rec.PartitionRuined(p.topic, p.index, n.Number)
			}
		}
	case faults.Instant:
		r.rec.FaultInjected(n.Number, history.Fault{Kind: n.Fault.Kind, Hit: n.Hit, Peers: n.Peers}, line)
		r.rec.FaultHealed(n.Number, line)
	case faults.Held:
		r.rec.FaultHeld(n.Number, fmt.Sprintf("%s # it would leave too few good copies of %s", line, strings.Join(n.Short, ", ")))
	case faults.Dropped:
		r.rec.FaultHeld(n.Number, fmt.Sprintf("%s # for good: it would still leave too few good copies of %s", line, strings.Join(n.Short, ", ")))
	case faults.Ended, faults.Healed:
		r.ruin(n, r.rec.MachineMended)
		r.rec.FaultHealed(n.Number, line)
	}
}

// ruin tells of each machine that a fault beyond the atlas hits. A disk that is replaced tells of itself.
func (r *run) ruin(n faults.Note, tell func(machine string, number int, what string)) {
	for _, m := range slices.Concat(n.Hit, n.Peers) {
		if what := n.Fault.Kind.Ruins(faults.RoleOf(m)); what != faults.Nothing && what != faults.Disk {
			tell(m, n.Number, what.String())
		}
	}
}

// awaitEndOfFile heals once every line was taken.
func (r *run) awaitEndOfFile() {
	if r.feed.Ended() {
		r.heal()
		return
	}
	r.w.At(r.w.Now()+100*time.Millisecond, r.awaitEndOfFile)
}

// heal ends all faults and starts what is down.
func (r *run) heal() {
	if r.ended {
		return
	}
	if r.o.Program != nil {
		r.finish()
		return
	}
	r.enter(history.Heal)
	r.healAt = r.w.Now()
	r.feed.Stop()
	r.injection.HealAll()
	r.c.Disarm()
	for _, n := range r.nodes {
		if !n.spare {
			r.boot(n)
		}
	}
	r.enter(history.Quiesce)
	r.awaitRest()
}

// settle is how long rest must last before the trial ends: long enough for the last commits.
func (r *run) settle() time.Duration {
	most := time.Duration(0)
	for i := range r.sc.Topology.Groups {
		most = max(most, r.sc.Topology.Groups[i].CommitInterval.V().D())
	}
	return 2*most + time.Second
}

// awaitRest ends the trial when all that is owed is there and has been for a while, or when the promised time is up.
func (r *run) awaitRest() {
	const look = 100 * time.Millisecond
	settle := r.settle()
	restSince := time.Duration(-1)
	var step func()
	step = func() {
		if r.ended {
			return
		}
		now := r.w.Now()
		switch {
		case r.waits() != "":
			restSince = -1
		case restSince < 0:
			restSince = now
		case now-restSince >= settle:
			r.finish()
			return
		}
		if now >= r.healAt+r.sc.Promise.Heal.V().D()+2*settle {
			r.end.Waits = r.waits()
			r.finish()
			return
		}
		r.w.At(now+look, step)
	}
	step()
}

// hurt tells whether a partition's log may be closed for good: it lies on a disk that was ruined.
func (r *run) hurt(p partition) bool {
	topic := oracle.BaseTopic(p.topic)
	return r.ruins.Partition(topic, p.index) || r.ruins.Hurt(r.registry.leader(topic, p.index))
}

// waits tells what rest waits for, "" when everything is up, producers are done, and the oracles wait for nothing.
func (r *run) waits() string {
	for _, n := range r.nodes {
		switch {
		case n.spare && !n.comp.Running() || n.done || r.ruins.Hurt(n.name):
		case !n.comp.Running():
			return n.name + " is down"
		case n.role == roleProducer:
			return n.name + " has not delivered what it sent, or has not ended"
		case n.role == roleClient:
			return n.name + " has not had the lock since the heal, or has not ended"
		}
	}
	if !r.feed.Over() {
		return fmt.Sprintf("%d messages are taken from the feed and not settled", r.feed.Away())
	}
	if w := r.tally.behind(r.hurt); w != "" {
		return w
	}
	if w := r.registry.moving(); w != "" {
		return w
	}
	if w := r.registry.unowned(r.tally.groups, r.hurt); w != "" {
		return w
	}
	for _, o := range r.jury {
		if j, ok := o.(interface{ Waits() string }); ok {
			if w := j.Waits(); w != "" {
				return w
			}
		}
	}
	return ""
}
