package group_test

import (
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

	"faultline/broker/group"
	"faultline/sim/machine/script"
)

// TestGroups runs the scripts of testdata/groups. Each line of a "do" is one step, and prints what came of it.
//
// A client goes on with the member id and generation of its last answer, and with what its last join said:
//
//	a join [v=9] [static=i] [topics=t,u] [protocols=range,sticky] [session=10s] [rebalance=30s] [id=ID]
//	a sync [a=x b=y ...]         for a leader: the assignments, by client
//	a heartbeat | a leave | a commit t/0=5 ... [v=8] | a fetch [t/0 ...]
//	a commit t#2/0=5             of the topic t whose id is 2
//	a is ID/GENERATION           changes what the client goes on with
//
// Others, in one of which the group comes first:
//
//	g describe | list [state] | g delete | g delete-offsets t/0 ... | g remove instance ... | topic-deleted t
//	wait 10s                     fires the timers on the way
//	hold | ok | fail             appends wait for "ok" (all that wait) or "fail" (the oldest), instead of lasting at once
//	limit 1                      sets max-size for the next coordinator
//	crash [keep]                 another coordinator loads the log; without what waits, or with it
//	load-begins                  as crash, but the loading does not end before the next "loaded"
//
// Arguments of "new" are settings: delay, max-size, retention, new-member.
func TestGroups(t *testing.T) {
	script.Run(t, "testdata/groups", newGroups)
}

type groups struct {
	cfg     group.Config
	c       *group.Coordinator
	now     group.Time
	ids     int
	refs    []string // by ref: who asked
	log     []group.Record
	held    []group.Effect
	hold    bool
	clients map[string]*client
	out     *strings.Builder
}

type client struct {
	name, id   string
	generation int32
	join       kmsg.JoinGroupRequest
}

func newGroups(t *testing.T, d *datadriven.TestData, out *strings.Builder) script.Step {
	s := &groups{out: out, clients: map[string]*client{}, now: group.Time{Up: time.Hour, Wall: 1_000_000}}
	s.cfg = group.Defaults(func() string { s.ids++; return strconv.Itoa(s.ids) })
	s.cfg.InitialDelay = 0
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "delay":
			s.cfg.InitialDelay = script.Duration(t, arg.Vals[0])
		case "retention":
			s.cfg.Retention = script.Duration(t, arg.Vals[0])
		case "new-member":
			s.cfg.NewMemberJoinTimeout = script.Duration(t, arg.Vals[0])
		case "max-size":
			n, err := strconv.Atoi(arg.Vals[0])
			require.NoError(t, err)
			s.cfg.MaxSize = n
		default:
			d.Fatalf(t, "unknown setting %s", arg.Key)
		}
	}
	s.cfg.Exists = func(topic string, _ int32) bool { return topic != "nowhere" }
	s.c = group.New(s.cfg)
	s.c.Loaded(s.now)
	return s.step
}

func (s *groups) ref(who string) group.Ref {
	s.refs = append(s.refs, who)
	return group.Ref(len(s.refs) - 1)
}

func (s *groups) client(name string) *client {
	c := s.clients[name]
	if c == nil {
		c = &client{name: name, generation: -1, join: kmsg.NewJoinGroupRequest()}
		c.join.Version, c.join.SessionTimeoutMillis, c.join.RebalanceTimeoutMillis = 9, 10_000, 30_000
		c.join.Group, c.join.ProtocolType = "g", "consumer"
		c.say([]string{"range"}, "t")
		s.clients[name] = c
	}
	return c
}

// say sets protocols and subscription of the next join.
func (c *client) say(protocols []string, topics string) {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = strings.Split(topics, ",")
	c.join.Protocols = nil
	for _, p := range protocols {
		c.join.Protocols = append(c.join.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: meta.AppendTo(nil)})
	}
}

