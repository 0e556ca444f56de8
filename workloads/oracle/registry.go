package oracle

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// registry is what the coordination service holds, as it traces its transactions: the ground truth of sessions, brokers, topics,
// members and owners (paper section 3.2, design section 6).
type registry struct {
	applied  history.Applied
	sessions map[int64]*session
	brokers  map[string]int64              // id -> session
	topics   map[string]map[int32]string   // topic -> partition -> the first of its replicas
	replicas map[string]map[int32][]string // topic -> partition -> brokers that it is assigned to
	states   map[string][]PartitionState   // of replicated topics, by partition
	members  map[string]map[string]*member // group -> consumer
	owners   map[seat]owner
}

// session is a session of the coordination service that lives.
type session struct {
	id      int64
	timeout time.Duration
	opened  time.Duration
}

// member is a consumer's node. topics is what it subscribes to, nil when its data says nothing that we understand.
type member struct {
	session int64
	topics  map[string]int
}

// owner is an owner node.
type owner struct {
	session  int64
	consumer string
}

func newRegistry() *registry {
	return &registry{
		sessions: map[int64]*session{}, brokers: map[string]int64{}, topics: map[string]map[int32]string{},
		replicas: map[string]map[int32][]string{}, states: map[string][]PartitionState{},
		members: map[string]map[string]*member{}, owners: map[seat]owner{},
	}
}

// change says what a transaction's event changed.
type change uint8

const (
	noChange change = iota
	sessionChange
	brokerChange
	topicChange
	memberChange
	ownerChange
	otherChange // a node of no interest here
)

// observe follows an event. When it concerns one seat or group, that is returned too.
func (r *registry) observe(e *history.Event) (what change, at seat) {
	if e.Kind != history.Traced {
		return noChange, seat{}
	}
	t := &e.Trace
	switch t.Kind {
	case machine.SessionOpened, machine.SessionClosed, machine.SessionExpired:
		if !r.applied.Fresh(history.Who{Machine: e.Machine, Incarnation: e.Incarnation}, t) {
			return noChange, seat{}
		}
		if t.Kind == machine.SessionOpened {
			r.sessions[t.A] = &session{id: t.A, timeout: time.Duration(t.B), opened: e.At}
		} else {
			delete(r.sessions, t.A)
		}
		return sessionChange, seat{}
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		if !r.applied.Fresh(history.Who{Machine: e.Machine, Incarnation: e.Incarnation}, t) {
			return noChange, seat{}
		}
		return r.znode(t)
	}
	return noChange, seat{}
}

func (r *registry) znode(t *machine.Event) (change, seat) {
	gone := t.Kind == machine.ZnodeDeleted
	if at, ok := parseSeatPath(t.Subject, "owners"); ok {
		switch t.Kind {
		case machine.ZnodeCreated:
			r.owners[at] = owner{session: t.A, consumer: t.Detail}
		case machine.ZnodeSet:
			r.owners[at] = owner{session: r.owners[at].session, consumer: t.Detail}
		default:
			delete(r.owners, at)
		}
		return ownerChange, at
	}
	if id, ok := parseName(t.Subject, brokersRoot); ok {
		switch t.Kind {
		case machine.ZnodeCreated:
			r.brokers[id] = t.A
		case machine.ZnodeDeleted:
			delete(r.brokers, id)
		}
		return brokerChange, seat{}
	}
	if name, ok := parseName(t.Subject, topicsRoot); ok {
		if gone {
			delete(r.topics, name)
			delete(r.replicas, name)
			delete(r.states, name)
		} else if p := parseTopic(t.Detail); p != nil {
			r.topics[name], r.replicas[name] = map[int32]string{}, p
			for id, brokers := range p {
				r.topics[name][id] = brokers[0]
			}
		}
		return topicChange, seat{place: place{topic: name}}
	}
	if name, ok := ParseStatePath(t.Subject); ok {
		was := r.states[name]
		delete(r.states, name)
		if s := ParseStates(t.Detail); !gone && s != nil {
			r.states[name] = s
		}
		if !slices.EqualFunc(was, r.states[name], func(a, b PartitionState) bool { return a.Leader == b.Leader }) {
			return topicChange, seat{place: place{topic: name}}
		}
		return otherChange, seat{}
	}
	if group, consumer, ok := parseMemberPath(t.Subject); ok {
		m := r.members[group]
		switch {
		case gone:
			delete(m, consumer)
		case t.Kind == machine.ZnodeCreated:
			if m == nil {
				m = map[string]*member{}
				r.members[group] = m
			}
			m[consumer] = &member{session: t.A, topics: parseSubscription(t.Detail)}
		}
		return memberChange, seat{group: group}
	}
	return otherChange, seat{}
}

// subscribed reports whether some member of the group reads the topic.
func (r *registry) subscribed(group, topic string) bool {
	for _, m := range r.members[group] {
		if m.topics == nil || m.topics[topic] > 0 {
			return true
		}
	}
	return false
}

// leader is the broker that leads a partition, "" when nobody does: the one that the topic's state names, or, where there is one replica, who has it.
func (r *registry) leader(at place) string {
	replicas := r.replicas[at.topic][at.partition]
	if len(replicas) == 0 {
		return ""
	}
	if !r.replicated(at.topic) {
		return replicas[0]
	}
	if s := r.states[at.topic]; int(at.partition) < len(s) && s[at.partition].Leader >= 0 {
		return strconv.Itoa(int(s[at.partition].Leader))
	}
	return ""
}

// replicated tells whether some partition of the topic has several replicas.
func (r *registry) replicated(topic string) bool {
	for _, replicas := range r.replicas[topic] { // order: no matter
		if len(replicas) > 1 {
			return true
		}
	}
	return false
}

// parseTopic reads the brokers of a topic's partitions from the data of its node, nil when it is of another form.
func parseTopic(data string) map[int32][]string {
	var t struct {
		Partitions map[string][]int32 `json:"partitions"`
	}
	if json.Unmarshal([]byte(data), &t) != nil {
		return nil
	}
	parts := map[int32][]string{}
	for name, replicas := range t.Partitions {
		if p, ok := parsePartition(name); ok && len(replicas) > 0 {
			for _, id := range replicas {
				parts[p] = append(parts[p], strconv.Itoa(int(id)))
			}
		}
	}
	return parts
}

// parseSubscription reads topic -> streams from the data of a member's node.
func parseSubscription(data string) map[string]int {
	var s struct {
		Subscription map[string]int `json:"subscription"`
	}
	if json.Unmarshal([]byte(data), &s) != nil {
		return nil
	}
	return s.Subscription
}
