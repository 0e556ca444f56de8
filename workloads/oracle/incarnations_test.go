package oracle

import (
	"fmt"
	"testing"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	oldTopic = "0102030405060708-1111111111111111"
	newTopic = "1112131415161718-2222222222222222"
)

// renewal is a run in which topic t was written, read by group g and committed up to offset 3, then deleted and made again.
type renewal struct {
	names    *Incarnations
	delivery *Delivery
	offsets  *Offsets
	rec      *history.Recorder
	now      time.Duration
	producer history.Who
	consumer history.Who
	broker   history.Who
	zxid     int64
}

func renewed() *renewal {
	x := &renewal{names: NewIncarnations(), producer: history.Who{Machine: "p", Incarnation: 1}, consumer: history.Who{Machine: "c", Incarnation: 1}, broker: history.Who{Machine: "b", Incarnation: 1}}
	p := &Promise{Incarnations: x.names, Producers: []Producer{{Name: "p", Acks: -1, Ordered: true}}, Groups: []Group{{Name: "g", Topics: []string{"t"}}}, Topics: []Topic{{Name: "t", Partitions: 1}},
		Coord: []string{"z"}, Brokers: []string{"b"}}
	x.delivery, x.offsets = NewDelivery(p, nil), NewOffsets(p, nil)
	x.rec = history.NewRecorder(func() time.Duration { x.now += time.Millisecond; return x.now })
	x.rec.Attach(x.names)
	x.names.Attach(x.delivery)
	x.names.Attach(x.offsets)
	x.make(oldTopic)
	x.claim(oldTopic, 0)
	for i := range int64(3) {
		x.put(oldTopic, i, i)
		x.read(oldTopic, i, i)
	}
	x.node(machine.ZnodeCreated, "/consumers/g/offsets/t/0", "3")
	return x
}

func (x *renewal) node(kind machine.Kind, path, data string) {
	x.zxid++
	x.rec.Traced(history.Who{Machine: "z", Incarnation: 1}, machine.Event{Kind: kind, Subject: path, Detail: data, B: x.zxid})
}

func (x *renewal) make(id string) {
	x.node(machine.ZnodeCreated, "/brokers/topics/t", fmt.Sprintf(`{"id":%q,"partitions":{"0":[1]}}`, id))
	x.tell(machine.Event{Kind: machine.LogClaimed, Subject: "t/0", Detail: id})
	x.tell(machine.Event{Kind: machine.LogOpened, Subject: "t/0"})
}

// replace deletes the topic and makes the next one.
func (x *renewal) replace(forget bool) {
	x.node(machine.ZnodeDeleted, "/brokers/topics/t", "")
	if forget {
		x.node(machine.ZnodeDeleted, "/consumers/g/offsets/t/0", "")
	}
	x.node(machine.ZnodeDeleted, "/consumers/g/owners/t/0", "")
	x.rec.Traced(x.consumer, machine.Event{Kind: machine.ConsumerReleased, Subject: "g/t/0", Detail: "c", C: shortID(oldTopic)})
	x.make(newTopic)
}

func (x *renewal) tell(e machine.Event) { x.rec.Traced(x.broker, e) }

func (x *renewal) claim(id string, at int64) {
	x.node(machine.ZnodeCreated, "/consumers/g/owners/t/0", "c")
	x.rec.Traced(x.consumer, machine.Event{Kind: machine.ConsumerClaimed, Subject: "g/t/0", Detail: "c", A: at, C: shortID(id)})
}

// put has a record, whose source knows it by a number, acknowledged at an offset.
func (x *renewal) put(id string, seq, offset int64) {
	x.rec.Sent(x.producer, history.NewID(0, seq), "p", "t", -1, 0, uint64(seq))
	x.tell(machine.Event{Kind: machine.LogAppended, Subject: "t/0", A: offset, B: offset + 1})
	x.tell(machine.Event{Kind: machine.LogVisible, Subject: "t/0", A: offset + 1})
	x.rec.Acked(x.producer, history.NewID(0, seq), x.names.Of("t", shortID(id)), 0, offset)
}

func (x *renewal) read(id string, seq, offset int64) {
	x.rec.Traced(x.consumer, machine.Event{Kind: machine.ConsumerHanded, Subject: "g/t/0", Detail: "c", A: offset, C: shortID(id)})
	x.rec.Processed(x.consumer, "g", "c", x.names.Of("t", shortID(id)), 0, offset, history.NewID(0, seq), uint64(seq))
}

func (x *renewal) verdict() (codes []string) {
	end := End{At: x.now + time.Second}
	for _, o := range []Oracle{x.delivery, x.offsets} {
		o.Finish(end)
		for _, v := range o.Violations() {
			codes = append(codes, v.Invariant)
		}
	}
	return codes
}