func (s *groups) step(t *testing.T, f []string) {
	switch f[0] {
	case "wait":
		s.wait(script.Duration(t, f[1]))
		return
	case "limit":
		n, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		s.cfg.MaxSize = n
		return
	case "hold":
		s.hold = true
		return
	case "ok":
		s.hold = false
		for len(s.held) > 0 {
			s.settle(true)
		}
		return
	case "fail":
		s.settle(false)
		return
	case "crash", "load-begins":
		s.c.Unload()
		s.effects()
		s.hold = false
		if len(f) > 1 {
			for _, e := range s.held {
				s.log = append(s.log, e.Records...)
			}
		}
		s.held = nil
		s.c = group.New(s.cfg)
		for _, r := range s.log {
			require.NoError(t, s.c.Load(r))
		}
		if f[0] == "crash" {
			s.c.Loaded(s.now)
		}
		s.effects()
		return
	case "loaded":
		s.c.Loaded(s.now)
		s.effects()
		return
	case "list":
		groups, code := s.c.List(f[1:], nil)
		fmt.Fprintf(s.out, "%s", name(code))
		for _, g := range groups {
			fmt.Fprintf(s.out, " %s:%s:%s", g.Group, g.GroupState, g.ProtocolType)
		}
		s.out.WriteString("\n")
		return
	case "topic-deleted":
		s.c.TopicDeleted(named(t, f[1]))
		var left []string
		for _, t := range s.c.Topics() {
			if t.ID != (group.TopicID{}) {
				t.Name += fmt.Sprintf("#%d", t.ID[0])
			}
			left = append(left, t.Name)
		}
		fmt.Fprintf(s.out, "topics left: %v\n", left)
		s.effects()
		return
	}
	switch f[1] {
	case "describe":
		s.describe(f[0])
	case "delete":
		s.c.DeleteGroup(s.now, s.ref("admin"), f[0], 2)
	case "delete-offsets":
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = f[0]
		for _, p := range f[2:] {
			topic, n := place(t, p)
			r.Topics = append(r.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: n}}})
		}
		s.c.DeleteOffsets(s.now, s.ref("admin"), r)
	case "remove":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group = 5, f[0]
		for _, i := range f[2:] {
			r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{InstanceID: kmsg.StringPtr(i)})
		}
		s.c.Leave(s.now, s.ref("admin"), r)
	default:
		s.request(t, s.client(f[0]), f[1], f[2:])
	}
	s.effects()
}

// named reads a topic: t#2 is one whose id is 2, and t one whose id is not known.
func named(t *testing.T, s string) (topic group.Named) {
	name, id, told := strings.Cut(s, "#")
	if topic.Name = name; told {
		n, err := strconv.ParseUint(id, 10, 8)
		require.NoError(t, err)
		topic.ID[0] = byte(n)
	}
	return topic
}

func place(t *testing.T, s string) (string, int32) {
	topic, n, _ := strings.Cut(s, "/")
	p, err := strconv.ParseInt(n, 10, 32)
	require.NoError(t, err)
	return topic, int32(p)
}

