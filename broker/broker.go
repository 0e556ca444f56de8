package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"time"

	"faultline/broker/log"
	"faultline/broker/wire"
	"faultline/sim/machine"
)

// ErrStopped: Stop was called.
var ErrStopped = errors.New("broker stopped")

// stopGrace is how long Stop waits for requests under way before it cuts their connections.
const stopGrace = 2 * time.Second

// Broker is a running broker.
type Broker struct {
	m        machine.Machine
	cfg      Config
	clean    bool // the last stop was regular: the logs that it closed need no recovery. The keeper's
	listener net.Listener
	self     brokerNode
	rng      *rand.Rand // topic ids and where their partitions start; guarded by mu

	waits  waits
	frames wire.Spare // shared by all connections

	mu      machine.Mutex
	changed machine.Cond // anything below

	id       identity
	serving  bool // logs are open: connections are taken
	up       bool // was registered once
	stopping bool
	stopped  bool
	failed   error // why the broker gives up
	tasks    int   // of the broker itself, that Stop waits for
	conns    []*conn
	accepted int64 // connections so far

	epoch, cleanSince int64            // of the registration, see brokerNode; -1: there was none yet, or the logs lost what was not flushed
	loadedHW          map[string]int64 // high watermarks of the checkpoint of the last life, by partition.lasting
	savedHW           string           // the last checkpoint. Of the task that writes it
	fetchers          map[int32]*fetcher
	control           control
	controller        int32            // who was the controller when this broker looked last; -1: it has not
	shards            map[int32]*shard // by partition of the offsets topic
	nextProducerID    int64            // ids of idempotent producers from here on, below lastProducerID, are this broker's to give
	lastProducerID    int64
	knocked           bool // a follower that is not in sync may join the in-sync replicas
	views             int  // counts what was learnt of brokers, topics and their states

	topics map[string]*topic
	byID   map[topicID]*topic
	names  []string // of topics, sorted
	live   []liveBroker

	unreadable map[string]bool // topics whose registration makes no sense; the keeper's

	session session
}

// Run starts a broker and returns when it was stopped or failed. See Start.
func Run(m machine.Machine, cfg Config) error {
	b, err := Start(m, cfg)
	if err != nil {
		return err
	}
	return b.Wait()
}

// Start opens the data directory and returns once the broker is registered and serves. While the coordination service cannot be
// reached it waits, without limit.
//
// When the disk fails later on the broker answers KAFKA_STORAGE_ERROR for that partition and ends the process (Machine.Exit): only a
// restart, with recovery, can tell what the disk still has.
func Start(m machine.Machine, cfg Config) (*Broker, error) {
	cfg, err := cfg.withDefaults(m.Name())
	if err != nil {
		return nil, err
	}
	mu := m.NewMutex("broker")
	b := &Broker{
		m: m, cfg: cfg, mu: mu, changed: m.NewCond("broker.changed", mu),
		rng:   m.Rand("broker"),
		epoch: -1, cleanSince: -1, controller: -1, fetchers: map[int32]*fetcher{}, shards: map[int32]*shard{},
		topics: map[string]*topic{}, byID: map[topicID]*topic{}, unreadable: map[string]bool{},
	}
	b.waits.mu = m.NewMutex("broker.waits")
	// The port first: a second broker on this machine must not get at the data.
	if b.listener, err = m.Listen(cfg.Port); err != nil {
		return nil, fmt.Errorf("broker %d: listen on port %d: %w", cfg.ID, cfg.Port, err)
	}
	var last *shutdown
	if b.id, last, err = loadIdentity(m.Disk(), cfg.DataDir, cfg.ID); err == nil {
		err = log.RemoveDeleted(m.Disk(), cfg.DataDir)
	}
	if last != nil {
		b.clean, b.cleanSince = true, last.CleanSince
	}
	if err == nil {
		b.loadedHW, err = loadHighWaters(m.Disk(), cfg.DataDir)
	}
	if err != nil {
		b.listener.Close()
		return nil, fmt.Errorf("broker %d: %w", cfg.ID, err)
	}
	if b.clean {
		m.Mark("mark/broker/clean-start")
	} else if b.id.Incarnation > 1 {
		m.Mark("mark/broker/unclean-start")
	}
	if b.cfg.AdvertisedPort == 0 {
		b.cfg.AdvertisedPort = listenPort(b.listener, cfg.Port)
	}
	b.self = brokerNode{Host: cfg.AdvertisedHost, Port: b.cfg.AdvertisedPort, Incarnation: b.id.Incarnation}

	b.mu.Lock()
	b.spawn("broker.accept", b.accept)
	b.spawn("broker.keeper", b.keep)
	b.spawn("broker.retention", b.retain)
	b.spawn("broker.controller", b.runController)
	b.spawn("broker.isr", b.tendISRs)
	b.spawn("broker.highwater", b.keepHighWaters)
	for !b.up && b.failed == nil {
		b.changed.Wait()
	}
	err = b.failed
	b.mu.Unlock()
	if err != nil {
		b.Stop()
		return nil, err
	}
	return b, nil
}

