package oracle

import (
	"strings"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// parting is a claim that its member has given up, and what it had processed by then.
type parting struct {
	machine string
	at      time.Duration
	due     int64 // it had processed everything below since it claimed, or went back
	maybe   int64 // or below this
	back    bool  // it went back: then what is committed is to be just that, or the next owner would not begin there
}

// committed reports whether what was processed is.
func (x *parting) committed(offset int64) bool {
	return offset == x.due || offset > x.due && (!x.back || offset <= x.maybe)
}

// partings are what Offsets needs to tell who parts in order.
type partings struct {
	quiet   *quiet
	refused map[string]time.Duration // by machine: when something that it asked failed last, or was refused
	heard   map[string]time.Duration // by machine: when it sent the last request whose answer proved its membership in a coordinator group
	skips   bool                     // a misfortune has members leave the last commit out
}

const (
	// quietBefore is how long it must have been quiet before a member parts: requests that were under way are over, and who was late has caught up.
	quietBefore = 2 * time.Second
	// partingWithin is how long after the end of its claims a member that goes on at once has asked for what comes next. One that takes longer may have tried in vain to commit.
	partingWithin = 100 * time.Millisecond
)

// part notes that a claim was given up.
func (o *Offsets) part(e *history.Event, p *progress) {
	p.parted = nil
	if p.group.Commits && p.due >= 0 {
		p.parted = &parting{e.Machine, e.At, p.due, p.maybe, p.back() >= 0}
	}
}

// partingTraced judges members that go on after they have given claims up: in a coordinator group they join again or leave, in a registry group the owner's node goes.
func (o *Offsets) partingTraced(e *history.Event) {
	switch t := &e.Trace; t.Kind {
	case machine.ConsumerRebalance, machine.ConsumerLeft:
		if g := o.promise.group(t.Subject); g == nil || !g.Coordinated {
			return
		}
		for _, at := range sortedSeats(o.seats) {
			if p := o.seats[at]; at.group == t.Subject && p.parted != nil && p.parted.machine == e.Machine {
				o.parted(e, p)
			}
		}
	case machine.ZnodeDeleted:
		if at, ok := parseSeatPath(t.Subject, "owners"); ok && o.seats[at] != nil && o.seats[at].parted != nil {
			o.parted(e, o.seats[at])
		}
	}
}

// parted judges a member whose claim is about to be somebody else's.
func (o *Offsets) parted(e *history.Event, p *progress) {
	x := p.parted
	p.parted = nil
	switch {
	case x.committed(p.committed) || o.partings.skips || o.loose(p.place):
	case !o.partings.quiet.sinceBefore(x.at-quietBefore) || e.At > x.at+partingWithin:
	case o.partings.refused[x.machine] >= x.at-quietBefore:
	case p.group.Coordinated && x.at > o.partings.heard[x.machine]+min(p.group.session(x.machine), p.group.rebalance(x.machine))*3/4: // it may have lost its claims
	default:
		o.Violate(e.At, DupB, "%s gave up %v in order at %v and had processed everything below offset %d, but the committed offset is %s: the next owner begins there", x.machine, p.seat, x.at, x.due, offsetText(p.committed))
	}
}

// partingSeen follows what else tells who parts in order.
func (o *Offsets) partingSeen(e *history.Event) {
	o.partings.quiet.observe(e)
	switch e.Kind {
	case history.FaultInjected:
		o.partings.skips = o.partings.skips || strings.Contains(e.Text, "fault/consumer/release-commit")
	case history.MachineCrashed, history.MachineExited:
		o.partings.refused[e.Machine] = e.At
	case history.CoordCalled:
		if e.Coord.Err != nil && (e.Coord.Op == "multi" || e.Coord.Op == "set" || e.Coord.Op == "create") {
			o.partings.refused[e.Machine] = e.At
		}
	case history.KafkaCalled:
		o.partingCalled(e)
	}
}

func (o *Offsets) partingCalled(e *history.Event) {
	code := int16(0)
	switch resp := e.Kafka.Resp.(type) {
	case *kmsg.HeartbeatResponse:
		if code = resp.ErrorCode; code == 0 {
			o.partings.heard[e.Machine] = e.Kafka.Start
		}
	case *kmsg.SyncGroupResponse:
		if code = resp.ErrorCode; code == 0 {
			o.partings.heard[e.Machine] = e.Kafka.Start
		}
	case *kmsg.OffsetCommitResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if c := resp.Topics[i].Partitions[j].ErrorCode; c != 0 {
					o.partings.refused[e.Machine] = e.At
				}
			}
		}
	case nil:
		switch e.Kafka.Req.(type) {
		case *kmsg.HeartbeatRequest, *kmsg.OffsetCommitRequest:
			o.partings.refused[e.Machine] = e.At
		}
	}
	if code != 0 && code != kerr.RebalanceInProgress.Code {
		o.partings.refused[e.Machine] = e.At
	}
}
