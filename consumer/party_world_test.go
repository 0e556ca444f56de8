package consumer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	brokerclient "faultline/broker/client"
	"faultline/consumer"
	"faultline/consumer/assign"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// partyWorld is a world whose members are those of a coordinator group. What the members' listeners are told, and every hand-over, is held at once to what a group promises: a
// partition is assigned to nobody as long as another was not told that it is revoked or lost, and only who has it is handed its records, in order.
type partyWorld struct {
	*world
	members map[string]*partyMember
	holder  map[string]string // "t/0" -> the member whose application was told last that it has it
	gone    map[string]bool   // claims that were released and not claimed again: "member t/0"
	away    map[string]bool   // members that cannot be told, for they stand still or are cut off
	log     []note            // what the listeners were told, of all members
}

// note is one call of a listener.
type note struct {
	at     time.Duration
	member string
	what   string // "assigned t/0 t/1"
}

type partyMember struct {
	x        *partyWorld
	c        *virtual.Computer
	g        *consumer.Group
	m        machine.Machine
	work     time.Duration // that the application takes for each record
	handed   []handed
	ended    []error // of the streams
	awaiting bool    // a stream's Next is under way
}

type handed struct {
	at     time.Duration
	part   string
	offset int64
}

func newPartyWorld(t *testing.T, seed uint64, brokers int) *partyWorld {
	x := &partyWorld{world: newWorld(t, seed, brokers), members: map[string]*partyMember{}, holder: map[string]string{}, gone: map[string]bool{}, away: map[string]bool{}}
	x.c.OnEvent = func(c *virtual.Computer, e *machine.Event) {
		part := strings.TrimPrefix(e.Subject, "g/")
		switch e.Kind {
		case machine.ConsumerClaimed:
			delete(x.gone, e.Detail+" "+part)
		case machine.ConsumerReleased:
			x.gone[e.Detail+" "+part] = true
		case machine.ConsumerHanded:
			if x.holder[part] != e.Detail || x.gone[e.Detail+" "+part] {
				x.fault("%s is handed %s@%d, but %q was told that it has it", e.Detail, part, e.A, x.holder[part])
			}
			m := x.members[e.Detail]
			m.handed = append(m.handed, handed{x.w.Now(), part, e.A})
		}
	}
	x.up()
	return x
}

// told notes a call of a listener.
func (m *partyMember) told(what string, parts []assign.Partition) {
	x, name := m.x, m.c.Name()
	x.log = append(x.log, note{x.w.Now(), name, what + places(parts)})
	for _, p := range parts {
		place := fmt.Sprintf("%s/%d", p.Topic, p.Partition)
		holder := x.holder[place]
		switch {
		case what == "assigned":
			if holder != "" && !x.away[holder] {
				x.fault("%s is assigned %s, but %s was not told that it has it no more", name, place, holder)
			}
			x.holder[place] = name
		case holder == name:
			delete(x.holder, place)
		case what == "revoked":
			x.fault("%s is revoked from %s, but %q has it: it is lost", place, name, holder)
		}
	}
}

func places(parts []assign.Partition) (text string) {
	for _, p := range parts {
		text += fmt.Sprintf(" %s/%d", p.Topic, p.Partition)
	}
	return text
}

// join boots a member of group g that reads the topic t with one stream.
func (x *partyWorld) join(name string, tune ...func(*consumer.Config)) *partyMember {
	m := &partyMember{x: x, c: x.c.Add(name)}
	x.members[name] = m
	m.boot(tune...)
	return m
}

// boot starts the member's process, anew when it ended.
func (m *partyMember) boot(tune ...func(*consumer.Config)) {
	x := m.x
	m.c.Boot(func(mc machine.Machine) error {
		cfg := consumer.Config{
			Group: "g", ID: m.c.Name(), Protocol: consumer.Coordinator, Brokers: x.addresses(), Topics: map[string]int{"t": 1},
			SessionTimeout: x.session, RebalanceTimeout: 4 * time.Second, HeartbeatInterval: 300 * time.Millisecond, MetadataMaxAge: time.Second,
			AutoCommit: true, CommitInterval: 300 * time.Millisecond, RequestTimeout: 2 * time.Second, MaxWait: 500 * time.Millisecond,
			Listener: consumer.Listener{
				Assigned: func(p []assign.Partition) { m.told("assigned", p) },
				Revoked:  func(p []assign.Partition) { m.told("revoked", p) },
				Lost:     func(p []assign.Partition) { m.told("lost", p) },
			},
		}
		for _, f := range tune {
			f(&cfg)
		}
		g, err := consumer.Join(mc, cfg)
		require.NoError(x.t, err)
		m.g, m.m = g, mc
		for _, s := range g.Streams("t") {
			mc.Go("app", func() {
				for {
					m.awaiting = true
					msg, err := s.Next()
					m.awaiting = false
					if err != nil {
						m.ended = append(m.ended, err)
						return
					}
					x.got[string(msg.Value)]++
					x.place(msg.Topic, msg.Partition, msg.Offset, string(msg.Value))
					if m.work > 0 {
						mc.Sleep(m.work)
					}
				}
			})
		}
		mc.NewCond("for ever", lockOf(mc)).Wait()
		return nil
	})
}

// does runs something in a task of the member's process, to its end.
func (m *partyMember) does(within time.Duration, what string, story func() error) {
	m.x.t.Helper()
	done, err := false, error(nil)
	m.c.Go(what, func() { err = story(); done = true })
	m.x.until(within, what, func() bool { return done })
	require.NoError(m.x.t, err, what)
}

// owns is what the member's application was told that it has.
func (m *partyMember) owns() (parts []string) {
	for p, holder := range m.x.holder {
		if holder == m.c.Name() {
			parts = append(parts, p)
		}
	}
	slices.Sort(parts)
	return parts
}

// of are the hand-overs of a partition after a time.
func (m *partyMember) of(part string, after time.Duration) (list []handed) {
	for _, h := range m.handed {
		if h.part == part && h.at > after {
			list = append(list, h)
		}
	}
	return list
}

// since are the notes after a time, as "member assigned t/0".
func (x *partyWorld) since(after time.Duration) (list []string) {
	for _, n := range x.log {
		if n.at > after {
			list = append(list, n.member+" "+n.what)
		}
	}
	return list
}

// settled waits until the members own this many partitions each.
func (x *partyWorld) settled(within time.Duration, want map[*partyMember]int) {
	x.t.Helper()
	x.until(within, "settled", func() bool {
		for m, n := range want {
			if len(m.owns()) != n {
				return false
			}
		}
		return true
	})
}

// grow gives a topic more partitions.
func (x *partyWorld) grow(topic string, total int32) {
	x.t.Helper()
	done := false
	x.on(fmt.Sprintf("admin-%s-%d", topic, total), func(m machine.Machine) {
		c := brokerclient.NewCluster(m, x.addresses(), brokerclient.Config{})
		for !done {
			req := kmsg.NewPtrCreatePartitionsRequest()
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = topic, total
			req.TimeoutMillis, req.Topics = 5000, append(req.Topics, rt)
			if conn, err := c.Any(); err == nil {
				if resp, err := conn.Request(req); err == nil {
					done = resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode == 0
				}
			}
			m.Sleep(50 * time.Millisecond)
		}
		c.Close()
	})
	x.until(5*time.Second, "grown", func() bool { return done })
}

// crash ends a member's process; what it had is nobody's until the group notices.
func (m *partyMember) crash() {
	m.c.Crash()
	for p, holder := range m.x.holder {
		if holder == m.c.Name() {
			delete(m.x.holder, p)
		}
	}
}