// Addr is where clients are told to dial.
func (b *Broker) Addr() string { return fmt.Sprintf("%s:%d", b.self.Host, b.self.Port) }

// Wait blocks until the broker is stopped. It returns nil after a regular Stop.
func (b *Broker) Wait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.stopped {
		b.changed.Wait()
	}
	return b.failed
}

// spawn starts a task that Stop waits for. The lock is held.
func (b *Broker) spawn(name string, fn func()) {
	b.tasks++
	b.m.Go(name, func() {
		fn()
		b.mu.Lock()
		b.tasks--
		b.changed.Broadcast()
		b.mu.Unlock()
	})
}

// Stop ends the broker regularly: it takes no more requests, answers those under way, closes the logs, marks the data directory clean
// and leaves the registry. An error says that the next start must recover.
func (b *Broker) Stop() error {
	b.mu.Lock()
	if b.stopping {
		for !b.stopped {
			b.changed.Wait()
		}
		b.mu.Unlock()
		return ErrStopped
	}
	b.stopping = true
	wasUp := b.up
	b.changed.Broadcast()
	b.mu.Unlock()

	b.listener.Close()
	for _, s := range b.allShards() {
		s.end() // whoever waits for others to join is sent away
	}
	hasty := b.m.Failpoint("fault/broker/stop-hasty")
	b.endConns(hasty)
	b.m.Failpoint("fault/broker/stop-slow")

	b.mu.Lock()
	cl := b.session.client
	for b.tasks > 0 {
		b.changed.Wait()
	}
	err := b.failed
	since := b.cleanSince
	b.mu.Unlock()

	b.saveHighWaters()
	if closeErr := b.closeLogs(); err == nil {
		err = closeErr
	}
	if err != nil {
		b.m.Mark("mark/broker/unclean-stop")
	} else if !b.m.Failpoint("fault/broker/marker-lost") { // as if power went just before
		err = writeFile(b.m.Disk(), path.Join(b.cfg.DataDir, markerFile), shutdown{since}.encode())
	}
	if cl != nil && !b.m.Failpoint("fault/broker/leave-lost") {
		cl.Close() // if it cannot be told, the session ends by its time-out
	}
	if wasUp {
		b.m.Trace(machine.Event{Kind: machine.BrokerDown, A: int64(b.cfg.ID)})
	}
	b.mu.Lock()
	b.stopped = true
	b.changed.Broadcast()
	b.mu.Unlock()
	return err
}

// endConns lets the requests under way finish, for a while, unless in haste, and cuts the rest.
func (b *Broker) endConns(hasty bool) {
	b.waits.mu.Lock()
	b.waits.stopped = true
	b.waits.mu.Unlock()

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.localLocked() {
		b.waits.fire(p)
	}
	for _, f := range b.fetchersLocked() {
		f.hangUp()
	}
	for _, c := range b.conns {
		_ = c.nc.SetReadDeadline(b.m.Now().Add(-time.Hour)) // no further request
	}
	for end := b.m.Uptime() + stopGrace; len(b.conns) > 0; {
		left := end - b.m.Uptime()
		if left <= 0 || hasty {
			b.m.Mark("mark/broker/stop-cut-requests")
			break
		}
		b.changed.WaitTimeout(left)
	}
	for _, c := range b.conns {
		c.nc.Close()
	}
}

