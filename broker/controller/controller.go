// Package controller decides who leads which partition. It is plain data: no I/O, no clock. The broker that is elected controller feeds it what the registry
// has and writes what it decides, each write conditional on the version that the decision was made from and on the controller epoch.
//
// # Election (KIP-966)
//
// The next leader is, in the order of the assignment, a live and intact member of the ISR; else one of the ELR; else, where the topic allows unclean election, any live replica; else
// there is none until somebody comes back. Intact is who lost nothing since the entry was made: the same registration, or a later one that says so (its logs were closed
// regularly, or its process never ended).
//
// Who came back and lost what it had not flushed leaves every ISR and ELR, so that the others' copies count (KIP-966, "last replica standing"). Only where nobody else is left, dead or
// alive, does it stay: with one replica, or with one in-sync replica allowed, there is no other copy. Where all have lost
// their tails those stay that were in sync last; as long as one that is eligible is away, nobody knows whether all have.
package controller

import (
	"slices"

	"faultline/broker/replica"
)

// Broker is a registered broker.
type Broker struct {
	ID         int32
	Epoch      int64 // of its registration
	CleanSince int64 // its logs lost nothing since the registration of that epoch
}

// Topic is what the controller must know of a topic.
type Topic struct {
	Name       string
	LeastISR   int  // min.insync.replicas
	Unclean    bool // unclean.leader.election.enable
	Partitions []Partition
}

// Partition is an assignment and its state.
type Partition struct {
	ID       int32
	Replicas []int32        // the first is preferred. While a reassignment is under way: the replicas that there shall be, then those that leave
	Moving   bool           // a reassignment is under way
	Leaving  []int32        // of Replicas: to be removed when all others are in sync
	State    *replica.State // nil: there is none yet
}

// Write is a decided change of a partition's entry.
type Write struct {
	Topic     string
	Partition int32
	State     replica.State
	Replicas  []int32 // not nil: the reassignment is complete, and these are the replicas
	Why       string  // for traces
}

// View is what the registry has.
type View struct {
	Brokers []Broker // by id
	Topics  []Topic  // by name
	Epoch   int32    // of this controller
}

// Decide lists the changes that are needed now, at most one a partition.
func (v *View) Decide() []Write {
	var out []Write
	for i := range v.Topics {
		t := &v.Topics[i]
		for j := range t.Partitions {
			if w, ok := v.decide(t, &t.Partitions[j]); ok {
				out = append(out, w)
			}
		}
	}
	return out
}

// Prefer lists the changes that give partitions back to their preferred leaders, where these are in sync.
func (v *View) Prefer() []Write {
	var out []Write
	for i := range v.Topics {
		t := &v.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.State == nil || p.State.Leader == replica.NoLeader || p.State.Leader == p.Replicas[0] {
				continue
			}
			if k := replica.Find(p.State.ISR, p.Replicas[0]); k < 0 || !v.intact(p.State.ISR[k]) {
				continue
			}
			s := p.State.Clone()
			s.Leader, s.ControllerEpoch = p.Replicas[0], v.Epoch
			s.LeaderEpoch++
			out = append(out, Write{Topic: t.Name, Partition: p.ID, State: s, Why: "preferred leader"})
		}
	}
	return out
}

