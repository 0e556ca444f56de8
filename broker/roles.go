package broker

import (
	"errors"
	"math"
	"slices"
	"time"

	"faultline/broker/replica"
	"faultline/sim/machine"
)

// errNotLeading: this broker does not lead the partition, or no longer in the epoch that somebody waits in.
var errNotLeading = errors.New("this broker does not lead the partition")

// assumeRoles takes for each partition of a replicated topic that is here the role that the registry gives this broker.
func (b *Broker) assumeRoles(t *topic) {
	b.mu.Lock()
	parts, since := slices.Clone(t.local), b.cleanSince
	b.mu.Unlock()
	for id, p := range parts {
		if p != nil && p.log != nil && id < len(t.states) {
			b.assume(p, &t.states[id], t, since)
		}
	}
	b.mu.Lock()
	b.arrangeFetchers()
	b.changed.Broadcast()
	b.mu.Unlock()
}

// assume makes this broker leader or follower of a partition by a state that the registry has. The log is fenced first: when the role changes nothing that was wanted
// in the old one gets in any more.
func (b *Broker) assume(p *partition, s *replica.State, t *topic, since int64) {
	p.mu.Lock()
	same := t.version == p.version && p.leader != nil == b.leadsIn(s, since)
	old := t.version < p.version || same
	if same { // the assignment may be another one
		p.node = t.node
		if p.leader != nil {
			p.leader.Replicas(t.replicas[p.id], b.m.Uptime())
		}
	}
	p.mu.Unlock()
	if old {
		return // what was read before our own write, or is known
	}
	p.log.Fence(s.LeaderEpoch)
	p.mu.Lock()
	now := b.m.Uptime()
	if start := p.log.Start(); p.hw < start {
		p.setHW(b.m, start) // the log began anew in the role before, and who did that found this one when it came to tell
	}
	p.version, p.node = t.version, t.node
	switch {
	case !b.leadsIn(s, since):
		if p.leader != nil {
			b.m.Mark("mark/broker/deposed")
		}
		p.leader, p.epoch = nil, s.LeaderEpoch
		p.show()
	case p.leader != nil && p.epoch == s.LeaderEpoch:
		p.leader.Replicas(t.replicas[p.id], now)
		p.leader.Confirm(*s)
		p.lift(b.m)
	default:
		end := p.log.End()
		p.leader, p.epoch = replica.Lead(b.cfg.ID, t.replicas[p.id], *s, t.policy.leastISR, end, p.hw, now), s.LeaderEpoch
		p.show()
		b.m.Trace(machine.Event{Kind: machine.LeaderBegan, Subject: p.name, A: int64(p.epoch), B: end, C: p.hw})
		p.lift(b.m)
	}
	p.moved.Broadcast()
	p.mu.Unlock()
	b.waits.fire(p)
}

func (b *Broker) leadsIn(s *replica.State, since int64) bool {
	return since >= 0 && s.Leads(b.cfg.ID, since)
}

// leads tells whether this broker leads the partition. One replica leads itself.
func (p *partition) leads() bool {
	if !p.replicated {
		return true
	}
	return p.shown.Load().leads
}

// readable returns the high watermark of a partition with several replicas, or why somebody who believes in the leader epoch (-1: in none) may not read. It is no scheduling point.
func (p *partition) readable(epoch int32) (hw int64, code int16) {
	s := p.shown.Load()
	if p.replicated && !s.leads {
		return s.hw, codeNotLeader
	}
	return s.hw, s.epochCode(epoch)
}

// lift follows the leader's high watermark. Call with mu; then wake those who wait for records.
func (p *partition) lift(m machine.Machine) {
	if hw := p.leader.HW(); hw > p.hw {
		p.setHW(m, hw)
	}
}

// setHW moves the high watermark. Call with mu.
func (p *partition) setHW(m machine.Machine, hw int64) {
	p.hw = hw
	p.show()
	if p.retired {
		return
	}
	e := machine.Event{Kind: machine.HighWatermark, Subject: p.name, A: hw, B: int64(p.epoch)}
	if p.leader != nil {
		e.C = 1
	}
	m.Trace(e)
	p.moved.Broadcast()
}

// visible is the first offset that consumers may not see: the high watermark, or what is flushed where there is one replica (the paper's rule).
func (p *partition) visible() int64 {
	if !p.replicated {
		return p.log.Visible()
	}
	return p.shown.Load().hw
}

// latest is visible, and whether no leader before can have told more (KIP-207).
func (p *partition) latest() (offset int64, settled bool) {
	if !p.replicated {
		return p.log.Visible(), true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hw, p.leader == nil || p.leader.Settled()
}

// keepFrom is the offset from which on retention deletes nothing.
func (p *partition) keepFrom() int64 {
	if !p.replicated {
		return math.MaxInt64
	}
	return p.visible()
}

// mayAppend returns the leader epoch to append in, or the code that refuses.
func (p *partition) mayAppend(acks int16) (epoch int32, code int16) {
	if !p.replicated {
		return onlyEpoch, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leader == nil:
		return 0, codeNotLeader
	case acks == -1 && !p.leader.Enough():
		return 0, codeNotEnoughReplicas
	}
	return p.epoch, 0
}

// appended tells the leader that its log grew, and wakes followers and consumers.
func (b *Broker) appended(p *partition, epoch int32) {
	if !p.replicated {
		return
	}
	committed := p.grew(b.m, epoch)
	b.waits.grown(followers, p)
	if committed {
		b.waits.grown(consumers, p)
	}
}

// grew tells the leader that its log grew, and reports whether more is committed now.
func (p *partition) grew(m machine.Machine, epoch int32) (committed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if committed = p.leader != nil && p.epoch == epoch && p.leader.Appended(p.log.End()); committed {
		p.lift(m)
	}
	return committed
}

// await waits until what lies below next is acknowledged for acks=all: committed, or flushed where there is one replica. Errors: errNotLeading, machine.ErrTimeout,
// those of the log; none of them says whether the records last.
func (p *partition) await(m machine.Machine, next int64, epoch int32, timeout time.Duration) error {
	if !p.replicated {
		return p.log.WaitVisible(next, timeout)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for deadline := m.Uptime() + timeout; ; {
		switch {
		case p.leader == nil || p.epoch != epoch:
			return errNotLeading
		case p.hw >= next:
			return nil
		}
		if err := p.log.State().Err; err != nil {
			return err
		}
		left := deadline - m.Uptime()
		if left <= 0 {
			return machine.ErrTimeout
		}
		p.moved.WaitTimeout(left)
	}
}
