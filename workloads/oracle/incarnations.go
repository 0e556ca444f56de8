package oracle

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Incarnations tells topics apart that had one name, one after the other, so that oracles judge each for itself. The first goes by its name; the second of the name t is t@2 to the oracles (no topic can be called so), and so on.
// It shows them every event with the names replaced. Which topic an event is of is told
//
//   - by the id that it carries: what consumers say of their claims, what coordinators store, requests and answers, acknowledgements, processed records;
//   - of a broker's log, by the id that the broker claimed its directory for last;
//   - of a node in the registry, of Sent, of a producer's retry and of an assignment, by which topic of the name the registry had last. So a record counts as sent to one and may turn up in the next.
//
// A topic's life ends when the registry has it no more. From then on nothing is promised of it, whatever brokers that have not heard of it still do; only that what is processed was sent, with these bytes. In particular it is not promised
//
//   - that a record is in the log, or is ever processed, that was acknowledged by a topic that was deleted before every group had it: its group may have, or not;
//   - that a record that was under way, unacknowledged, when another topic took the name is in one of the two only: the producer sends it again. In each it is at most once, if its producer is idempotent;
//   - anything of the order between what is in the one and what is in the other.
//
// It is promised, and judged, that nothing of the old topic shows in the new one: no record of its log, no offset that was committed in it, no high watermark, no leader epoch, no number of a producer.
//
// Requests that name topics by their names (ListOffsets) are not shown for a name that was used twice: nobody can tell which of the topics the answer is of. A partition that is freed ([Ruins]) stays so in the next topic of the name.
// Who owns which partition (Ownership, Members) is a matter of names: its oracles are shown events as they are.
//
// All oracles of a run share one, which is shown each event before they are. A nil one knows no topic: every name is that of a topic that is there.
type Incarnations struct {
	topics    map[string]*namesakes // by name
	dead      map[string]bool
	held      map[hostedName]string // what the broker's log is of
	observers history.Audience[observer]
	renewed   bool // some name was used twice: until then all events are shown as they are

	event, plain history.Event
	trail        map[[2]string]string // subjects with another name
}

// namesakes are the topics of one name.
type namesakes struct {
	ids  []int64 // in the order of their creation
	last string  // what the last one goes by
}

type hostedName struct{ machine, subject string }

type observer struct {
	history.Observer
	view view
}

type view uint8

const (
	byTopic view = iota // all names replaced
	byLog               // all but those of nodes in the registry
	byName              // none
)

// NewIncarnations knows no topic yet.
func NewIncarnations() *Incarnations {
	return &Incarnations{topics: map[string]*namesakes{}, dead: map[string]bool{}, held: map[hostedName]string{}, trail: map[[2]string]string{}}
}

// recordless is part of an oracle that needs no step of a record ([history.Selective]).
type recordless struct{}

// Needs implements [history.Selective].
func (recordless) Needs() history.Steps { return 0 }

// Attach shows the observer every event, with the names replaced. AttachLogs leaves those of the registry's nodes as they are, AttachNames all.
func (n *Incarnations) Attach(o history.Observer) { n.attach(o, byTopic) }

func (n *Incarnations) attach(o history.Observer, v view) {
	n.observers.Add(observer{o, v}, history.NeedsOf(o))
}

// AttachLogs is described with Attach.
func (n *Incarnations) AttachLogs(o history.Observer) { n.attach(o, byLog) }

// AttachNames is described with Attach.
func (n *Incarnations) AttachNames(o history.Observer) { n.attach(o, byName) }

// BaseTopic is the name of the topic, whatever it goes by.
func BaseTopic(name string) string {
	base, _, _ := strings.Cut(name, "@")
	return base
}

// Last is what the last topic of a name goes by.
func (n *Incarnations) Last(name string) string {
	if n == nil || n.topics[name] == nil {
		return name
	}
	return n.topics[name].last
}

// Of is what the topic with an id (its first eight bytes; 0: the last one of the name) goes by.
func (n *Incarnations) Of(name string, id int64) string {
	if n == nil || !n.renewed || n.topics[name] == nil {
		return name
	}
	if i := slices.Index(n.topics[name].ids, id); i >= 0 {
		return nth(name, i)
	}
	return n.topics[name].last
}

// Dead tells whether the registry has the topic no more.
func (n *Incarnations) Dead(topic string) bool { return n != nil && n.dead[topic] }

// on is what a partition's log on a machine is of.
func (n *Incarnations) on(machine string, p place) place {
	if n == nil {
		return p
	}
	if name := n.held[hostedName{machine, p.String()}]; name != "" {
		p.topic = name
	}
	return p
}

