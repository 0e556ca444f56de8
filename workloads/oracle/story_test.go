package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"faultline/broker/client"
	"faultline/faults"
	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// story tells an oracle a history in a small language, one event a line:
//
//	+5s                                  time passes
//	sent 0/0 t                           by producer p on machine p (source 0), p1 on p1 (source 1), ...; a last number is its key
//	acked 0/0 t/0 41                     also: failed 0/0, unknown 0/0, and why
//	processed c1 g/t/0 41 0/0            by consumer c1 on machine c1; a last word "bad" changes the hash
//	sought c1 g/t/0 41; suspended c1 g/t/0; continued c1 g/t/0
//	b1 log.visible t/0 - 42              a trace event of machine b1: kind, subject, detail (- for none, _ for a space), A, B, C
//	b1#2 broker.up - - 1                 of its second incarnation
//	crash b1, power b1, wipe b1, start b1, pause b1, resume b1, exit b1 reason
//	fault 1 text, healed 1 text, phase heal
//	ruin 1 b1 bytes, mend 1 b1 bytes     also: flushes, wire
//	free t/0                             a fault takes too many copies of the partition
//	c1 call set=data /path 7 1s 2s ok    an operation of session 7 from 1s to 2s: ok, refused, unsent or lost; or asked: a write that is about to be sent
//	c1 shown get+ /a 7 9 8               the coordination service answers session 7 of c1: op (other: not a read; +: it asks for a watch, !: there is no node), the last transaction, and the node's (of children: its children's)
//	c1 told set /a 7                     a watch of it fired: created, deleted, set, children
//	c1 left 7 9                          all its watches are left again
//	c1 alive 7 1s                        the session goes on, says the answer to a ping that was sent at 1s
//	c1 numbers /a- /a-0000000001 x ok    a create of a node that gets a number: what was asked, the node (- for none), the content, and ok, refused, lost or unsent
//	request c1 1s                        a request to a broker that began then
//	refused b1 t/0 56                    a fetch from machine b1 gets this error code
//	commits c1 g m1 1 t/0 42 10ms        an acknowledged commit of member m1 in generation 1, that ends now and took so long; a last number is the error code of one that was refused
//	recalls c1 g t/0 42 10ms             the answer to a question for a committed offset, likewise
//	ends c1 b1 t/0 42 10ms               the answer of b1 to the question where the log ends, likewise
//	answer c1 join g m1 20ms 0           to the join (sync, beat, leave) of member m1 (- for none) of group g, sent so long ago; a last word is the member id in it, m1 leads, or the generation of a sync or beat; lost: none came
//	produce p1 1 20ms                    a produce request with acks=1 that ends now and took so long
//
// "handed c1 g/t/0 41", "claimed c1 g/t/0 40", "released c1 g/t/0", "committed c1 g/t/0 42" and "reset c1 g/t/0 40 50" are short
// for the consumer's trace events, "commit g/t/0 42", "own g/t/0 c1 7" and "disown g/t/0 7" for the znode's. A machine's
// incarnation rises with each start.
type story struct {
	t    testing.TB
	rec  *history.Recorder
	now  time.Duration
	inc  map[string]int
	line string
}

func newStory(t testing.TB, observers ...history.Observer) *story {
	s := &story{t: t, inc: map[string]int{}}
	s.rec = history.NewRecorder(func() time.Duration { return s.now })
	s.attach(observers...)
	return s
}

func (s *story) attach(observers ...history.Observer) {
	for _, o := range observers {
		if l, ok := o.(leaning); ok {
			s.attach(l.on...)
			s.attach(l.Oracle)
		} else {
			s.rec.Attach(o)
		}
	}
}

// leaning is an oracle and what it judges by, which is shown each event before it.
type leaning struct {
	Oracle
	on []history.Observer
}

func on(first ...history.Observer) []history.Observer { return first }

// judging makes an oracle that judges by a cluster.
func judging[O Oracle](p *Promise, make func(*Cluster) O, first ...history.Observer) leaning {
	c := NewCluster(p)
	return leaning{make(c), append(first, c)}
}

