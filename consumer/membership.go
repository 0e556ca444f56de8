package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	coord "faultline/coord/client"
)

// membership is all that the division of partitions depends on, as read from the registries.
type membership struct {
	brokers []brokerState // sorted by id
	topics  []topicState  // those that this member subscribes to, sorted
	members []peer        // sorted by id
}

// brokerState is a broker that is up. A broker that went and came back has another czxid.
type brokerState struct {
	id, addr string
	czxid    int64
}

type topicState struct {
	name, id string // id: tells a topic from one deleted before, of the same name
	parts    []placement
}

type peer struct {
	id     string
	topics []subscribed // sorted by topic
}

type subscribed struct {
	topic   string
	streams int
}

func (a *membership) equal(b *membership) bool {
	return a != nil && b != nil && slices.Equal(a.brokers, b.brokers) &&
		slices.EqualFunc(a.topics, b.topics, func(x, y topicState) bool {
			return x.name == y.name && x.id == y.id && slices.Equal(x.parts, y.parts)
		}) &&
		slices.EqualFunc(a.members, b.members, func(x, y peer) bool {
			return x.id == y.id && slices.Equal(x.topics, y.topics)
		})
}

func (a *membership) has(id string) bool {
	return slices.ContainsFunc(a.members, func(m peer) bool { return m.id == id })
}

func (a *membership) broker(id string) (brokerState, bool) {
	for _, b := range a.brokers {
		if b.id == id {
			return b, true
		}
	}
	return brokerState{}, false
}

// task is one partition that a member is to own.
type task struct {
	topic, id string
	partition int32
	stream    int
	broker    brokerState
}

// divide gives the partitions that fall to the member, in the order in which they are claimed. Available are the partitions whose
// broker is up.
func (a *membership) divide(id string) []task {
	var tasks []task
	for _, t := range a.topics {
		var available []int32
		leaders := map[int32]brokerState{}
		for _, p := range t.parts {
			if b, up := a.broker(p.leader); up {
				available = append(available, p.partition)
				leaders[p.partition] = b
			}
		}
		members := map[string]int{}
		for _, m := range a.members {
			for _, s := range m.topics {
				if s.topic == t.name {
					members[m.id] = s.streams
				}
			}
		}
		for _, share := range sharesOf(available, members, id) {
			for _, p := range share.partitions {
				tasks = append(tasks, task{t.name, t.id, p, share.stream, leaders[p]})
			}
		}
	}
	return tasks
}

// readMembership reads the registries and leaves a watch on everything that the result depends on, so that no later change goes
// unseen: also on lists that are empty now, and on topics that do not exist yet. A registration never changes, it only comes and goes, and that the list tells. A node that vanishes while it is read counts as gone.
func (g *Group) readMembership(s *session) (*membership, error) {
	brokers, left, err := s.brokers.Read()
	if err != nil {
		return nil, err
	}
	if left > 0 {
		g.m.Mark("mark/consumer/broker-left-while-listed")
	}
	now := &membership{brokers: brokers}
	for _, name := range g.topics {
		t, err := s.readTopic(name)
		if err != nil {
			return nil, err
		}
		now.topics = append(now.topics, t)
	}
	if now.members, left, err = s.members.Read(); err != nil {
		return nil, err
	}
	if left > 0 {
		g.m.Mark("mark/consumer/member-left-while-listed")
	}
	if g.m.Failpoint("fault/consumer/read-members") {
		return nil, errMisfortune
	}
	return now, nil
}

// topicNodes is a topic as its nodes told it, with what was in them: it is decoded again only when that changed.
type topicNodes struct {
	node, state []byte // nil: not known
	id          string
	parts       []placement // never changed in place: memberships have them
	replicated  bool
}

// readTopic reads a topic's node. One that does not exist has no partitions, and a watch waits for it.
func (s *session) readTopic(name string) (topicState, error) {
	path := topicsPath + "/" + name
	for {
		data, _, err := s.client.Get(path, true)
		if err == nil {
			t := s.topics[name]
			if t.node == nil || !bytes.Equal(t.node, data) {
				t = topicNodes{node: data}
				t.id, t.parts, t.replicated, err = decodeTopic(data)
			}
			if err == nil && t.replicated {
				err = s.readLeaders(path+"/state", &t)
			}
			if err != nil {
				return topicState{}, fmt.Errorf("%s: %w", path, err)
			}
			s.topics[name] = t
			return topicState{name, t.id, t.parts}, nil
		}
		if !errors.Is(err, coord.ErrNoNode) {
			return topicState{}, err
		}
		if _, found, err := s.client.Exists(path, true); err != nil || !found {
			s.g.m.Mark("mark/consumer/topic-not-there")
			return topicState{name: name}, err
		}
	}
}

// readLeaders reads who leads the partitions of a replicated topic. Without its state nobody does, and a watch waits for it.
func (s *session) readLeaders(path string, t *topicNodes) error {
	for {
		state, _, err := s.client.Get(path, true)
		if err == nil {
			if t.state != nil && bytes.Equal(t.state, state) {
				return nil
			}
			t.state, t.parts = state, slices.Clone(t.parts)
			return decodeLeaders(state, t.id, t.parts)
		}
		if !errors.Is(err, coord.ErrNoNode) {
			return err
		}
		if _, found, err := s.client.Exists(path, true); err != nil || !found {
			t.state, t.parts = nil, slices.Clone(t.parts)
			return errors.Join(err, decodeLeaders([]byte("{}"), t.id, t.parts))
		}
	}
}