func (v *View) broker(id int32) *Broker {
	i := slices.IndexFunc(v.Brokers, func(b Broker) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	return &v.Brokers[i]
}

// intact tells whether the member lives and has everything that it had as a member.
func (v *View) intact(m replica.Member) bool {
	b := v.broker(m.ID)
	return b != nil && (b.Epoch == m.Epoch || b.CleanSince <= m.Epoch && b.Epoch > m.Epoch)
}

// robbed tells whether the member lives but lost what it had not flushed.
func (v *View) robbed(m replica.Member) bool { return v.broker(m.ID) != nil && !v.intact(m) }

func (v *View) decide(t *Topic, p *Partition) (Write, bool) {
	w := Write{Topic: t.Name, Partition: p.ID}
	if p.State == nil {
		w.State = replica.State{Leader: replica.NoLeader, ControllerEpoch: v.Epoch}
		for _, id := range p.Replicas {
			if b := v.broker(id); b != nil {
				w.State.ISR = append(w.State.ISR, replica.Member{ID: id, Epoch: b.Epoch})
			}
		}
		if len(w.State.ISR) == 0 {
			return w, false // nobody is there yet
		}
		w.State.Leader, w.Why = w.State.ISR[0].ID, "new partition"
		return w, true
	}
	s := p.State.Clone()
	least := min(t.LeastISR, len(p.Replicas))
	w.Why = v.purge(&s, least)
	if why := v.elect(&s, t, p, least); why != "" {
		w.Why = why
	}
	if why := v.complete(&s, p, &w); why != "" {
		w.Why = why
	}
	if w.Why == "" {
		return w, false
	}
	s.ControllerEpoch = v.Epoch
	w.State = s
	return w, true
}

// purge takes those out of ISR and ELR that lost their logs' tails or are gone, as long as somebody better is left, and brings the epochs of the others up to date. It says why it changed
// something.
func (v *View) purge(s *replica.State, least int) (why string) {
	robbed := func(m replica.Member) bool { return v.robbed(m) }
	open := false // who is eligible has to come back before it is known whether anybody has everything
	if !all(s.ISR, robbed) || !all(s.ELR, robbed) {
		elr := slices.DeleteFunc(slices.Clone(s.ELR), robbed)
		isr := slices.DeleteFunc(slices.Clone(s.ISR), robbed)
		switch {
		case len(isr) == 0 && !slices.ContainsFunc(elr, v.intact):
			open = true
			if len(elr) < len(s.ELR) {
				s.ELR = elr
				why = "eligible replica lost its tail"
			}
		case len(isr) == 0: // those of the ELR have what is committed, too
			s.ISR, s.ELR = elr, nil
			why = "in-sync replicas lost their tails"
		case len(isr) < len(s.ISR) || len(elr) < len(s.ELR):
			s.ISR, s.ELR = isr, elr
			why = "replica lost its tail"
		}
	} else if len(s.ELR) > 0 { // all did: who was in sync last has the most
		s.ELR = nil
		why = "eligible replica lost its tail"
	}
	if live := slices.DeleteFunc(slices.Clone(s.ISR), func(m replica.Member) bool { return !v.intact(m) }); len(live) > 0 && len(live) < len(s.ISR) {
		s.Resize(live, least)
		why = "replica gone"
	}
	for _, list := range [][]replica.Member{s.ISR, s.ELR} {
		for i := range list {
			if b := v.broker(list[i].ID); b != nil && b.Epoch != list[i].Epoch && !(open && v.robbed(list[i])) {
				if list[i].ID == s.Leader {
					s.Leader = replica.NoLeader // it leads again in an epoch of its own
				}
				list[i].Epoch = b.Epoch
				why = "replica registered again"
			}
		}
	}
	return why
}

// elect gives the partition a leader if it has none that lives.
func (v *View) elect(s *replica.State, t *Topic, p *Partition, least int) (why string) {
	if i := replica.Find(s.ISR, s.Leader); i >= 0 && v.intact(s.ISR[i]) {
		return ""
	}
	for _, id := range p.Replicas {
		if i := replica.Find(s.ISR, id); i >= 0 && v.intact(s.ISR[i]) {
			s.Leader, s.LeaderEpoch = id, s.LeaderEpoch+1
			return "leader elected"
		}
	}
	for _, id := range p.Replicas {
		if i := replica.Find(s.ELR, id); i >= 0 && v.intact(s.ELR[i]) {
			s.Leader, s.LeaderEpoch = id, s.LeaderEpoch+1
			s.Resize([]replica.Member{s.ELR[i]}, least)
			return "eligible leader elected"
		}
	}
	if t.Unclean {
		for _, id := range p.Replicas {
			if b := v.broker(id); b != nil {
				s.Leader, s.LeaderEpoch = id, s.LeaderEpoch+1
				s.ISR, s.ELR = []replica.Member{{ID: id, Epoch: b.Epoch}}, nil
				return "unclean leader elected"
			}
		}
	}
	if p.State.Leader == replica.NoLeader {
		s.Leader = replica.NoLeader
		return ""
	}
	s.Leader, s.LeaderEpoch = replica.NoLeader, s.LeaderEpoch+1
	return "no leader left"
}

// complete ends a reassignment when all replicas that stay are in sync and lead.
func (v *View) complete(s *replica.State, p *Partition, w *Write) (why string) {
	if !p.Moving || s.Leader == replica.NoLeader {
		return ""
	}
	stay := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(p.Leaving, id) })
	for _, id := range stay {
		if i := replica.Find(s.ISR, id); i < 0 || !v.intact(s.ISR[i]) {
			return ""
		}
	}
	w.Replicas = stay
	if len(p.Leaving) == 0 {
		return "reassigned" // nobody has to hear of another state
	}
	left := func(m replica.Member) bool { return slices.Contains(p.Leaving, m.ID) }
	s.ISR, s.ELR = slices.DeleteFunc(slices.Clone(s.ISR), left), slices.DeleteFunc(slices.Clone(s.ELR), left)
	if slices.Contains(p.Leaving, s.Leader) {
		s.Leader = stay[0]
	}
	s.LeaderEpoch++ // the old replicas must hear of it
	return "reassigned"
}

func all(members []replica.Member, ok func(replica.Member) bool) bool {
	return !slices.ContainsFunc(members, func(m replica.Member) bool { return !ok(m) })
}