// judge tells a story and returns what the oracle says.
func judge(t testing.TB, o Oracle, text string) []Violation {
	s := newStory(t, o)
	s.tell(text)
	o.Finish(End{At: s.now})
	for _, v := range o.Violations() {
		require.Contains(t, o.Invariants(), v.Invariant)
		require.NotContains(t, v.Message, "%!")
	}
	return o.Violations()
}

// silent requires that the oracle has nothing to say.
func silent(t testing.TB, o Oracle, text string) {
	t.Helper()
	require.Empty(t, judge(t, o, text))
}

// fires requires that the first violation is of the invariant and says something.
func fires(t testing.TB, o Oracle, invariant, says, text string) {
	t.Helper()
	got := judge(t, o, text)
	require.NotEmpty(t, got, "want %s: %s", invariant, says)
	require.Equal(t, invariant, got[0].Invariant, got)
	require.Contains(t, got[0].Message, says)
}

func (s *story) tell(text string) {
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "//")
		for _, part := range strings.Split(line, ";") {
			if s.line = strings.TrimSpace(part); s.line != "" {
				s.event(strings.Fields(s.line))
			}
		}
	}
}

// partitionOf is the partition that a reason begins with ("t/0: no leader"), as a producer's do; none: it tells none.
func partitionOf(reason []string) int32 {
	if len(reason) > 0 {
		if at, ok := parsePlace(strings.TrimSuffix(reason[0], ":")); ok {
			return at.partition
		}
	}
	return none
}

// faultOf reads what oracles ask of a fault in the line that makes it; its targets are the names of machines. A line that says nothing of that stands for any fault.
func faultOf(line string) (f history.Fault) {
	for _, field := range strings.Split(strings.Trim(line, "{}"), ", ") {
		switch key, value, _ := strings.Cut(field, ": "); key {
		case "fault":
			f.Kind = faults.Kind(value)
		case "target":
			f.Hit = append(f.Hit, value)
		case "peer":
			f.Peers = append(f.Peers, value)
		}
	}
	return f
}

func (s *story) who(name string) history.Who {
	name, inc, ok := strings.Cut(name, "#")
	if ok {
		s.inc[name] = int(s.num(inc))
	}
	if s.inc[name] == 0 {
		s.inc[name] = 1
	}
	return history.Who{Machine: name, Incarnation: s.inc[name]}
}

func (s *story) num(text string) int64 {
	n, err := strconv.ParseInt(text, 0, 64)
	require.NoError(s.t, err, s.line)
	return n
}

func (s *story) id(text string) history.ID {
	id, err := history.ParseID(text)
	require.NoError(s.t, err, s.line)
	return id
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(s.t, err, s.line)
	return d
}

func (s *story) kind(name string) (k machine.Kind) {
	require.NoError(s.t, k.UnmarshalText([]byte(name)), s.line)
	return k
}

func (s *story) trace(who history.Who, kind machine.Kind, subject, detail string, n ...string) {
	e := machine.Event{Kind: kind, Subject: subject, Detail: strings.ReplaceAll(detail, "_", " ")}
	switch {
	case detail == "-":
		e.Detail = ""
	case detail[0] == '{':
		e.Detail = detail // JSON has names with an underscore
	}
	for i, v := range n {
		*[]*int64{&e.A, &e.B, &e.C}[i] = s.num(v)
	}
	s.rec.Traced(who, e)
}

func producerOf(id history.ID) string {
	if id.Source() == 0 {
		return "p"
	}
	return "p" + strconv.Itoa(id.Source())
}

