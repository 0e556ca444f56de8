package oracle

import (
	"fmt"
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"

	"pgregory.net/rapid"
)

// tiny is the smallest log system that keeps every promise: one broker, one topic, a registry, members of one group. What it does next is
// drawn; it is a plain sequential program, without any of the code under test, that tells a recorder what happens.
type tiny struct {
	t     *rapid.T
	rec   *history.Recorder
	now   time.Duration
	p     *Promise
	parts []*tinyLog
	prods []int64 // next sequence number of each producer
	cons  []*tinyConsumer
	next  int64 // session
	zxid  int64
	inc   int // of the broker
	alive map[int64]*tinyConsumer
}

type tinyLog struct {
	topic          string
	n              int32
	ids            []history.ID // by offset
	start, visible int64
	owner          *tinyConsumer
	committed      int64
	waiting        []tinySend // appended, not acked yet
}

type tinySend struct {
	id     history.ID
	offset int64
}

type tinyConsumer struct {
	name    string
	inc     int
	up      bool
	session int64
	died    time.Duration // when its process was gone while its session lived
	claims  map[*tinyLog]*tinyClaim
}

type tinyClaim struct {
	position  int64   // next to hand over
	handed    []int64 // not processed yet
	processed int64   // commit this
	fixed     bool    // the position is known
}

const tinyTimeout = 6 * time.Second

var tinyBroker = history.Who{Machine: "b1", Incarnation: 1}

func newTiny(t *rapid.T, observer history.Observer) *tiny {
	p := calmly()
	p.Groups[0].CommitWithin = 5 * time.Second
	if rapid.Bool().Draw(t, "acks=1") {
		acks(1)(p)
	}
	if rapid.IntRange(0, 3).Draw(t, "largest") == 0 {
		largest(p)
	}
	w := &tiny{t: t, p: p, next: 10, inc: 1, alive: map[int64]*tinyConsumer{}}
	w.rec = history.NewRecorder(func() time.Duration { return w.now })
	w.rec.Attach(observer)
	w.prods = make([]int64, rapid.IntRange(1, 2).Draw(t, "producers"))
	topic := ""
	for i := range rapid.IntRange(1, 3).Draw(t, "partitions") {
		w.parts = append(w.parts, &tinyLog{topic: "t", n: int32(i), committed: none})
		topic += fmt.Sprintf(`,"%d":[1]`, i)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "consumers") {
		w.cons = append(w.cons, &tinyConsumer{name: fmt.Sprintf("c%d", i+1), claims: map[*tinyLog]*tinyClaim{}})
	}
	w.rec.PhaseBegan(history.Load)
	w.rec.FaultInjected(1, history.Fault{}, "whatever the steps do") // so nobody must hurry
	w.rec.MachineStarted(history.Who{Machine: "coord", Incarnation: 1})
	w.rec.MachineStarted(tinyBroker)
	w.coord(machine.SessionOpened, "", "", 1, int64(tinyTimeout))
	w.coord(machine.ZnodeCreated, "/brokers/ids/1", "{}", 1, 0)
	w.trace(w.broker(), machine.BrokerUp, "", "", 1, 0)
	w.coord(machine.ZnodeCreated, "/brokers/topics/t", `{"partitions":{`+topic[1:]+`}}`, 0, 0)
	for _, l := range w.parts {
		w.trace(w.broker(), machine.LogOpened, l.name(), "", 0, 0)
	}
	return w
}

func (l *tinyLog) name() string         { return fmt.Sprintf("t/%d", l.n) }
func (l *tinyLog) path(k string) string { return fmt.Sprintf("/consumers/g/%s/t/%d", k, l.n) }
func (l *tinyLog) end() int64           { return int64(len(l.ids)) }

func (w *tiny) broker() history.Who { return history.Who{Machine: "b1", Incarnation: w.inc} }

func (w *tiny) trace(who history.Who, kind machine.Kind, subject, detail string, a, b int64) {
	w.rec.Traced(who, machine.Event{Kind: kind, Subject: subject, Detail: detail, A: a, B: b})
}

// coord traces an event of a transaction of its own.
func (w *tiny) coord(kind machine.Kind, subject, detail string, a, b int64) {
	w.zxid++
	e := machine.Event{Kind: kind, Subject: subject, Detail: detail, A: a, B: b}
	switch kind {
	case machine.SessionOpened, machine.SessionClosed, machine.SessionExpired:
		e.C = w.zxid
	default:
		e.B = w.zxid
	}
	w.rec.Traced(history.Who{Machine: "coord", Incarnation: 1}, e)
}

func (w *tiny) draw(n int, what string) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

