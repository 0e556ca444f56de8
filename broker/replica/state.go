// Package replica is what the replicas of a partition must know and decide: who leads, who is in sync, how far everybody has got and where logs part.
// It is plain data: no I/O, no clock. The broker feeds it what it fetches, appends and reads in the registry, and does what it says.
//
// # The rules
//
//   - A record is committed when every in-sync replica (ISR) has it. The high watermark (HW) is the offset behind the last committed one;
//     consumers see what lies below it. It never goes back while leaders are elected cleanly.
//   - The ISR is what the registry has. A leader that wants another one proposes it, and until the registry has confirmed or refused it counts the members of both
//     (KIP-497), so that nobody who might be elected misses a committed record.
//   - Who joins the ISR has fetched just now. A member that dies is counted until the registry says so, and the HW moves by what it told last; but nobody becomes a member by what it told a while
//     ago, for it may have died since and lost that.
//   - While the ISR is smaller than the topic's least number of in-sync replicas the HW stands still, and who left the ISR then stays eligible (the ELR, KIP-966): they have all that is
//     committed.
//   - A log is cut into leader epochs. Two logs that have the same epoch at the same offset are the same up to there; a follower finds the place where it parts from its leader
//     by epochs, never by its own HW (KIP-101, KIP-279).
package replica

import "slices"

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// Member is a replica in one incarnation of its broker: Epoch is the version that the broker's registration got. A broker that lost what it had
// not flushed comes back with a higher one.
type Member struct {
	ID    int32 `json:"id"`
	Epoch int64 `json:"epoch"`
}

// State is a partition's entry in the registry.
type State struct {
	Leader          int32    `json:"leader"` // broker id or NoLeader
	LeaderEpoch     int32    `json:"leader_epoch"`
	ISR             []Member `json:"isr"`           // in sync; never empty
	ELR             []Member `json:"elr,omitempty"` // left the ISR while it was too small: they have all that is committed
	ControllerEpoch int32    `json:"controller_epoch"`
}

// Equal tells whether two entries say the same.
func (s *State) Equal(o *State) bool {
	return s.Leader == o.Leader && s.LeaderEpoch == o.LeaderEpoch && s.ControllerEpoch == o.ControllerEpoch &&
		slices.Equal(s.ISR, o.ISR) && slices.Equal(s.ELR, o.ELR)
}

// Clone copies the entry.
func (s *State) Clone() State {
	c := *s
	c.ISR, c.ELR = slices.Clone(s.ISR), slices.Clone(s.ELR)
	return c
}

// Find returns the place of a broker among the members, -1: it is not among them.
func Find(members []Member, id int32) int {
	return slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
}

// Resize is the entry's ISR and ELR after the ISR became isr: whoever left it stays eligible while it is smaller than least.
func (s *State) Resize(isr []Member, least int) {
	elr := s.ELR
	if len(isr) >= least {
		elr = nil
	} else {
		for _, m := range s.ISR {
			if Find(isr, m.ID) < 0 && Find(elr, m.ID) < 0 {
				elr = append(slices.Clip(elr), m)
			}
		}
	}
	elr = slices.DeleteFunc(slices.Clone(elr), func(m Member) bool { return Find(isr, m.ID) >= 0 })
	if len(elr) == 0 {
		elr = nil
	}
	s.ISR, s.ELR = isr, elr
}

// Leads tells whether the entry makes this broker the leader, whose logs lost nothing since its registration of epoch cleanSince. An entry that was made for an
// earlier life, before a loss, does not: the log would give offsets out again in the same leader epoch. The controller is about to replace it.
func (s *State) Leads(self int32, cleanSince int64) bool {
	i := Find(s.ISR, self)
	return s.Leader == self && i >= 0 && s.ISR[i].Epoch >= cleanSince
}
