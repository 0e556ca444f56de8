package oracle

import (
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// called judges an acknowledged commit.
func (o *Members) called(e *history.Event) {
	req, ok := e.Kafka.Req.(*kmsg.OffsetCommitRequest)
	if !ok {
		return
	}
	resp, ok := e.Kafka.Resp.(*kmsg.OffsetCommitResponse)
	p := o.party(req.Group)
	if !ok || p == nil || req.Generation < 0 && req.MemberID == "" || !someStored(resp) {
		return
	}
	start, end := e.Kafka.Start-skew, e.Kafka.End+skew
	switch at, was := p.went[req.MemberID]; {
	case !p.had(int64(req.Generation), start, end):
		o.accuse(p, e.At, Gen, "a commit of %s in generation %d of group %s was taken between %v and %v, when the group was in generation %s", req.MemberID, req.Generation, req.Group, e.Kafka.Start, e.Kafka.End, p.between(start, end))
	case !p.members[req.MemberID] && !was:
		o.accuse(p, e.At, Gen, "a commit of %s, who was never a member of group %s, was taken between %v and %v", req.MemberID, req.Group, e.Kafka.Start, e.Kafka.End)
	case !p.members[req.MemberID] && at < start:
		o.accuse(p, e.At, Gen, "a commit of %s was taken between %v and %v, though it is no member of group %s since %v", req.MemberID, e.Kafka.Start, e.Kafka.End, req.Group, at)
	}
}

// stored judges a commit that counts from now on.
func (o *Members) stored(e *history.Event, p *party, at seat) {
	t := &e.Trace
	if t.B >= 0 && t.Detail != "" && (t.B < p.stable || t.B > p.generation) {
		o.accuse(p, e.At, Gen, "a commit of %s in generation %d counts from now on (offset %d of %v), but the assignment in force is of generation %d, and the group is in %d",
			t.Detail, t.B, t.A, at, p.stable, p.generation)
	}
	if owner, owned := p.given[at.place]; t.B >= 0 && t.B == p.stable && owned && owner != t.Detail {
		o.accuse(p, e.At, Gen, "a commit of %s in generation %d counts from now on (offset %d of %v), but the assignment gives the partition to %s", t.Detail, t.B, t.A, at, owner)
	}
}

func someStored(r *kmsg.OffsetCommitResponse) bool {
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			if r.Topics[i].Partitions[j].ErrorCode == 0 {
				return true
			}
		}
	}
	return false
}