// step does one thing, if it can be done.
func (w *tiny) step() {
	w.now += time.Duration(w.draw(1000, "ms")) * time.Millisecond
	for _, id := range sortedKeys(w.alive) {
		if c := w.alive[id]; c.session != id || !c.up {
			if w.now > c.died+tinyTimeout {
				w.expire(id)
			}
		}
	}
	l := w.parts[w.draw(len(w.parts), "partition")]
	c := w.cons[w.draw(len(w.cons), "consumer")]
	switch w.draw(16, "step") {
	case 0, 1, 2:
		w.produce(l)
	case 3:
		w.flush(l)
	case 4:
		w.join(c)
	case 5:
		w.claim(c, l)
	case 6, 7, 8:
		w.hand(c, l)
	case 9, 10:
		w.process(c, l)
	case 11:
		w.commit(c, l)
	case 12:
		w.release(c, l)
	case 13:
		w.crash(c)
	case 14:
		if w.draw(3, "which") == 0 {
			w.retain(l)
		}
	case 15:
		if w.draw(4, "which") == 0 {
			w.powerLoss()
		}
	}
}

func sortedKeys(m map[int64]*tinyConsumer) []int64 {
	var keys []int64
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *tiny) produce(l *tinyLog) {
	source := w.draw(len(w.prods), "producer")
	id := history.NewID(source, w.prods[source])
	w.prods[source]++
	who := history.Who{Machine: producerOf(id), Incarnation: 1}
	w.rec.Sent(who, id, producerOf(id), "t", none, 0, uint64(id)+1)
	outcome := w.draw(8, "outcome")
	if outcome == 0 {
		w.rec.Failed(who, id, none, "no")
		return
	}
	if outcome == 1 {
		w.rec.Unknown(who, id, none, "lost on the way there")
		return
	}
	copies := 1
	if outcome == 2 {
		copies = 2 // the first answer was lost, the batch sent again
	}
	for i := range copies {
		if i > 0 {
			w.trace(who, machine.ProducerRetry, l.name(), "the answer was lost", 1, 0)
		}
		l.ids = append(l.ids, id)
		w.trace(w.broker(), machine.LogAppended, l.name(), "", l.end()-1, l.end())
	}
	switch {
	case outcome == 3:
		w.rec.Unknown(who, id, none, "lost on the way back")
	case w.p.Producers[0].Acks < 0:
		l.waiting = append(l.waiting, tinySend{id, l.end() - 1})
	default:
		w.rec.Acked(who, id, "t", l.n, l.end()-1)
	}
}

func (w *tiny) flush(l *tinyLog) {
	if l.visible == l.end() {
		return
	}
	l.visible = l.end()
	w.trace(w.broker(), machine.LogVisible, l.name(), "", l.visible, 0)
	for _, s := range l.waiting {
		w.rec.Acked(history.Who{Machine: producerOf(s.id), Incarnation: 1}, s.id, "t", l.n, s.offset)
	}
	l.waiting = nil
}

func (w *tiny) join(c *tinyConsumer) {
	if c.up || w.alive[c.session] != nil {
		return // its node is still there
	}
	c.inc++
	c.up = true
	w.next++
	c.session = w.next
	w.alive[c.session] = c
	w.rec.MachineStarted(c.who())
	w.coord(machine.SessionOpened, "", "", c.session, int64(tinyTimeout))
	w.coord(machine.ZnodeCreated, "/consumers/g/ids/"+c.name, `{"subscription":{"t":1}}`, c.session, 0)
	w.trace(c.who(), machine.ConsumerJoined, "g", c.name, c.session, 0)
}

func (c *tinyConsumer) who() history.Who { return history.Who{Machine: c.name, Incarnation: c.inc} }

func (w *tiny) claim(c *tinyConsumer, l *tinyLog) {
	if !c.up || l.owner != nil {
		return
	}
	l.owner = c
	w.coord(machine.ZnodeCreated, l.path("owners"), c.name, c.session, 0)
	k := &tinyClaim{position: l.committed, processed: l.committed, fixed: l.committed >= 0}
	c.claims[l] = k
	w.trace(c.who(), machine.ConsumerClaimed, "g/"+l.name(), c.name, l.committed, 0)
}

// fix gives a claim its position: at the start, or when it is out of range.
func (w *tiny) fix(c *tinyConsumer, l *tinyLog, k *tinyClaim) {
	if k.fixed && k.position >= l.start {
		return
	}
	to, from := l.start, k.position
	if w.p.Groups[0].Reset == Largest {
		to = l.visible
	}
	if !k.fixed {
		from, k.processed = none, to
	}
	k.position, k.fixed = to, true
	w.trace(c.who(), machine.ConsumerReset, "g/"+l.name(), c.name, from, to)
}

func (w *tiny) hand(c *tinyConsumer, l *tinyLog) {
	k := c.claims[l]
	if k == nil || len(k.handed) > 1 {
		return
	}
	w.fix(c, l, k)
	if k.position >= l.visible {
		return
	}
	w.trace(c.who(), machine.ConsumerHanded, "g/"+l.name(), c.name, k.position, 0)
	k.handed = append(k.handed, k.position)
	k.position++
}

