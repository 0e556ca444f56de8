package broker

import (
	"errors"
	"time"

	"faultline/broker/replica"
	coord "faultline/coord/client"
	"faultline/sim/machine"
)

// proposal is a change of the in-sync replicas of partitions of one topic, on its way to the registry.
type proposal struct {
	topic   *topic
	parts   []*partition
	states  []replica.State // wanted, by parts
	version int32           // of the registry's entry that it replaces
}

// tendISRs is the task that takes followers out of the in-sync replicas when they lag, and back in when they have caught up: at once when they knock, for only then are they known to be there.
// Who knocked while the task was busy knocks again with its next fetch.
func (b *Broker) tendISRs() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.stopping {
		since := b.m.Uptime()
		b.knocked = false
		b.changedWithin(max(b.cfg.ReplicaLag/4, time.Millisecond), func() bool { return b.knocked })
		if b.stopping {
			return
		}
		var list []proposal
		for _, name := range b.names {
			if pr, ok := b.propose(b.topics[name], since); ok {
				list = append(list, pr)
			}
		}
		b.mu.Unlock()
		for i := range list {
			b.settle(&list[i])
		}
		b.mu.Lock()
	}
}

// changedWithin waits for the time, until there is something to do, or until the broker stops. The lock is held.
func (b *Broker) changedWithin(d time.Duration, something func() bool) {
	for end := b.m.Uptime() + d; !b.stopping && !something(); {
		left := end - b.m.Uptime()
		if left <= 0 {
			return
		}
		b.changed.WaitTimeout(left)
	}
}

// propose asks the topic's leaders here for the changes that they want. Nobody joins that has not fetched since a moment. The lock is held.
func (b *Broker) propose(t *topic, since time.Duration) (proposal, bool) {
	pr := proposal{topic: t, version: t.version}
	now := b.m.Uptime()
	for _, p := range t.local {
		if p == nil || !p.replicated {
			continue
		}
		p.mu.Lock()
		if p.leader != nil && p.version == t.version && p.node == t.node {
			if s, ok := p.leader.Propose(b.cfg.ReplicaLag, since, now, b.registeredLocked); ok {
				b.m.Trace(machine.Event{Kind: machine.StateProposed, Subject: p.name, A: int64(len(s.ISR)), B: int64(s.LeaderEpoch)})
				pr.parts, pr.states = append(pr.parts, p), append(pr.states, s)
			}
		}
		p.mu.Unlock()
	}
	return pr, len(pr.parts) > 0
}

// settle writes a proposal and tells the leaders what became of it. While that is not known they count the members of both states, so it asks until it knows.
func (b *Broker) settle(pr *proposal) {
	states := append([]replica.State(nil), pr.topic.states...)
	for i, p := range pr.parts {
		states[p.id] = pr.states[i]
	}
	b.mu.Lock()
	cl, epoch := b.session.client, b.epoch
	b.mu.Unlock()
	b.m.Failpoint("fault/broker/isr-slow") // what it was made from may be no more true by the time of the write
	err := cl.Multi(
		coord.CheckOp(epochPath(b.cfg.ID), int32(epoch)), // fences a broker that was given up for dead and has another registration
		stands(pr.topic.name, pr.topic.id),
		coord.CheckOp(topicsPath+"/"+pr.topic.name, pr.topic.node), // who is a replica no more does not come back
		coord.SetOp(statePath(pr.topic.name), encodeStates(pr.topic.id, states), pr.version),
	)
	var refused *coord.MultiError
	for fails := 0; err != nil && !errors.As(err, &refused); fails++ {
		b.m.Mark("mark/broker/isr-outcome-unknown")
		if b.pause(fails); b.isStopping() {
			return
		}
		b.mu.Lock()
		cl = b.session.client
		b.mu.Unlock()
		// A write without answer took effect by the time that this is answered, or never will: see coord/client.
		data, stat, getErr := cl.Get(statePath(pr.topic.name), false)
		switch done, known := pr.became(stat.Version, string(data) == string(encodeStates(pr.topic.id, states))); {
		case errors.Is(getErr, coord.ErrNoNode), getErr == nil && known && !done:
			err = &coord.MultiError{Err: coord.ErrBadVersion}
		case getErr == nil && known:
			err = nil
		case getErr == nil:
			b.m.Mark("mark/broker/isr-overtaken")
			b.reread(pr.topic.name) // the state that came since ends the proposal: until then the members of both count
			return
		}
	}
	for i, p := range pr.parts {
		p.mu.Lock()
		switch {
		case p.leader == nil || p.epoch != pr.states[i].LeaderEpoch || p.version > pr.version:
			// Another role, or a later state, has come meanwhile.
		case err == nil:
			p.version = pr.version + 1
			p.leader.Confirm(pr.states[i])
			p.lift(b.m)
		default:
			p.leader.Refused()
		}
		p.mu.Unlock()
		b.waits.fire(p)
	}
	if err != nil {
		b.m.Mark("mark/broker/isr-refused")
		b.reread(pr.topic.name)
	}
}

// became tells what became of a proposal whose answer was lost, by the version that the registry's entry has now, and whether it is as the proposal would have it. It is not known once there was another change behind the
// one that took the proposal's place: that may have been the proposal.
func (pr *proposal) became(version int32, asWanted bool) (done, known bool) {
	if version > pr.version+1 {
		return false, false
	}
	return version == pr.version+1 && asWanted, true
}

// reread makes the keeper read a topic and its state again.
func (b *Broker) reread(topic string) {
	b.mu.Lock()
	b.session.dirty[topic], b.session.list = true, true
	b.changed.Broadcast()
	b.mu.Unlock()
}