func TestTopicsOfOneNameAreJudgedEachForItself(t *testing.T) {
	for name, c := range map[string]struct {
		then func(x *renewal)
		want []string
	}{
		"all is well": {then: func(x *renewal) {
			x.replace(true)
			x.claim(newTopic, 0)
			x.put(newTopic, 3, 0)
			x.read(newTopic, 3, 0)
			x.node(machine.ZnodeCreated, "/consumers/g/offsets/t/0", "1")
		}},
		"a record under way turns up in both": {then: func(x *renewal) {
			x.rec.Sent(x.producer, history.NewID(0, 3), "p", "t", -1, 0, 3)
			x.tell(machine.Event{Kind: machine.LogVisible, Subject: "t/0", A: 4})
			x.read(oldTopic, 3, 3)
			x.replace(true)
			x.claim(newTopic, 0)
			x.tell(machine.Event{Kind: machine.LogVisible, Subject: "t/0", A: 1})
			x.rec.Acked(x.producer, history.NewID(0, 3), x.names.Of("t", shortID(newTopic)), 0, 0)
			x.read(newTopic, 3, 0)
		}},
		"nothing is owed of the old one": {then: func(x *renewal) {
			x.put(oldTopic, 3, 3)
			x.replace(true)
			x.read(oldTopic, 3, 3) // by a consumer that has not heard
		}},
		"the old one's offset is taken for the new one's": {then: func(x *renewal) {
			x.replace(false)
			x.put(newTopic, 3, 0)
			x.claim(newTopic, 3)
		}, want: []string{Deliver}},
		"the new one's record is skipped": {then: func(x *renewal) {
			x.replace(true)
			x.put(newTopic, 3, 0)
			x.claim(newTopic, 0)
		}, want: []string{Deliver}},
		"an offset is committed in the new one that is the old one's": {then: func(x *renewal) {
			x.replace(true)
			x.claim(newTopic, 0)
			x.put(newTopic, 3, 0)
			x.node(machine.ZnodeCreated, "/consumers/g/offsets/t/0", "3")
			x.read(newTopic, 3, 0)
		}, want: []string{CommitP}},
		"the old one's record is in the new one": {then: func(x *renewal) {
			x.put(oldTopic, 3, 3)
			x.replace(true)
			x.claim(newTopic, 0)
			x.tell(machine.Event{Kind: machine.LogVisible, Subject: "t/0", A: 1})
			x.read(newTopic, 3, 0)
		}, want: []string{Deliver}},
	} {
		t.Run(name, func(t *testing.T) {
			x := renewed()
			c.then(x)
			require.Equal(t, c.want, x.verdict(), "%v %v", x.delivery.Violations(), x.offsets.Violations())
		})
	}
}

func TestIncarnationsFindTheTopicByItsID(t *testing.T) {
	x := renewed()
	var seen []history.Event
	x.names.Attach(observe(func(e *history.Event) { seen = append(seen, *e) }))
	var plain []history.Event
	x.names.AttachNames(observe(func(e *history.Event) { plain = append(plain, *e) }))
	last := func() *history.Event { return &seen[len(seen)-1] }

	x.tell(machine.Event{Kind: machine.GroupStored, Subject: "g/t/0", Detail: "m " + oldTopic, A: 3})
	require.Equal(t, "g/t/0", last().Trace.Subject)
	require.Equal(t, "m", last().Trace.Detail)
	x.replace(true)
	x.tell(machine.Event{Kind: machine.GroupStored, Subject: "g/t/0", Detail: "m " + oldTopic, A: 3})
	require.Equal(t, "g/t/0", last().Trace.Subject)
	x.tell(machine.Event{Kind: machine.GroupStored, Subject: "g/t/0", Detail: " " + newTopic, A: 3})
	require.Equal(t, "g/t@2/0", last().Trace.Subject)
	require.Equal(t, "", last().Trace.Detail)
	require.Equal(t, "g/t/0", plain[len(plain)-1].Trace.Subject)
	x.tell(machine.Event{Kind: machine.LogAppended, Subject: "t/0", B: 1})
	require.Equal(t, "t@2/0", last().Trace.Subject)
	x.rec.Traced(history.Who{Machine: "b2", Incarnation: 1}, machine.Event{Kind: machine.LogClaimed, Subject: "t/0", Detail: oldTopic})
	x.rec.Traced(history.Who{Machine: "b2", Incarnation: 1}, machine.Event{Kind: machine.LogAppended, Subject: "t/0", B: 1})
	require.Equal(t, "t/0", last().Trace.Subject)
	x.node(machine.ZnodeSet, "/brokers/topics/t/state", "{}")
	require.Equal(t, "/brokers/topics/t@2/state", last().Trace.Subject)
	x.node(machine.ZnodeSet, "/consumers/g/offsets/t/0", "1")
	require.Equal(t, "/consumers/g/offsets/t@2/0", last().Trace.Subject)
	x.rec.Sent(x.producer, history.NewID(0, 9), "p", "t", -1, 0, 1)
	require.Equal(t, "t@2", last().Topic)

	req, resp := kmsg.NewPtrFetchRequest(), kmsg.NewPtrFetchResponse()
	for _, id := range []string{oldTopic, newTopic} {
		a, b := kmsg.NewFetchRequestTopic(), kmsg.NewFetchResponseTopic()
		a.Topic, b.Topic = "t", "t"
		a.TopicID, b.TopicID = bytesOf(shortID(id)), bytesOf(shortID(id))
		req.Topics, resp.Topics = append(req.Topics, a), append(resp.Topics, b)
	}
	x.rec.KafkaCalled(x.consumer, &history.KafkaCall{Req: req, Resp: resp})
	require.Equal(t, "t", seen[len(seen)-1].Kafka.Resp.(*kmsg.FetchResponse).Topics[0].Topic)
	require.Equal(t, "t@2", seen[len(seen)-1].Kafka.Resp.(*kmsg.FetchResponse).Topics[1].Topic)
	require.Equal(t, "t@2", seen[len(seen)-1].Kafka.Req.(*kmsg.FetchRequest).Topics[1].Topic)
	require.Equal(t, "t", resp.Topics[1].Topic, "the answer itself stays as it is")
	require.Equal(t, "t", BaseTopic("t@2"))
	require.True(t, x.names.Dead("t"))
	require.False(t, x.names.Dead("t@2"))
}

type observe func(e *history.Event)

func (fn observe) Observe(e *history.Event) { fn(e) }

func bytesOf(short int64) (id [16]byte) {
	for i := range 8 {
		id[i] = byte(short >> (56 - 8*i))
	}
	return id
}
