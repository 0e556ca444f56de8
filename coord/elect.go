package coord

import "time"

// elector decides when a server asks for an election, and whom it listens to in one. It is plain data: time is an argument (the machine's Uptime), and so
// is chance.
//
//   - A server that has not heard of a leader for its patience, drawn anew each time between min and twice that, campaigns, and again after
//     another such time as long as there is no leader.
//   - While it hears of a leader (or leads), requests for votes are not listened to: who cannot hear the leader any more cannot depose
//     it as long as a quorum can. Votes that are withheld cost nothing but time.
//   - A leader asks every 2*min whether a quorum answered since it asked before, and steps down if not: so it serves nobody for long when it is alone.
//   - A leader that was held up itself (paused) gives the others time to answer first.
//
// Nothing that is promised depends on these times: two leaders of different terms may believe in themselves at the same time, and whatever needs the
// true one asks a quorum (reads, pings) or waits for one (writes).
type elector struct {
	min   time.Duration
	draw  func(n int64) int64 // uniform in [0, n)
	leads bool

	heard    time.Duration // of the leader
	hearing  bool          // heard counts
	campaign time.Duration // when to campaign unless something is heard
	check    time.Duration // when to check the quorum
	looked   time.Duration // last time that Due was asked
}

func newElector(min time.Duration, draw func(int64) int64, now time.Duration) *elector {
	e := &elector{min: min, draw: draw, looked: now}
	e.wait(now)
	return e
}

// wait begins a new patience.
func (e *elector) wait(now time.Duration) {
	e.campaign = now + e.min + time.Duration(e.draw(int64(e.min)))
}

// Heard says that the leader of the current term spoke.
func (e *elector) Heard(now time.Duration) {
	e.heard, e.hearing = now, true
	e.wait(now)
}

// Voted says that the server gave its vote away.
func (e *elector) Voted(now time.Duration) { e.wait(now) }

// Leads says that the server leads from now on, or does not any more.
func (e *elector) Leads(leads bool, now time.Duration) {
	e.leads, e.hearing = leads, false
	e.check = now + 2*e.min
	e.wait(now)
}

// Leased tells that the server listens to no request for its vote.
func (e *elector) Leased(now time.Duration) bool {
	return e.leads || e.hearing && now < e.heard+e.min
}

// Next is when Due must be asked.
func (e *elector) Next() time.Duration {
	if e.leads {
		return e.check
	}
	return e.campaign
}

// Due tells what is to be done now.
func (e *elector) Due(now time.Duration) (campaign, checkQuorum bool) {
	held := now > e.looked+e.min
	e.looked = now
	switch {
	case e.leads && held:
		e.check = max(e.check, now+e.min)
	case e.leads && now >= e.check:
		e.check = now + 2*e.min
		return false, true
	case !e.leads && now >= e.campaign:
		e.wait(now)
		return true, false
	}
	return false, false
}
