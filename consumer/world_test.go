package consumer_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker"
	brokerclient "faultline/broker/client"
	"faultline/broker/log"
	"faultline/consumer"
	"faultline/coord"
	coordclient "faultline/coord/client"
	"faultline/producer"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// world is a coordination server, brokers, producers and members of one group on simulated computers, with the strictest view of what
// they do: every hand-over is checked against the registry at that very moment.
type world struct {
	t       *testing.T
	w       *sim.World
	c       *virtual.Cluster
	zk      *virtual.Computer
	brokers []*virtual.Computer
	log     log.Config
	session time.Duration
	tune    func(*consumer.Config)

	owners   map[string]int64    // owner path -> session, as the server applied it
	tenures  map[string][]tenure // owner path -> who had it when
	offsets  map[string]int64    // offset path -> committed
	sessions map[string]int64    // member -> session that it says it has
	claims   map[string]map[string]bool
	sent     map[string]bool // values acked
	got      map[string]int  // values handed over -> times
	bad      []string
	attempts int // rebalances
	resets   []machine.Event
	handed   []string // "member topic/partition@offset" when keep is set
	keep     bool
	at       map[string]string // "partition@offset" -> value: acked there, handed over from there
	leaving  map[string]bool   // members that are to close
}

func newWorld(t *testing.T, seed uint64, brokers int) *world {
	w := sim.New(sim.Config{Seed: seed})
	x := &world{t: t, w: w, c: virtual.New(w, virtual.Config{}), session: 2 * time.Second,
		owners: map[string]int64{}, offsets: map[string]int64{}, sessions: map[string]int64{}, claims: map[string]map[string]bool{},
		sent: map[string]bool{}, got: map[string]int{}, tenures: map[string][]tenure{}, leaving: map[string]bool{}, at: map[string]string{}}
	x.c.OnEvent = x.event
	x.c.OnExit = func(c *virtual.Computer, err error) {
		if err != nil {
			x.fault("%s ended: %v", c.Name(), err)
		}
	}
	x.zk = x.c.Add("zk")
	for i := range brokers {
		x.brokers = append(x.brokers, x.c.Add(fmt.Sprintf("b%d", i)))
	}
	x.log = log.Config{FlushInterval: 5 * time.Millisecond}
	t.Cleanup(func() {
		if !t.Failed() { // a test that fails inside a task leaves the world in the middle of a step
			w.Close()
		}
	})
	return x
}

func (x *world) fault(format string, args ...any) {
	if len(x.bad) < 10 {
		x.bad = append(x.bad, fmt.Sprintf("%v: ", x.w.Now())+fmt.Sprintf(format, args...))
	}
}

func (x *world) event(c *virtual.Computer, e *machine.Event) {
	switch e.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet:
		if strings.Contains(e.Subject, "/owners/") && e.A != 0 && e.Kind == machine.ZnodeCreated {
			x.owners[e.Subject] = e.A
			x.tenures[e.Subject] = append(x.tenures[e.Subject], tenure{e.A, x.w.Now(), -1})
		}
		if i := strings.Index(e.Subject, "/offsets/"); i >= 0 && strings.Count(e.Subject[i:], "/") == 3 {
			n, err := strconv.ParseInt(e.Detail, 10, 64)
			if old, ok := x.offsets[e.Subject]; err != nil || ok && n < old {
				x.fault("%s goes from %d to %s", e.Subject, old, e.Detail)
			}
			x.offsets[e.Subject] = n
		}
	case machine.ZnodeDeleted:
		delete(x.owners, e.Subject)
		if ts := x.tenures[e.Subject]; len(ts) > 0 {
			ts[len(ts)-1].to = x.w.Now()
		}
	case machine.ConsumerJoined:
		x.sessions[e.Detail] = e.A
	case machine.ConsumerRebalance:
		x.attempts++
	case machine.ConsumerReset:
		x.resets = append(x.resets, *e)
	case machine.ConsumerHanded:
		group, rest, _ := strings.Cut(e.Subject, "/")
		path := "/consumers/" + group + "/owners/" + rest
		if owner := x.owners[path]; owner == 0 || owner != x.sessions[e.Detail] {
			x.fault("%s is handed %s@%d in session %x, but the owner is %x", e.Detail, e.Subject, e.A, x.sessions[e.Detail], owner)
		}
		if x.keep {
			x.handed = append(x.handed, fmt.Sprintf("%s %s@%d", e.Detail, rest, e.A))
		}
	}
}