func (s *story) event(w []string) {
	r := s.rec
	seat := func(text string) (string, string, int32) {
		at, ok := parseSeat(text)
		require.True(s.t, ok, s.line)
		return at.group, at.topic, at.partition
	}
	place := func(text string) (string, int32) {
		at, ok := parsePlace(text)
		require.True(s.t, ok, s.line)
		return at.topic, at.partition
	}
	if strings.HasPrefix(w[0], "+") {
		s.now += s.duration(w[0][1:])
		return
	}
	coord := history.Who{Machine: "coord", Incarnation: max(1, s.inc["coord"])}
	switch w[0] {
	case "sent":
		id := s.id(w[1])
		key := uint64(0)
		if len(w) > 3 {
			key = uint64(s.num(w[3]))
		}
		r.Sent(s.who(producerOf(id)), id, producerOf(id), w[2], none, key, uint64(id)+1)
	case "acked":
		t, p := place(w[2])
		r.Acked(s.who(producerOf(s.id(w[1]))), s.id(w[1]), t, p, s.num(w[3]))
	case "failed":
		r.Failed(s.who(producerOf(s.id(w[1]))), s.id(w[1]), partitionOf(w[2:]), cmp.Or(strings.Join(w[2:], " "), "no"))
	case "unknown":
		r.Unknown(s.who(producerOf(s.id(w[1]))), s.id(w[1]), partitionOf(w[2:]), cmp.Or(strings.Join(w[2:], " "), "timed out"))
	case "processed":
		g, t, p := seat(w[2])
		hash := uint64(s.id(w[4])) + 1
		if len(w) > 5 {
			hash++
		}
		r.Processed(s.who(w[1]), g, w[1], t, p, s.num(w[3]), s.id(w[4]), hash)
	case "sought":
		g, t, p := seat(w[2])
		r.Sought(s.who(w[1]), g, w[1], t, p, s.num(w[3]))
	case "suspended", "continued":
		g, t, p := seat(w[2])
		if w[0] == "suspended" {
			r.Suspended(s.who(w[1]), g, w[1], t, p)
		} else {
			r.Continued(s.who(w[1]), g, w[1], t, p)
		}
	case "handed", "claimed", "released", "committed", "reset":
		s.trace(s.who(w[1]), s.kind("consumer."+w[0]), w[2], w[1], w[3:]...)
	case "commit":
		g, t, p := seat(w[1])
		s.trace(coord, machine.ZnodeSet, fmt.Sprintf("/consumers/%s/offsets/%s/%d", g, t, p), w[2])
	case "own", "disown":
		g, t, p := seat(w[1])
		path := fmt.Sprintf("/consumers/%s/owners/%s/%d", g, t, p)
		if w[0] == "own" {
			s.trace(coord, machine.ZnodeCreated, path, w[2], w[3])
		} else {
			s.trace(coord, machine.ZnodeDeleted, path, "-", w[2])
		}
	case "crash", "power":
		r.MachineCrashed(s.who(w[1]), w[0] == "power", "fault")
	case "wipe":
		r.MachineWiped(s.who(w[1]))
	case "start":
		who := s.who(w[1])
		if _, known := s.inc[w[1]+"/started"]; known {
			s.inc[w[1]]++
			who.Incarnation++
		}
		s.inc[w[1]+"/started"] = 1
		r.MachineStarted(who)
	case "pause":
		r.MachinePaused(s.who(w[1]))
	case "resume":
		r.MachineResumed(s.who(w[1]))
	case "exit":
		var reason error
		if len(w) > 2 {
			reason = errors.New(strings.Join(w[2:], " "))
		}
		r.MachineExited(s.who(w[1]), reason)
	case "fault":
		text := strings.Join(w[2:], " ")
		r.FaultInjected(int(s.num(w[1])), faultOf(text), text)
	case "healed":
		r.FaultHealed(int(s.num(w[1])), strings.Join(w[2:], " "))
	case "ruin":
		r.MachineRuined(w[2], int(s.num(w[1])), w[3])
	case "free":
		at, ok := parsePlace(w[1])
		require.True(s.t, ok, s.line)
		r.PartitionRuined(at.topic, at.partition, 1)
	case "mend":
		r.MachineMended(w[2], int(s.num(w[1])), w[3])
	case "phase":
		for p := history.Load; p <= history.End; p++ {
			if p.String() == w[1] {
				r.PhaseBegan(p)
				return
			}
		}
		s.t.Fatalf("phase? %s", s.line)
	case "refused":
		p, _ := parsePlace(w[2])
		resp := &kmsg.FetchResponse{Topics: []kmsg.FetchResponseTopic{{Topic: p.topic, Partitions: []kmsg.FetchResponseTopicPartition{{Partition: p.partition, ErrorCode: int16(s.num(w[3]))}}}}}
		r.KafkaCalled(s.who("c1"), &history.KafkaCall{Broker: w[1] + ":9092", Resp: resp, Start: s.now, End: s.now, Sent: true})
	case "commits":
		t, p := place(w[5])
		code := int16(0)
		if len(w) > 8 {
			code = int16(s.num(w[8]))
		}
		req := &kmsg.OffsetCommitRequest{Group: w[2], MemberID: w[3], Generation: int32(s.num(w[4])), Topics: []kmsg.OffsetCommitRequestTopic{{Topic: t, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: p, Offset: s.num(w[6])}}}}}
		resp := &kmsg.OffsetCommitResponse{Topics: []kmsg.OffsetCommitResponseTopic{{Topic: t, Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: p, ErrorCode: code}}}}}
		r.KafkaCalled(s.who(w[1]), &history.KafkaCall{Broker: "b1:9092", Key: 8, Req: req, Resp: resp, Start: s.now - s.duration(w[7]), End: s.now, Sent: true})
	case "recalls":
		t, p := place(w[3])
		resp := &kmsg.OffsetFetchResponse{Groups: []kmsg.OffsetFetchResponseGroup{{Group: w[2], Topics: []kmsg.OffsetFetchResponseGroupTopic{{Topic: t, Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{Partition: p, Offset: s.num(w[4])}}}}}}}
		r.KafkaCalled(s.who(w[1]), &history.KafkaCall{Broker: "b1:9092", Key: 9, Req: &kmsg.OffsetFetchRequest{}, Resp: resp, Start: s.now - s.duration(w[5]), End: s.now, Sent: true})
	case "ends":
		t, p := place(w[3])
		req := &kmsg.ListOffsetsRequest{Topics: []kmsg.ListOffsetsRequestTopic{{Topic: t, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Partition: p, Timestamp: client.Latest}}}}}
		resp := &kmsg.ListOffsetsResponse{Topics: []kmsg.ListOffsetsResponseTopic{{Topic: t, Partitions: []kmsg.ListOffsetsResponseTopicPartition{{Partition: p, Offset: s.num(w[4])}}}}}
		r.KafkaCalled(s.who(w[1]), &history.KafkaCall{Broker: w[2] + ":9092", Key: 2, Req: req, Resp: resp, Start: s.now - s.duration(w[5]), End: s.now, Sent: true})
	case "produce":
		took := s.duration(w[3])
		r.KafkaCalled(s.who(w[1]), &history.KafkaCall{Broker: "b1:9092", Req: &kmsg.ProduceRequest{Acks: int16(s.num(w[2]))}, Start: s.now - took, End: s.now, Sent: true})
	case "answer":
		s.answer(w[1:])
	case "request":
		start := s.duration(w[2])
		r.KafkaCalled(s.who(w[1]), &history.KafkaCall{Broker: "b1:9092", Key: 1, Start: start, End: s.now, Sent: true})
	default:
		if len(w) > 2 && w[1] == "call" {
			op, data, _ := strings.Cut(w[2], "=")
			c := &history.CoordCall{Op: op, Data: []byte(data), Path: w[3], Session: s.num(w[4]), Start: s.duration(w[5]), End: s.duration(w[6]), Sent: true}
			if op == "multi(delete)" {
				c.Op, c.Path, c.Ops = "multi", "", []history.CoordCall{{Op: "delete", Path: w[3]}}
			}
			if w[7] == "asked" {
				r.CoordAsked(s.who(w[0]), c)
				return
			}
			switch w[7] {
			case "refused":
				c.Err = errors.New("refused")
			case "unsent":
				c.Err, c.Sent = errors.New("not connected"), false
			case "lost":
				c.Err, c.Unknown = errors.New("connection lost"), true
			}
			r.CoordCalled(s.who(w[0]), c)
			return
		}
		if len(w) > 2 && (s.said(w) || s.numbers(w)) {
			return
		}
		require.Contains(s.t, w[1], ".", s.line)
		who := s.who(w[0])
		kind := s.kind(w[1])
		subject, detail := "", "-"
		if len(w) > 2 && w[2] != "-" {
			subject = w[2]
		}
		if len(w) > 3 {
			detail = w[3]
		}
		s.trace(who, kind, subject, detail, w[min(4, len(w)):]...)
	}
}

