package member_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/consumer/assign"
	"faultline/consumer/member"
	"faultline/sim/machine/script"
)

// TestMembers runs the scripts of testdata/members. Each line of a "do" is one thing that happens to a member of topic t with a session of 10 s, a rebalance time-out of 20 s and heartbeats
// every 3 s; then it prints what the member wants to do next, as often as it wants to.
//
//	next                                 what it wants to do
//	found [ADDRESS]                      the answer to find: the coordinator's address; without one, nobody could tell
//	joined GENERATION [leads] [skip]     the answer to a join sent now, or since "send join"
//	synced PARTITION,... [t=4]           the answer to a sync, likewise; with the note of a leader whose plan was for so many partitions
//	divided                              what it knows of how many partitions the plan that it leads is for
//	send join | sync | heartbeat         it is sent, and answered later
//	beaten                               the answer to the heartbeat sent last
//	took | gave                          what it was asked to take or give up is done
//	joined, synced, beaten, answered ERROR, or "lost" for no answer at all
//	away | back | left
//	planned [part] [t=4]                 part: something was left to nobody; for so many partitions
//	grew                                 a topic that it planned for has more partitions now
//	wait 5s
//
// Every line of output ends with how long the member is surely one.
func TestMembers(t *testing.T) {
	script.Run(t, "testdata/members", newMember)
}

type members struct {
	m      *member.Member
	now    time.Duration
	sent   bool // a join or sync was sent already
	beat   member.Ticket
	wanted member.Step
	out    *strings.Builder
}

func newMember(t *testing.T, d *datadriven.TestData, out *strings.Builder) script.Step {
	cfg := member.Config{Group: "g", Topics: []string{"t"}, Session: 10 * time.Second, Rebalance: 20 * time.Second, Heartbeat: 3 * time.Second,
		Backoff: 100 * time.Millisecond, BackoffMax: time.Second, Assignors: []*assign.Assignor{assign.Range}}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "static":
			cfg.Instance = arg.Vals[0]
		case "assignor":
			a, ok := assign.ByName(arg.Vals[0])
			require.True(t, ok)
			cfg.Assignors = []*assign.Assignor{a}
		case "rebalance":
			cfg.Rebalance = script.Duration(t, arg.Vals[0])
		}
	}
	s := &members{m: member.New(cfg), now: time.Minute, out: out}
	return s.step
}

var kinds = [...]string{member.Wait: "wait", member.Find: "find", member.GiveUp: "give up", member.Join: "join", member.Plan: "plan", member.Sync: "sync", member.Take: "take", member.Leave: "leave", member.Fail: "fail"}

func (s *members) next() {
	s.wanted = s.m.Next(s.now)
	w := s.wanted
	line := kinds[w.Kind]
	if w.Lost {
		line += " as lost"
	}
	for _, p := range w.Partitions {
		line += fmt.Sprintf(" %s/%d", p.Topic, p.Partition)
	}
	switch {
	case w.Kind == member.Wait && w.Until != member.Never:
		line += " for " + (w.Until - s.now).String()
	case w.Kind == member.Fail:
		line += ": " + s.m.Err().Error()
	}
	lease := "not surely a member"
	if left := s.m.Lease() - s.now; left > 0 {
		lease = "a member for " + left.String()
	}
	fmt.Fprintf(s.out, "%s (%q in %d, %s)\n", line, s.m.ID(), s.m.Generation(), lease)
}

// problem reads an error by Kafka's name; "lost": no answer.
func problem(name string) (code int16, err error) {
	if name == "lost" {
		return 0, errors.New("connection lost")
	}
	for code := int16(-1); code < 120; code++ {
		if e, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && e != nil && e.Message == name {
			return code, nil
		}
	}
	return 0, nil
}