func (s *groups) request(t *testing.T, c *client, what string, args []string) {
	ref := s.ref(c.name)
	switch what {
	case "is":
		id, generation, _ := strings.Cut(args[0], "/")
		n, err := strconv.ParseInt(generation, 10, 32)
		require.NoError(t, err)
		c.id, c.generation = id, int32(n)
	case "join":
		s.join(t, c, ref, args)
	case "sync":
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.Generation, r.MemberID, r.InstanceID = 5, "g", c.generation, c.id, c.join.InstanceID
		for _, arg := range args {
			who, what, _ := strings.Cut(arg, "=")
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: s.client(who).id, MemberAssignment: []byte(what)})
		}
		s.c.Sync(s.now, ref, r)
	case "heartbeat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.Generation, r.MemberID, r.InstanceID = 4, "g", c.generation, c.id, c.join.InstanceID
		s.c.Heartbeat(s.now, ref, r)
	case "leave":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group, r.MemberID = 2, "g", c.id
		s.c.Leave(s.now, ref, r)
	case "commit":
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.Generation, r.MemberID, r.InstanceID = 8, "g", c.generation, c.id, c.join.InstanceID
		r.RetentionTimeMillis = -1
		for _, arg := range args {
			key, value, _ := strings.Cut(arg, "=")
			n, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			switch key {
			case "v":
				r.Version = int16(n)
				continue
			case "retention":
				r.RetentionTimeMillis = n
				continue
			}
			name, p := place(t, key)
			topic := named(t, name)
			at := kmsg.NewOffsetCommitRequestTopicPartition()
			at.Partition, at.Offset, at.LeaderEpoch = p, n, 3
			if n == 99 {
				at.Metadata = kmsg.StringPtr(strings.Repeat("x", 5000))
			}
			r.Topics = append(r.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic.Name, TopicID: topic.ID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{at}})
		}
		s.c.Commit(s.now, ref, r)
	case "fetch":
		r := kmsg.NewOffsetFetchRequestGroup()
		r.Group = "g"
		for _, arg := range args {
			topic, p := place(t, arg)
			r.Topics = append(r.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, Partitions: []int32{p}})
		}
		resp := s.c.Fetch(&r)
		fmt.Fprintf(s.out, "%s", name(resp.ErrorCode))
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				fmt.Fprintf(s.out, " %s/%d=%d", topic.Topic, p.Partition, p.Offset)
				if p.LeaderEpoch >= 0 {
					fmt.Fprintf(s.out, "@%d", p.LeaderEpoch)
				}
			}
		}
		s.out.WriteString("\n")
	default:
		t.Fatalf("unknown request %s", what)
	}
}

func (s *groups) join(t *testing.T, c *client, ref group.Ref, args []string) {
	topics, protocols := "", []string(nil)
	id := c.id
	millis := func(v string) int32 { return int32(script.Duration(t, v).Milliseconds()) }
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "v":
			n, err := strconv.Atoi(value)
			require.NoError(t, err)
			c.join.Version = int16(n)
			if n == 0 {
				c.join.RebalanceTimeoutMillis = -1
			}
		case "static":
			c.join.InstanceID = kmsg.StringPtr(value)
		case "id":
			id = value
		case "group":
			c.join.Group = value
		case "type":
			c.join.ProtocolType = value
		case "topics":
			topics = value
		case "protocols":
			protocols = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
			if len(protocols) == 0 {
				c.join.Protocols = nil
			}
		case "session":
			c.join.SessionTimeoutMillis = millis(value)
		case "rebalance":
			c.join.RebalanceTimeoutMillis = millis(value)
		default:
			t.Fatalf("unknown argument %s", arg)
		}
	}
	if topics != "" || len(protocols) > 0 {
		if topics == "" {
			topics = "t"
		}
		if len(protocols) == 0 {
			protocols = []string{"range"}
		}
		c.say(protocols, topics)
	}
	r := c.join
	r.MemberID = id
	s.c.Join(s.now, ref, group.Client{ID: c.name, Host: "/" + c.name}, &r)
}

// wait lets time pass, and the timers on the way fire.
func (s *groups) wait(d time.Duration) {
	end := s.now.Up + d
	for {
		next, ok := s.c.Next()
		if !ok || next > end {
			break
		}
		s.pass(max(next, s.now.Up))
		s.c.Tick(s.now)
		s.effects()
	}
	s.pass(end)
}

func (s *groups) pass(to time.Duration) {
	s.now.Wall += (to - s.now.Up).Milliseconds()
	s.now.Up = to
}

// settle confirms the oldest append that is held.
func (s *groups) settle(ok bool) {
	e := s.held[0]
	s.held = s.held[1:]
	if ok {
		s.log = append(s.log, e.Records...)
	}
	s.c.Appended(s.now, e.Token, ok)
	s.effects()
}

func name(code int16) string {
	if code == 0 {
		return "ok"
	}
	return kerr.TypedErrorForCode(code).Message
}