func (w *tiny) process(c *tinyConsumer, l *tinyLog) {
	k := c.claims[l]
	if k == nil || len(k.handed) == 0 {
		return
	}
	o := k.handed[0]
	k.handed = k.handed[1:]
	k.processed = o + 1
	id := l.ids[o]
	w.rec.Processed(c.who(), "g", c.name, "t", l.n, o, id, uint64(id)+1)
}

func (w *tiny) commit(c *tinyConsumer, l *tinyLog) {
	k := c.claims[l]
	if k == nil || k.processed <= l.committed {
		return
	}
	kind := machine.ZnodeSet
	if l.committed < 0 {
		kind = machine.ZnodeCreated
	}
	l.committed = k.processed
	w.coord(kind, l.path("offsets"), fmt.Sprint(l.committed), 0, 0)
	w.trace(c.who(), machine.ConsumerCommitted, "g/"+l.name(), c.name, l.committed, 0)
	w.rec.CoordCalled(c.who(), &history.CoordCall{Session: c.session, Op: "set", Path: l.path("offsets"), Data: []byte(fmt.Sprint(l.committed)),
		Start: w.now, End: w.now, Sent: true})
}

func (w *tiny) release(c *tinyConsumer, l *tinyLog) {
	k := c.claims[l]
	if k == nil {
		return
	}
	w.trace(c.who(), machine.ConsumerReleased, "g/"+l.name(), c.name, 0, 0)
	w.commit(c, l)
	delete(c.claims, l)
	l.owner = nil
	w.coord(machine.ZnodeDeleted, l.path("owners"), "", c.session, 0)
	w.rec.CoordCalled(c.who(), &history.CoordCall{Session: c.session, Op: "delete", Path: l.path("owners"), Start: w.now, End: w.now, Sent: true})
}

func (w *tiny) crash(c *tinyConsumer) {
	if !c.up {
		return
	}
	c.up, c.died = false, w.now
	clear(c.claims)
	w.rec.MachineCrashed(c.who(), false, "fault")
}

// expire ends a session whose process is gone, with all its nodes.
func (w *tiny) expire(session int64) {
	c := w.alive[session]
	delete(w.alive, session)
	w.zxid++
	event := func(kind machine.Kind, subject string, b, z int64) {
		w.rec.Traced(history.Who{Machine: "coord", Incarnation: 1}, machine.Event{Kind: kind, Subject: subject, A: session, B: b, C: z})
	}
	for _, l := range w.parts {
		if l.owner == c {
			l.owner = nil
			event(machine.ZnodeDeleted, l.path("owners"), w.zxid, 0)
		}
	}
	event(machine.ZnodeDeleted, "/consumers/g/ids/"+c.name, w.zxid, 0)
	event(machine.SessionExpired, "", 0, w.zxid)
}

func (w *tiny) retain(l *tinyLog) {
	if l.visible <= l.start {
		return
	}
	to := l.start + 1 + int64(w.draw(int(l.visible-l.start), "deleted"))
	w.trace(w.broker(), machine.LogDeleted, l.name(), "", l.start, to)
	l.start = to
}

func (w *tiny) powerLoss() {
	w.rec.MachineCrashed(w.broker(), true, "fault")
	w.now += 100 * time.Millisecond
	w.inc++
	w.rec.MachineStarted(w.broker())
	for _, l := range w.parts {
		keep := l.visible + int64(w.draw(int(l.end()-l.visible)+1, "kept"))
		l.ids = l.ids[:keep]
		for _, s := range l.waiting { // no answer came
			w.rec.Unknown(history.Who{Machine: producerOf(s.id), Incarnation: 1}, s.id, none, "connection lost")
		}
		l.waiting = nil
		l.visible = l.end()
		w.trace(w.broker(), machine.LogOpened, l.name(), "", l.start, l.end())
	}
}

// heal lets everything come to rest: the first consumer gets every partition and reads it to the end.
func (w *tiny) heal() {
	w.rec.FaultHealed(1, "whatever the steps do")
	w.rec.PhaseBegan(history.Heal)
	w.now += tinyTimeout + time.Second
	for _, id := range sortedKeys(w.alive) {
		if c := w.alive[id]; !c.up {
			w.expire(id)
		}
	}
	w.rec.PhaseBegan(history.Quiesce)
	for _, c := range w.cons {
		w.join(c)
	}
	for _, l := range w.parts {
		w.flush(l)
		w.claim(w.cons[0], l)
		for c := l.owner; ; {
			k := c.claims[l]
			w.hand(c, l)
			w.process(c, l)
			if k.position >= l.visible && len(k.handed) == 0 {
				break
			}
		}
		w.commit(l.owner, l)
	}
	w.now += time.Second
}