// said tells what the coordination service sent to a session.
func (s *story) said(w []string) bool {
	c := &history.CoordSaid{What: w[1]}
	switch w[1] {
	case "shown":
		c.What, c.Path, c.Session, c.Zxid = "answer", w[3], s.num(w[4]), s.num(w[5])
		c.Op, c.Watch, c.Found = strings.TrimRight(w[2], "+!"), strings.Contains(w[2], "+"), !strings.Contains(w[2], "!")
		if c.Op == "other" {
			c.Op = ""
		}
		if len(w) > 6 && c.Op == "children" {
			c.Pzxid = s.num(w[6])
		} else if len(w) > 6 {
			c.Mzxid = s.num(w[6])
		}
	case "told":
		c.What, c.Path, c.Session = w[2], w[3], s.num(w[4])
	case "left":
		c.Session, c.Zxid = s.num(w[2]), s.num(w[3])
	case "alive":
		c.Session, c.Since = s.num(w[2]), s.duration(w[3])
	default:
		return false
	}
	s.rec.CoordHeard(s.who(w[0]), c)
	return true
}

// numbers tells of a create of a node that gets a number.
func (s *story) numbers(w []string) bool {
	if w[1] != "numbers" {
		return false
	}
	c := &history.CoordCall{Op: "create", Sequential: true, Path: w[2], Name: strings.Trim(w[3], "-"), Data: []byte(w[4]), Sent: w[5] != "unsent", Start: s.now, End: s.now}
	if w[5] != "ok" {
		c.Err, c.Unknown = errors.New(w[5]), w[5] == "lost"
	}
	s.rec.CoordCalled(s.who(w[0]), c)
	return true
}

