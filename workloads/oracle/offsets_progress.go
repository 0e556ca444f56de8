package oracle

import (
	"slices"
	"time"

	"faultline/workloads/history"
)

// progress is how far a group is in a partition.
type progress struct {
	seat
	group     *Group
	done      window         // processed, or legally left out
	claimant  string         // the consumer whose claim is the latest; empty when it gave it up or is gone
	machine   string         // and where it runs
	due       int64          // it processed everything below since it claimed, and should commit that; none
	maybe     int64          // likewise, if what an earlier claim handed over, or what it read before it went back, never was processed
	works     []int64        // what it was handed by this claim, and works on
	belated   []int64        // likewise, by claims before
	moved     time.Duration  // since when
	committed int64          // none
	sure      int64          // the last commit that was surely stored; none
	acks      []acknowledged // coordinator group: commits that were acknowledged, as far as an answer may still be older
	counted   map[int64]bool // coordinator group: what any coordinator said to be stored, or to have found
	expired   time.Duration  // when what was committed expired last (Expiry judges that)
	backs     []int64        // commits may go back as far as one of these: where the application went, or a log that lost its end; the latest last
	last      commit
	parted    *parting // what was given up last, and still is to be committed; nil: nothing
}

// find returns the progress of a promised group with claims, or nil.
func (o *Offsets) find(group, topic string, partition int32) *progress {
	p := o.near[partition&15]
	if p != nil && p.partition == partition && p.seat.group == group && p.topic == topic {
		return p
	}
	if p = o.seat(seat{group, place{topic, partition}}); p != nil {
		o.near[partition&15] = p
	}
	return p
}

func (o *Offsets) seat(at seat) *progress {
	p := o.seats[at]
	if p == nil {
		g := o.promise.group(at.group)
		if g == nil || g.Loner || o.promise.Incarnations.Dead(at.topic) {
			return nil
		}
		p = &progress{seat: at, group: g, due: none, maybe: none, committed: none, sure: none}
		o.seats[at] = p
	}
	return p
}

// worked notes that a record was processed, and reports whether that counts for the present claim. What was handed over by one before does not: it is handed over again. When both handed it over, and
// nobody knows which of the two was processed, for the application may have gone back instead, it may count.
func (p *progress) worked(offset int64) (counts, may bool) {
	mine := slices.Index(p.works, offset)
	if i := slices.Index(p.belated, offset); i >= 0 {
		p.belated = slices.Delete(p.belated, i, i+1)
		return false, mine >= 0
	}
	if mine >= 0 {
		p.works = slices.Delete(p.works, mine, mine+1)
	}
	return true, true
}

// begin forgets what was processed up to now: a claim begins or ends, or the application goes elsewhere.
func (p *progress) begin() { p.due, p.maybe = none, none }

func (p *progress) mayGoBack(to int64) {
	if len(p.backs) == 64 {
		p.backs = p.backs[1:]
	}
	p.backs = append(p.backs, to)
}

// back is how far commits may go back; none: not at all.
func (p *progress) back() int64 {
	if len(p.backs) == 0 {
		return none
	}
	return slices.Min(p.backs)
}

// goesBack takes the permission that a commit uses, and those from before: the application may have gone back again while the commit was under way.
func (p *progress) goesBack(to int64) bool {
	i := slices.IndexFunc(p.backs, func(least int64) bool { return to >= least })
	if i >= 0 {
		p.backs = p.backs[i+1:]
	}
	return i >= 0
}

// uncommitted reports whether a commit is due that has not come yet.
func (p *progress) uncommitted() bool {
	return p.group.CommitWithin > 0 && p.group.Delivery == AtLeastOnce && p.committed < p.due
}

// reset follows a consumer to a new position and notes what it may leave out.
func (o *Offsets) reset(e *history.Event) {
	t := &e.Trace
	at, ok := parseSeat(t.Subject)
	p := o.seat(at)
	if !ok || p == nil {
		return
	}
	p.begin() // what it left out need not be committed before something follows
	from, to := t.A, t.B
	start, end := o.extent(at.place)
	first := from < 0
	if first {
		from = p.done.base
	}
	switch {
	case !first && to < from:
		if from > end {
			p.mayGoBack(to)
		}
	case p.group.Reset == Largest && (first || from < start):
		p.done.addRange(from, to)
	default:
		p.done.addRange(from, min(to, start))
	}
}

// removeTopic forgets a deleted topic's offsets: its next namesake begins anew.
func (o *Offsets) removeTopic(topic string) {
	for at := range o.seats {
		if at.topic == topic {
			delete(o.seats, at)
		}
	}
	o.near = [16]*progress{}
}
