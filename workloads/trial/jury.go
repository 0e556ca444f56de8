package trial

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"faultline/faults"
	"faultline/workloads/deploy"
	"faultline/workloads/linear"
	"faultline/workloads/oracle"
)

// promise says for the oracles what a drawn scenario owes.
func (r *run) promise() *oracle.Promise {
	t := &r.sc.Topology
	p := &oracle.Promise{
		Granted:     map[string]time.Duration{},
		OwnedWithin: r.sc.Promise.Owned.V().D(),
		HealWithin:  r.sc.Promise.Heal.V().D(),
		Late:        deploy.OrNever(r.sc.Promise.Late, 0),
		Produce:     deploy.OrNever(r.sc.Promise.Produce, 0),
		Small:       deploy.Unlimited(int64(r.sc.Disk.Space.V()), 0) > 0,

		RequestsPerSecond: int(deploy.Unlimited(int64(r.sc.Promise.Requests.V()), 0)),
	}
	for _, n := range r.nodes {
		switch n.role {
		case roleCoord:
			p.Coord = append(p.Coord, n.name)
		case roleBroker:
			p.Brokers = append(p.Brokers, n.name)
		}
		if n.spare {
			p.Spare = append(p.Spare, n.name)
		}
		p.SessionTimeout = max(p.SessionTimeout, n.session)
		if n.session > 0 {
			tick := t.Coordinators.Tick.V().D()
			p.Granted[n.name] = min(max(n.session, 2*tick), 20*tick).Truncate(time.Millisecond)
		}
	}
	if !r.clocksGoApart() {
		p.OffsetsRetention, p.OffsetsCheck = t.Brokers.OffsetsRetention.V().D(), t.Brokers.OffsetsCheck.V().D()
	}
	p.ReplicaLag = t.Brokers.ReplicaLag.V().D()
	p.SessionSlack = 2*t.Coordinators.Tick.V().D() + time.Second + time.Duration(lateFlushes(t.Coordinators.Count.V() != "1"))*r.sc.Disk.Flush.V().D() + r.lateResend()
	extra := map[string]map[string]oracle.Extra{} // by group
	for _, m := range r.sc.Machines(r.seed) {
		if m.SessionExtra > 0 || m.MaxPollExtra > 0 {
			if extra[m.Group.Name] == nil {
				extra[m.Group.Name] = map[string]oracle.Extra{}
			}
			extra[m.Group.Name][m.Name] = oracle.Extra{Session: m.SessionExtra, MaxPoll: m.MaxPollExtra}
		}
		if c := m.Producer; c != nil {
			p.Producers = append(p.Producers, oracle.Producer{
				Name: m.Name, Acks: deploy.Acks[c.Acks.V()], Ordered: c.InFlight.V() == 1 || c.Idempotent.V() == "yes", Idempotent: c.Idempotent.V() == "yes",
				Keyed: c.Partitioner.V() == "key", DeliveryTimeout: c.DeliveryTimeout.V().D(), RequestTimeout: c.RequestTimeout.V().D(),
			})
		}
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		o := oracle.Group{Name: g.Name, Topics: r.sc.TopicsOf(g), CommitWithin: r.settle() - 500*time.Millisecond}
		if g.Protocol.V() == "coordinator" {
			o.Coordinated, o.Eager, o.Static = true, g.Assignor.V() != "cooperative-sticky", g.Static.V() == "yes"
			o.Assignor, o.Extra = g.Assignor.V(), extra[g.Name]
			o.RebalanceWithin, o.SessionTimeout, o.Old = g.MaxPollInterval.V().D(), g.SessionTimeout.V().D(), g.Clients.V() == "old"
			if o.Old {
				o.RebalanceWithin = o.SessionTimeout
			}
		}
		inTurn := g.Workers.V() == 1
		o.Commits = g.Commit.V() == "auto" && g.Delivery.V() == "at-least-once" && inTurn
		if o.Coordinated && !o.Static && inTurn {
			o.MaxPoll = g.MaxPollInterval.V().D()
		}
		if g.Delivery.V() == "at-most-once" {
			o.Delivery = oracle.AtMostOnce
		}
		if g.Reset.V() == "largest" {
			o.Reset = oracle.Largest
		}
		p.Groups = append(p.Groups, o)
	}
	for i := range t.Topics {
		c := deploy.TopicPolicy(&t.Topics[i])
		p.Topics = append(p.Topics, oracle.Topic{
			Name: t.Topics[i].Name, Partitions: int32(t.Topics[i].Partitions.V()), SegmentBytes: c.SegmentBytes, SegmentAge: c.SegmentAge,
			RetentionTime: c.RetentionTime, RetentionBytes: c.RetentionBytes,
			Replicas: int(t.Topics[i].Replicas.V()), MinISR: int(t.Topics[i].MinISR.V()), Unclean: t.Topics[i].Unclean.V() == "yes", Compact: c.Compact, TombstoneRetention: c.DeleteRetention,
		})
	}
	if slices.ContainsFunc(p.Groups, func(g oracle.Group) bool { return g.Coordinated }) {
		p.Topics = append(p.Topics, oracle.Topic{
			Name: offsetsTopic, Partitions: int32(t.Brokers.OffsetsPartitions.V()), RetentionTime: -1, RetentionBytes: -1,
			SegmentBytes: int64(t.Brokers.OffsetsSegmentBytes.V()), Compact: true,
			Replicas: deploy.OffsetsReplicas(r.sc), MinISR: 1 + deploy.OffsetsReplicas(r.sc)/2,
		})
	}
	for i := range r.sc.Faults {
		if f := &r.sc.Faults[i]; f.Kind == faults.ClockDrift {
			d := float64(f.Drift.V().PPM()) / 1e6
			p.Drift = max(p.Drift, d, -d)
		}
	}
	p.Ruins = oracle.NewRuins(p)
	if r.sc.Promise.Rebalances.V() > 0 {
		p.RebalancesPerChange = int(deploy.Unlimited(int64(r.sc.Promise.Rebalances.V()), 0))
	}
	return p
}