func nth(name string, i int) string {
	if i == 0 {
		return name
	}
	return name + "@" + itoa(int64(i+1))
}

// Observe implements [history.Observer].
func (n *Incarnations) Observe(e *history.Event) {
	if e.Kind == history.Traced {
		n.learn(e)
		if t := &e.Trace; (t.Kind == machine.GroupStored || t.Kind == machine.GroupExpired) && strings.Contains(t.Detail, " ") {
			n.plain = *e
			n.plain.Trace.Detail, _, _ = strings.Cut(t.Detail, " ")
			n.show(e, &n.plain)
			return
		}
	}
	n.show(e, e)
}

// show passes an event on; plain is the event as it is, without the ids that only this looks at.
func (n *Incarnations) show(e, plain *history.Event) {
	if !n.renewed {
		for _, o := range n.observers.Of(e) {
			o.Observe(plain)
		}
		return
	}
	n.event = *plain
	replaced := &n.event
	n.replace(e, replaced)
	for _, o := range n.observers.Of(e) {
		switch {
		case o.view == byName, o.view == byLog && e.Kind == history.Traced && ofNode(e.Trace.Kind):
			o.Observe(plain)
		default:
			o.Observe(replaced)
		}
	}
}

// ofNode tells whether an event is of a node in the registry.
func ofNode(k machine.Kind) bool {
	return k == machine.ZnodeCreated || k == machine.ZnodeSet || k == machine.ZnodeDeleted
}

// learn takes note of topics that come and go, and of which a log is.
func (n *Incarnations) learn(e *history.Event) {
	t := &e.Trace
	switch t.Kind {
	case machine.ZnodeCreated:
		name, ok := parseName(t.Subject, topicsRoot)
		if !ok {
			return
		}
		var node struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal([]byte(t.Detail), &node) // what makes no sense is no id
		all := n.topics[name]
		if all == nil {
			all = &namesakes{}
			n.topics[name] = all
		}
		all.last = nth(name, len(all.ids))
		all.ids = append(all.ids, shortID(node.ID))
		n.renewed = n.renewed || len(all.ids) > 1
	case machine.ZnodeDeleted:
		if name, ok := parseName(t.Subject, topicsRoot); ok {
			n.dead[n.Last(name)] = true
			n.renewed = true
		}
	case machine.LogClaimed:
		if p, ok := parsePlace(t.Subject); ok {
			n.held[hostedName{e.Machine, t.Subject}] = n.Of(p.topic, shortID(t.Detail))
		}
	}
}

// shortID is the first eight bytes of a UUID; 0 when it is none.
func shortID(text string) int64 {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// replace gives the topics in an event the names that they go by; from is the event with its ids.
func (n *Incarnations) replace(from, e *history.Event) {
	switch e.Kind {
	case history.Sent, history.PartitionRuined:
		e.Topic = n.Last(e.Topic)
	case history.Traced:
		n.trace(from, &e.Trace, e.Machine)
	case history.KafkaCalled:
		e.Kafka = n.call(e.Kafka)
	}
}

func (n *Incarnations) trace(from *history.Event, t *machine.Event, on string) {
	switch t.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		t.Subject = n.path(t.Subject)
	case machine.LogClaimed, machine.LogOpened, machine.LogAppended, machine.LogVisible, machine.LogRolled, machine.LogDeleted, machine.LogTruncated, machine.LogCompacted, machine.LogFailed,
		machine.LeaderBegan, machine.HighWatermark, machine.StateProposed:
		if name := n.held[hostedName{on, t.Subject}]; name != "" {
			t.Subject = n.renamed(t.Subject, name)
		}
	case machine.TopicRemoved:
		t.Subject = n.Of(t.Subject, shortID(t.Detail))
	case machine.StateDecided, machine.ProducerRetry:
		if p, ok := parsePlace(t.Subject); ok {
			t.Subject = n.renamed(t.Subject, n.Last(p.topic))
		}
	case machine.ConsumerClaimed, machine.ConsumerReleased, machine.ConsumerHanded, machine.ConsumerCommitted, machine.ConsumerReset:
		t.Subject = n.seat(t.Subject, t.C)
	case machine.GroupGiven:
		t.Subject = n.seat(t.Subject, 0)
	case machine.GroupStored, machine.GroupExpired:
		_, id, _ := strings.Cut(from.Trace.Detail, " ")
		t.Subject = n.seat(t.Subject, shortID(id))
	}
}