// effects prints what happened, lets what was appended last unless it is held, and tells the clients.
func (s *groups) effects() {
	for _, e := range slices.Clone(s.c.Effects()) {
		switch e.Kind {
		case group.Changed:
			c := e.Change
			fmt.Fprintf(s.out, "%s: %s -> %s, generation %d, members %d: %s", c.Group, c.From, c.To, c.Generation, c.Members, c.Reason)
			if s.now.Up != time.Hour {
				fmt.Fprintf(s.out, " (at %s)", s.now.Up-time.Hour)
			}
			s.out.WriteString("\n")
		case group.Given:
			if len(e.Seats) > 0 {
				fmt.Fprintf(s.out, "%s: %s owns %v in generation %d\n", e.Change.Group, e.Member, e.Seats, e.Change.Generation)
			}
		case group.Append:
			for _, r := range e.Records {
				s.out.WriteString("  log: " + entry(r) + "\n")
			}
			if s.hold {
				s.held = append(s.held, e)
				continue
			}
			s.log = append(s.log, e.Records...)
			s.c.Appended(s.now, e.Token, true)
			s.effects()
		case group.Reply:
			fmt.Fprintf(s.out, "  %s <- %s\n", s.refs[e.Ref], s.answer(s.clients[s.refs[e.Ref]], e.Response))
		}
	}
}

func entry(r group.Record) string {
	e, known, err := group.Decode(r)
	switch {
	case err != nil || !known:
		return fmt.Sprint("cannot be read: ", err)
	case e.Offset != nil:
		out := fmt.Sprintf("%s %s/%d=%d", e.Group, e.Topic, e.Partition, e.Offset.Offset)
		if e.Offset.Version == 1 {
			out += fmt.Sprintf(" until %d", e.Offset.ExpireTimestamp)
		}
		return out
	case e.Topic != "":
		return fmt.Sprintf("%s %s/%d is gone", e.Group, e.Topic, e.Partition)
	case e.Metadata == nil:
		return e.Group + " is gone"
	}
	v := e.Metadata
	out := fmt.Sprintf("%s generation %d", e.Group, v.Generation)
	if v.Leader != nil {
		out += fmt.Sprintf(", %s, leader %s", *v.Protocol, *v.Leader)
	}
	for _, m := range v.Members {
		out += fmt.Sprintf(", %s=%q", m.MemberID, m.Assignment)
	}
	return out
}

func (s *groups) answer(c *client, resp kmsg.Response) string {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		if r.ErrorCode != 0 {
			if r.ErrorCode == kerr.MemberIDRequired.Code {
				c.id = r.MemberID
			}
			return fmt.Sprintf("join: %s %q", name(r.ErrorCode), r.MemberID)
		}
		c.id, c.generation = r.MemberID, r.Generation
		out := fmt.Sprintf("join: %s in generation %d, %s, leader %s", r.MemberID, r.Generation, *r.Protocol, r.LeaderID)
		if len(r.Members) > 0 {
			out += " of"
			for _, m := range r.Members {
				out += " " + m.MemberID
			}
		}
		if r.SkipAssignment {
			out += ", skips the assignment"
		}
		return out
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 {
			return "sync: " + name(r.ErrorCode)
		}
		return fmt.Sprintf("sync: %q", r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return "heartbeat: " + name(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		out := "leave: " + name(r.ErrorCode)
		for _, m := range r.Members {
			out += fmt.Sprintf(" %s:%s", *m.InstanceID, name(m.ErrorCode))
		}
		return out
	case *kmsg.OffsetCommitResponse:
		out := "commit:"
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s/%d:%s", t.Topic, p.Partition, name(p.ErrorCode))
			}
		}
		return out
	case *kmsg.OffsetDeleteResponse:
		out := "delete offsets: " + name(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s/%d:%s", t.Topic, p.Partition, name(p.ErrorCode))
			}
		}
		return out
	case *kmsg.DeleteGroupsResponse:
		return fmt.Sprintf("delete: %s %s", r.Groups[0].Group, name(r.Groups[0].ErrorCode))
	}
	return fmt.Sprintf("%T", resp)
}

func (s *groups) describe(id string) {
	d := s.c.Describe(id)
	fmt.Fprintf(s.out, "%s %s %s, %q, %q", name(d.ErrorCode), id, d.State, d.ProtocolType, d.Protocol)
	for _, m := range d.Members {
		fmt.Fprintf(s.out, ", %s=%q", m.MemberID, m.MemberAssignment)
	}
	s.out.WriteString("\n")
}