// lateResend is how long after the heal a segment may be sent once more that was lost several times in a row before: TCP doubles the time-out each time, from 200 ms on, so the fifth copy waits 3.2 s. Until then its connection
// passes nothing on, such as what a coordination server has heard of a session. (swarm-replicas, seed 335: 1.6 s, after four losses.)
func (r *run) lateResend() time.Duration {
	if slices.ContainsFunc(r.sc.Faults, func(f faults.Fault) bool { return f.Kind == faults.Loss }) {
		return 3200 * time.Millisecond
	}
	return 0
}

// clocksGoApart tells whether the brokers' wall clocks need not agree, or jump.
func (r *run) clocksGoApart() bool {
	apart := r.sc.Topology.Brokers.ClockOffset
	return apart.Min != apart.Max || slices.ContainsFunc(r.sc.Faults, func(f faults.Fault) bool { return f.Kind == faults.ClockJump || f.Kind == faults.ClockDrift })
}

// empanel lets the oracles watch.
func (r *run) empanel() {
	p := r.promise()
	r.ruins = p.Ruins
	p.Incarnations = r.names
	r.names.AttachNames(r.ruins)
	disks := oracle.NewDisks(p, r.w.Now)
	var first []oracle.Oracle
	first, r.delivery = oracle.New(p, disks)
	r.seat(first...)
	for _, n := range r.of(roleBroker) {
		disks.Watch(n.name, n.comp.Disk(), func() time.Time { return n.comp.Clock().Wall(r.w.Now()) })
	}
	retention := oracle.NewRetention(disks)
	retention.Within = 2*r.sc.Topology.Brokers.RetentionInterval.V().D() + 2*time.Second
	r.linear = linear.New(p)
	r.names.Attach(disks)
	r.seat(oracle.NewRecoveries(disks), retention, oracle.NewUnflushed(disks), oracle.NewTimes(disks), r.linear)
	var c *oracle.Cluster
	if slices.ContainsFunc(p.Topics, func(t oracle.Topic) bool { return t.Replicas > 1 }) {
		c = oracle.NewCluster(p)
		q := oracle.NewQuorum(c)
		r.names.Attach(c)
		r.seat(oracle.NewAgreement(c, disks), oracle.NewWatermarks(c), oracle.NewUncommitted(c), oracle.NewAcknowledged(c, disks), oracle.NewEpochs(c), oracle.NewSteadiness(c), oracle.NewSolitude(c), q, oracle.NewLaggards(q))
	}
	if slices.ContainsFunc(p.Topics, func(t oracle.Topic) bool { return t.Compact }) {
		r.seat(oracle.NewCompaction(c, disks))
	}
	if slices.ContainsFunc(p.Producers, func(x oracle.Producer) bool { return x.Idempotent }) {
		r.seat(oracle.NewSequences(p, disks))
	}
}