// renamed gives the topic of "t/p" a name.
func (n *Incarnations) renamed(subject, name string) string {
	key := [2]string{subject, name}
	s, known := n.trail[key]
	if !known {
		_, partition, _ := strings.Cut(subject, "/")
		s = name + "/" + partition
		n.trail[key] = s
	}
	return s
}

// seat gives the topic of "g/t/p" the name of the one with an id.
func (n *Incarnations) seat(subject string, id int64) string {
	at, ok := parseSeat(subject)
	if !ok {
		return subject
	}
	key := [2]string{subject, n.Of(at.topic, id)}
	s, known := n.trail[key]
	if !known {
		at.topic = key[1]
		s = at.String()
		n.trail[key] = s
	}
	return s
}

// path gives the topic in a path of the registry the name of the last one.
func (n *Incarnations) path(path string) string {
	if rest, ok := strings.CutPrefix(path, topicsRoot); ok {
		name, rest, _ := strings.Cut(rest, "/")
		if rest != "" {
			rest = "/" + rest
		}
		return topicsRoot + n.Last(name) + rest
	}
	for _, kind := range [...]string{"owners", "offsets"} {
		if at, ok := parseSeatPath(path, kind); ok {
			return consumersRoot + at.group + "/" + kind + "/" + n.Last(at.topic) + "/" + itoa(int64(at.partition))
		}
	}
	return path
}

// used tells whether a name was used for another topic than the one that is there.
func (n *Incarnations) used(name string) bool {
	all := n.topics[name]
	return all != nil && (len(all.ids) > 1 || n.dead[all.last])
}

// call gives the topics in a request and its answer the names that they go by.
func (n *Incarnations) call(c *history.KafkaCall) *history.KafkaCall {
	out := *c
	switch req := c.Req.(type) {
	case *kmsg.ProduceRequest:
		r := *req
		r.Topics = named(n, req.Topics, func(t *kmsg.ProduceRequestTopic) (*string, [16]byte) { return &t.Topic, t.TopicID })
		out.Req = &r
	case *kmsg.FetchRequest:
		r := *req
		r.Topics = named(n, req.Topics, func(t *kmsg.FetchRequestTopic) (*string, [16]byte) { return &t.Topic, t.TopicID })
		out.Req = &r
	case *kmsg.OffsetCommitRequest:
		r := *req
		r.Topics = named(n, req.Topics, func(t *kmsg.OffsetCommitRequestTopic) (*string, [16]byte) { return &t.Topic, t.TopicID })
		out.Req = &r
	case *kmsg.ListOffsetsRequest:
		r := *req
		r.Topics = slices.DeleteFunc(slices.Clone(req.Topics), func(t kmsg.ListOffsetsRequestTopic) bool { return n.used(t.Topic) })
		out.Req = &r
	}
	switch resp := c.Resp.(type) {
	case *kmsg.ProduceResponse:
		r := *resp
		r.Topics = named(n, resp.Topics, func(t *kmsg.ProduceResponseTopic) (*string, [16]byte) { return &t.Topic, t.TopicID })
		out.Resp = &r
	case *kmsg.FetchResponse:
		r := *resp
		r.Topics = named(n, resp.Topics, func(t *kmsg.FetchResponseTopic) (*string, [16]byte) { return &t.Topic, t.TopicID })
		out.Resp = &r
	case *kmsg.OffsetCommitResponse:
		r := *resp
		r.Topics = named(n, resp.Topics, func(t *kmsg.OffsetCommitResponseTopic) (*string, [16]byte) { return &t.Topic, t.TopicID })
		out.Resp = &r
	case *kmsg.OffsetFetchResponse:
		r := *resp
		r.Groups = slices.Clone(resp.Groups)
		for i := range r.Groups {
			g := &r.Groups[i]
			g.Topics = named(n, g.Topics, func(t *kmsg.OffsetFetchResponseGroupTopic) (*string, [16]byte) { return &t.Topic, t.TopicID })
		}
		out.Resp = &r
	case *kmsg.ListOffsetsResponse:
		r := *resp
		r.Topics = slices.DeleteFunc(slices.Clone(resp.Topics), func(t kmsg.ListOffsetsResponseTopic) bool { return n.used(t.Topic) })
		out.Resp = &r
	}
	return &out
}

// named is a copy of a list of topics with the names that they go by; of finds the name and the id in one.
func named[T any](n *Incarnations, topics []T, of func(*T) (name *string, id [16]byte)) []T {
	out := slices.Clone(topics)
	for i := range out {
		name, id := of(&out[i])
		*name = n.Of(*name, int64(binary.BigEndian.Uint64(id[:])))
	}
	return out
}