// tenure is the time in which a session owned a partition, by the server's account; to is -1 while it does.
type tenure struct {
	session  int64
	from, to time.Duration
}

// fence is a tap that checks that every commit was written while its session owned the partition.
type fence struct{ x *world }

func (f fence) Heard(coordclient.Heard) {}

func (f fence) Asked(coordclient.Call) {}

func (f fence) Done(c coordclient.Call) {
	if c.Kind != coordclient.OpMulti || c.Err != nil {
		return
	}
	x := f.x
	end := x.w.Now()
	begin := end - (c.End - c.Start)
	for _, op := range c.Ops {
		if op.Kind == coordclient.OpCheck {
			continue
		}
		owner := strings.Replace(op.Path, "/offsets/", "/owners/", 1)
		if !slices.ContainsFunc(x.tenures[owner], func(t tenure) bool {
			return t.session == c.Session && t.from <= end && (t.to < 0 || t.to >= begin)
		}) {
			x.fault("session %x wrote %s to %s between %v and %v, when it was not the owner: %v", c.Session, op.Data, op.Path, begin, end, x.tenures[owner])
		}
	}
}

func (x *world) coordUp() {
	x.zk.Boot(func(m machine.Machine) error {
		return coord.Run(m, coord.Config{Port: 2181, TickTime: 100 * time.Millisecond})
	})
}

func (x *world) brokerUp(i int) {
	x.brokers[i].Boot(func(m machine.Machine) error {
		return broker.Run(m, broker.Config{ID: int32(i), Port: 9092, Coord: []string{"zk:2181"}, SessionTimeout: x.session, Log: x.log, RetentionInterval: time.Second,
			OffsetsPartitions: 4, MinGroupSession: time.Second, GroupDelay: -1})
	})
}

func (x *world) up() *world {
	x.coordUp()
	for i := range x.brokers {
		x.brokerUp(i)
	}
	return x
}

func (x *world) addresses() []string {
	var a []string
	for _, b := range x.brokers {
		a = append(a, b.Name()+":9092")
	}
	return a
}

// on runs a story on a computer of its own.
func (x *world) on(name string, story func(m machine.Machine)) *virtual.Computer {
	c := x.c.Add(name)
	c.Boot(func(m machine.Machine) error {
		story(m)
		m.NewCond("for ever", lockOf(m)).Wait()
		return nil
	})
	return c
}

func lockOf(m machine.Machine) machine.Mutex {
	l := m.NewMutex("story")
	l.Lock()
	return l
}

// topic creates a topic, whatever it takes.
func (x *world) topic(name string, partitions int32) {
	x.on("admin-"+name, func(m machine.Machine) {
		c := brokerclient.NewCluster(m, x.addresses(), brokerclient.Config{})
		for c.CreateTopic(name, partitions, 1) != nil {
			if t, err := c.Topic(name); err == nil && len(t.Partitions) > 0 {
				break
			}
			m.Sleep(100 * time.Millisecond)
		}
		c.Close()
	})
}

// produce sends values "<name>-0" up, one every so often, to the topic by key.
func (x *world) produce(name, topic string, n int, every time.Duration, tune ...func(*producer.Config)) *virtual.Computer {
	return x.on(name, func(m machine.Machine) {
		cfg := producer.Config{Brokers: x.addresses(), Acks: producer.AcksAll, Linger: 5 * time.Millisecond, RequestTimeout: 2 * time.Second}
		for _, f := range tune {
			f(&cfg)
		}
		p, err := producer.New(m, cfg)
		require.NoError(x.t, err)
		last := map[int32]int64{}
		for i := range n {
			value := fmt.Sprintf("%s-%d", name, i)
			err := p.Send(producer.Record{Topic: topic, Partition: -1, Key: []byte(value), Value: []byte(value)}, func(r producer.Result) {
				if r.Err == nil {
					x.sent[value] = true
					x.place(r.Topic, r.Partition, r.Offset, value)
					if before, ok := last[r.Partition]; ok && r.Offset <= before && cfg.MaxInFlight <= 1 {
						x.fault("%s is acked at %d/%d after %d", value, r.Partition, r.Offset, before)
					}
					last[r.Partition] = r.Offset
				} else if !errors.Is(r.Err, producer.ErrUnknown) && !errors.Is(r.Err, producer.ErrTimedOut) {
					x.fault("%s: %v", value, r.Err)
				}
			})
			if err != nil {
				x.fault("%s: %v", value, err)
			}
			m.Sleep(every)
		}
		p.Close()
	})
}