// closeLogs closes all logs; only when all say so are they clean.
func (b *Broker) closeLogs() error {
	b.mu.Lock()
	parts := b.localLocked()
	b.mu.Unlock()
	var first error
	for _, p := range parts {
		err := p.offline
		if p.log != nil {
			err = p.log.Close()
		}
		if err != nil && first == nil {
			first = fmt.Errorf("close %s/%d: %w", p.topic.name, p.id, err)
		}
	}
	return first
}

// localLocked lists the partitions that are here, by topic and id. The lock is held.
func (b *Broker) localLocked() []*partition {
	var out []*partition
	for _, name := range b.names {
		for _, p := range b.topics[name].local {
			if p != nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// logFailed is told of a log that works no more. Unless the broker itself closed it, the process must end: a fenced log says that the
// disk lost or may have lost what was written, and only recovery finds out.
func (b *Broker) logFailed(p *partition, err error) {
	if errors.Is(err, log.ErrFenced) {
		b.m.Mark("mark/broker/log-fenced")
		b.fail(fmt.Errorf("log of %s/%d: %w", p.topic.name, p.id, err))
	}
}

// fail gives the broker up. Before it is up Start reports it; later the process ends, a moment after, so that answers under way get out.
func (b *Broker) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return
	}
	b.failed = fmt.Errorf("broker %d: %w", b.cfg.ID, err)
	b.changed.Broadcast()
	if b.up && !b.stopping {
		b.m.After(50*time.Millisecond, "broker.exit", func() { b.m.Exit(b.failed) })
	}
}

// retain is the task that deletes and compacts.
func (b *Broker) retain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for next := b.m.Uptime() + b.cfg.RetentionInterval; ; {
		for left := next - b.m.Uptime(); left > 0 && !b.stopping; left = next - b.m.Uptime() {
			b.changed.WaitTimeout(left)
		}
		if b.stopping {
			return
		}
		parts := b.localLocked()
		b.mu.Unlock()
		for _, p := range parts {
			if p.log == nil || b.m.Failpoint("fault/broker/retain-skip") {
				continue
			}
			// A log that is closed or dropped meanwhile says so; one that cannot delete or compact tries again in the next round.
			err := p.log.Retain(p.keepFrom())
			if err == nil {
				err = p.log.Compact(p.keepFrom())
			}
			if errors.Is(err, log.ErrFenced) {
				b.logFailed(p, err)
			}
		}
		b.mu.Lock()
		next = b.m.Uptime() + b.cfg.RetentionInterval
	}
}

func listenPort(l net.Listener, asked int) int {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	if _, port, err := net.SplitHostPort(l.Addr().String()); err == nil {
		var n int
		if _, err := fmt.Sscan(port, &n); err == nil {
			return n
		}
	}
	return asked
}

// ledIn finds a partition that is served here, for somebody who believes in a leader epoch (-1: in none).
func (b *Broker) ledIn(topic string, id, epoch int32) (*partition, int16) {
	b.mu.Lock()
	p, code := b.lookupLocked(b.topics[topic], id)
	b.mu.Unlock()
	if code == 0 {
		code = p.shown.Load().epochCode(epoch)
	}
	return p, code
}

// lookupLocked finds a partition of t that is served here. The code is 0 or a Kafka error code. The lock is held.
func (b *Broker) lookupLocked(t *topic, id int32) (*partition, int16) {
	p, code := b.placeLocked(t, id)
	if code == 0 && !p.leads() {
		b.m.Mark("mark/broker/asked-though-not-leading")
		return nil, codeNotLeader
	}
	return p, code
}

// placeLocked finds a partition of t that is here, whoever leads it.
func (b *Broker) placeLocked(t *topic, id int32) (*partition, int16) {
	switch {
	case t == nil || id < 0 || int(id) >= len(t.replicas):
		return nil, codeUnknownTopicOrPartition
	case !slices.Contains(t.replicas[id], b.cfg.ID):
		b.m.Mark("mark/broker/asked-for-anothers-partition")
		return nil, codeNotLeader
	case t.local[id] == nil:
		b.m.Mark("mark/broker/asked-while-opening")
		return nil, codeNotLeader // being opened
	case t.local[id].log == nil:
		b.m.Mark("mark/broker/asked-for-damaged-log")
		return t.local[id], codeStorageError
	}
	return t.local[id], 0
}