// seat lets oracles watch, behind those that are there.
func (r *run) seat(oracles ...oracle.Oracle) {
	for _, o := range oracles {
		switch o.(type) {
		case *oracle.Ownership, *oracle.Members, *oracle.Shares, *oracle.Sessions, *oracle.Watches, *oracle.Sequential, *oracle.Asked, *oracle.Locks, *oracle.Terms:
			r.names.AttachNames(o)
		case *linear.Oracle:
			r.names.AttachLogs(o)
		default:
			r.names.Attach(o)
		}
	}
	r.jury = append(r.jury, oracles...)
}

// judge asks the oracles.
func (r *run) judge() *Result {
	r.end.At = r.w.Now()
	r.end.Cut = r.cut
	res := &Result{
		Scenario: r.sc.Name, Seed: r.seed, Virtual: r.w.Now(), Cut: r.cut, Drawn: r.sc,
		Produced: r.tally.acked, Delivered: r.tally.processed, Err: r.feed.Err(), Passages: r.passages,
	}
	for _, n := range r.nodes {
		res.Used = append(res.Used, Used{n.name, n.role, n.comp.Usage()})
	}
	if r.o.Unjudged && r.end.Trouble != "" && res.Err == nil { // no oracle tells
		res.Err = fmt.Errorf("%s: %s", r.end.Trouble, r.end.Detail)
	}
	for _, o := range r.jury {
		o.Finish(r.end)
		for _, v := range o.Violations() {
			if !slices.Contains(r.sc.Promise.Except, v.Invariant) {
				res.Violations = append(res.Violations, v)
			}
		}
	}
	if r.linear != nil {
		res.Duplicates = r.delivery.Stats().Duplicates
		r.lookAt(res)
	}
	if res.Produced == 0 && !res.Cut {
		res.Unjudged = append(res.Unjudged, "no record was acknowledged, so there was nothing to deliver")
	}
	slices.SortStableFunc(res.Violations, func(a, b oracle.Violation) int { return cmp.Compare(a.At, b.At) })
	res.Hash, res.Events = r.w.Hash(), r.w.Events()
	if res.Cut {
		res.Unjudged = append(res.Unjudged, fmt.Sprintf("the run was ended early, at %v of virtual time", r.w.Now()))
	}
	switch {
	case len(res.Violations) > 0:
		res.Verdict = Fail
	case len(res.Unjudged) > 0 || res.Cut || res.Err != nil:
		res.Verdict = Inconclusive
	default:
		res.Verdict = Pass
	}
	return res
}

// lookAt takes what the linearizability check could not decide, and has its pictures drawn.
func (r *run) lookAt(res *Result) {
	for i, v := range r.linear.Verdicts() {
		switch v.Outcome {
		case linear.Inconclusive:
			res.Unjudged = append(res.Unjudged, v.String())
		case linear.Violated:
			if r.o.PictureDir != "" && v.Window != nil {
				name := filepath.Join(r.o.PictureDir, fmt.Sprintf("linearizability-%d.html", i))
				if err := v.Window.WritePicture(name); err != nil && res.Err == nil {
					res.Err = err
				}
			}
		}
	}
}

// lateFlushes is how many flushes one after the other may delay the end of a session, from the end of the last disturbance on, beyond its time-out. A server that was restarted flushes six times before it counts sessions from anew
// (its directory; the snapshot and its name; the log and its name; the names of what these replace). Then the end of the session is an entry, and each entry has to wait for the one under way, for the log that this one begins (twice) and
// the snapshot that is saved meanwhile (three times), and for itself: seven on each disk that it must be on. A server that is alone writes just that entry. An ensemble may have to elect a leader first (the vote, then the leader's first
// entry) and has each on two disks one after the other; and before that, what a follower has heard of a session reaches the leader when the follower's step is over.
func lateFlushes(ensemble bool) int64 {
	const recovery, entry = 6, 7
	if ensemble {
		return recovery + entry + 3*2*entry
	}
	return recovery + entry
}