// answer tells of an answer to a member of a coordinator group.
func (s *story) answer(w []string) {
	who, group, member, took := s.who(w[0]), w[2], strings.Trim(w[3], "-"), s.duration(w[4])
	c := &history.KafkaCall{Broker: "b1:9092", Start: s.now - took, End: s.now, Sent: true}
	code, generation := int16(0), int32(0)
	if w[5] != "lost" {
		code = int16(s.num(w[5]))
	}
	if len(w) > 6 && w[1] != "join" {
		generation = int32(s.num(w[6]))
	}
	switch w[1] {
	case "join":
		c.Req = &kmsg.JoinGroupRequest{Group: group, MemberID: member}
		c.Resp = &kmsg.JoinGroupResponse{MemberID: w[len(w)-1], LeaderID: "m1", ErrorCode: code}
	case "sync":
		c.Req, c.Resp = &kmsg.SyncGroupRequest{Group: group, MemberID: member, Generation: generation}, &kmsg.SyncGroupResponse{ErrorCode: code}
	case "beat":
		c.Req, c.Resp = &kmsg.HeartbeatRequest{Group: group, MemberID: member, Generation: generation}, &kmsg.HeartbeatResponse{ErrorCode: code}
	case "leave":
		c.Req = &kmsg.LeaveGroupRequest{Group: group, Members: []kmsg.LeaveGroupRequestMember{{MemberID: member}}}
		c.Resp = &kmsg.LeaveGroupResponse{ErrorCode: code}
	default:
		s.t.Fatalf("answer? %s", s.line)
	}
	if w[5] == "lost" {
		c.Resp, c.Err = nil, errors.New("connection lost")
	}
	s.rec.KafkaCalled(who, c)
}

func replaceAll(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