func (s *members) step(t *testing.T, f []string) {
	arg := ""
	if len(f) > 1 {
		arg = f[1]
	}
	code, lost := problem(arg)
	switch f[0] {
	case "next":
	case "wait":
		s.now += script.Duration(t, arg)
	case "found":
		s.m.Found(s.now, arg, nil)
	case "send":
		s.send(arg)
		return
	case "joined":
		s.joined(t, f[1:], code, lost)
	case "planned":
		s.m.Planned(assign.Plan{{Member: s.m.ID()}}, counts(f[1:]), arg != "part")
	case "synced":
		if !s.sent {
			s.m.SyncRequest(s.now)
		}
		s.sent = false
		r := kmsg.NewPtrSyncGroupResponse()
		if r.ErrorCode = code; code == 0 && lost == nil {
			r.MemberAssignment = given(t, s.m.ID(), arg)
			if note := counts(f[1:]); note != nil {
				r.MemberAssignment = assign.Note(r.MemberAssignment, note)
			}
		}
		s.m.Synced(s.now, r, lost)
	case "beaten":
		r := kmsg.NewPtrHeartbeatResponse()
		r.ErrorCode = code
		s.m.Heartbeaten(s.now, s.beat, r, lost)
	case "answered":
		s.m.Answered(s.now, s.m.Ticket(s.now), kerr.ErrorForCode(code))
	case "took":
		s.m.Took(s.wanted.Partitions)
	case "gave":
		s.m.GaveUp(s.wanted.Partitions)
	case "away", "back":
		s.m.Away(f[0] == "away")
	case "left":
		s.m.Left()
	case "grew":
		s.m.Rejoin()
	case "divided":
		fmt.Fprintf(s.out, "it knows of %v\n", s.m.Divided())
		return
	default:
		t.Fatalf("unknown step %v", f)
	}
	s.next()
}

func (s *members) send(what string) {
	switch what {
	case "join":
		s.m.JoinRequest(s.now)
		s.sent = true
	case "sync":
		s.m.SyncRequest(s.now)
		s.sent = true
	case "heartbeat":
		due := "not due"
		if at := s.m.HeartbeatDue(); at <= s.now {
			due = "due"
		} else if at != member.Never {
			due = "due in " + (at - s.now).String()
		}
		_, s.beat = s.m.HeartbeatRequest(s.now)
		fmt.Fprintf(s.out, "a heartbeat was %s\n", due)
	}
}

func (s *members) joined(t *testing.T, f []string, code int16, lost error) {
	if !s.sent {
		r := s.m.JoinRequest(s.now)
		said := ""
		a, _ := assign.ByName(r.Protocols[0].Name)
		self, err := a.Parse("", "", r.Protocols[0].Metadata)
		require.NoError(t, err)
		for _, p := range self.Owned {
			said += fmt.Sprintf(" %s/%d", p.Topic, p.Partition)
		}
		if said != "" {
			fmt.Fprintf(s.out, "it says that it has%s since generation %d\n", said, self.Generation)
		}
	}
	s.sent = false
	r := kmsg.NewPtrJoinGroupResponse()
	r.ErrorCode = code
	switch {
	case code == kerr.MemberIDRequired.Code:
		r.MemberID = "m-1"
	case code == 0 && lost == nil:
		n, err := strconv.Atoi(f[0])
		require.NoError(t, err)
		r.MemberID, r.Generation, r.LeaderID = s.m.ID(), int32(n), "other"
		if r.MemberID == "" {
			r.MemberID = "m-2" // a static one
		}
		if slices.Contains(f, "leads") {
			r.LeaderID = r.MemberID
		}
		r.SkipAssignment = slices.Contains(f, "skip")
		name := "range"
		if len(f) > 1 && f[len(f)-1] != "leads" && f[len(f)-1] != "skip" {
			name = f[len(f)-1]
		}
		r.Protocol = kmsg.StringPtr(name)
	}
	s.m.Joined(s.now, r, lost)
}

// counts reads the words of the kind t=4; nil: there are none.
func counts(words []string) (n map[string]int32) {
	for _, w := range words {
		if topic, number, ok := strings.Cut(w, "="); ok {
			if n == nil {
				n = map[string]int32{}
			}
			v, _ := strconv.ParseInt(number, 10, 32)
			n[topic] = int32(v)
		}
	}
	return n
}

func given(t *testing.T, id, list string) []byte {
	share := assign.Share{Member: id}
	for n := range strings.SplitSeq(list, ",") {
		if n == "" || n == "none" {
			continue
		}
		p, err := strconv.ParseInt(n, 10, 32)
		require.NoError(t, err)
		share.Partitions = append(share.Partitions, assign.Partition{Topic: "t", Partition: int32(p)})
	}
	return assign.Plan{share}.Encode()[0].MemberAssignment
}