// place notes that a value is at an offset. It is the only one there.
func (x *world) place(topic string, partition int32, offset int64, value string) {
	at := fmt.Sprintf("%s/%d@%d", topic, partition, offset)
	if old, ok := x.at[at]; ok && old != value {
		x.fault("%s holds %s and %s", at, old, value)
	}
	x.at[at] = value
}

// member joins group "g". Each stream is read by a task that works so long on each record.
func (x *world) member(c *virtual.Computer, work time.Duration, topics map[string]int) {
	c.Boot(func(m machine.Machine) error {
		cfg := consumer.Config{Group: "g", ID: c.Name(), Coord: []string{"zk:2181"}, Topics: topics, SessionTimeout: x.session,
			AutoCommit: true, CommitInterval: 300 * time.Millisecond, RequestTimeout: 2 * time.Second, CoordTap: fence{x}}
		if x.tune != nil {
			x.tune(&cfg)
		}
		g, err := consumer.Join(m, cfg)
		require.NoError(x.t, err)
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			for _, s := range g.Streams(topic) {
				m.Go("app", func() {
					for {
						msg, err := s.Next()
						if err != nil {
							if !errors.Is(err, consumer.ErrClosed) {
								x.fault("%s: %v", c.Name(), err)
							}
							return
						}
						x.got[string(msg.Value)]++
						x.place(msg.Topic, msg.Partition, msg.Offset, string(msg.Value))
						if work > 0 {
							m.Sleep(work)
						}
					}
				})
			}
		}
		for !x.leaving[c.Name()] {
			if cfg.AutoCommit {
				m.Sleep(10 * time.Millisecond)
			} else {
				_ = g.Commit() // the chaos tests know what may fail
				m.Sleep(300 * time.Millisecond)
			}
		}
		return g.Close()
	})
}

// leave closes a member in an orderly way.
func (x *world) leave(name string) { x.leaving[name] = true }

// members boots members c0, c1, ... of the topic t.
func (x *world) members(n int) []*virtual.Computer {
	var cs []*virtual.Computer
	for i := range n {
		c := x.c.Add(fmt.Sprintf("c%d", i))
		x.member(c, 0, map[string]int{"t": 1})
		cs = append(cs, c)
	}
	return cs
}

// run lets the world live for d.
func (x *world) run(d time.Duration) {
	x.t.Helper()
	end := x.w.Now() + d
	x.w.At(end, func() {})
	out := x.w.Run(end)
	if out.Kind != sim.Deadline && (out.Kind != sim.Stuck || out.At < end) {
		x.t.Fatalf("seed %d: %v", x.w.Seed(), out)
	}
	require.Empty(x.t, x.bad, "seed %d", x.w.Seed())
}

// until runs until ok, and fails when that takes longer than d.
func (x *world) until(d time.Duration, what string, ok func() bool) {
	x.t.Helper()
	for end := x.w.Now() + d; !ok(); x.run(50 * time.Millisecond) {
		if x.w.Now() >= end {
			x.t.Fatalf("seed %d at %v: %s: not within %v; owners %v; %d acked, %d seen", x.w.Seed(), x.w.Now(), what, d, x.owned(), len(x.sent), len(x.got))
		}
	}
}

// owned lists the owned partitions.
func (x *world) owned() []string {
	var out []string
	for p := range x.owners {
		_, p, _ = strings.Cut(p, "/owners/")
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func (x *world) delivered() bool {
	for v := range x.sent {
		if x.got[v] == 0 {
			return false
		}
	}
	return true
}

func (x *world) partition(a, b string) (heal func()) {
	to, from := x.c.Net.Block(a, b), x.c.Net.Block(b, a)
	return func() { to(); from() }
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
