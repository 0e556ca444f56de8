package client

import (
	"fmt"
	"math/rand/v2"
	"time"

	"faultline/broker/wire"
	"faultline/sim/machine"
)

// Topic is what the metadata says of a topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []Partition // sorted by id, without holes
}

// Partition is one partition of a topic.
type Partition struct {
	ID     int32
	Leader int32 // broker id; -1 when its broker is not registered
	Epoch  int32 // leader epoch in which it leads; -1: the brokers tell none
}

// Cluster finds the brokers of a cluster and keeps a connection to each that is used. All methods may be called by many
// tasks at once. They block for back-offs, dials and metadata requests, each bounded by the configuration's time-outs.
//
// A failure to find or reach a broker is ErrNotSent, whatever its cause: ErrUnknownTopic, ErrNoLeader, ErrClosed or what
// the dial or the metadata request said. Error codes of brokers come as kerr errors (errors.Is with
// kerr.TopicAlreadyExists and so on), wrapped.
type Cluster struct {
	m         machine.Machine
	cfg       Config
	bootstrap []string

	mu      machine.Mutex
	changed machine.Cond // a refresh or dial ended, or Close
	rng     *rand.Rand
	closed  bool

	peers   map[string]*peer // by address
	brokers []brokerAddr     // of the last metadata, sorted by id

	topics     map[string]*entry
	names      []string // the keys of topics, sorted
	refreshing bool
	seq        int   // refreshes begun
	lastErr    error // of the last refresh that ended
	pace       pace
}

type brokerAddr struct {
	id   int32
	addr string
}

// entry is what is cached for a topic name that somebody asked for.
type entry struct {
	topic *Topic // nil: unknown topic
	err   error  // what the brokers said instead
	got   int    // the refresh that it comes from; 0: none yet
	want  int    // it is fresh when got >= want
	asked int    // somebody waits for this refresh, though for others the entry may be fresh enough
	at    time.Duration
	least []int32  // by partition: metadata of an older leader epoch is news from somebody who lags behind (KIP-320)
	of    [16]byte // id of the topic that these epochs are of; the next one of the name, which may come after a time without any, has its own
}

// NewCluster starts from the bootstrap addresses ("host:port"). It contacts nobody yet.
func NewCluster(m machine.Machine, bootstrap []string, cfg Config) *Cluster {
	mu := m.NewMutex("client.cluster")
	if cfg.Spare == nil {
		cfg.Spare = &wire.Spare{}
	}
	return &Cluster{
		m: m, cfg: cfg.withDefaults(), bootstrap: bootstrap,
		mu: mu, changed: m.NewCond("client.cluster.changed", mu),
		rng:    m.Rand("broker/client/cluster"),
		peers:  map[string]*peer{},
		topics: map[string]*entry{},
	}
}

// Topic returns the metadata of a topic, from the cache when it is there, or ErrUnknownTopic. The result is shared: do not change it.
func (c *Cluster) Topic(name string) (*Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topicLocked(name, false)
}

// topicLocked returns a topic's metadata; refresh asks for newer metadata than there is now.
func (c *Cluster) topicLocked(name string, refresh bool) (*Topic, error) {
	e := c.entry(name)
	want := e.want
	if refresh || c.m.Uptime()-e.at > c.cfg.MetadataMaxAge {
		want = c.seq + 1
	}
	e.asked = max(e.asked, want)
	for e.got < want {
		if err := c.refreshLocked(); err != nil {
			return nil, err
		}
	}
	if c.closed {
		return nil, notSent(ErrClosed)
	}
	return e.topic, e.err
}

// entry finds or makes the cache entry of a topic; a new one wants a refresh.
func (c *Cluster) entry(name string) *entry {
	e := c.topics[name]
	if e == nil {
		e = &entry{want: c.seq + 1}
		c.topics[name] = e
		c.names = insert(c.names, name)
	}
	return e
}

// Leader returns a connection to the partition's broker. After Invalidate, or when it is not known, the metadata is
// refreshed first, within the back-off.
func (c *Cluster) Leader(topic string, partition int32) (*Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for refresh := false; ; refresh = true {
		t, err := c.topicLocked(topic, refresh)
		if err != nil {
			return nil, err
		}
		var addr string
		if int(partition) < len(t.Partitions) && partition >= 0 {
			addr = c.addrOf(t.Partitions[partition].Leader)
		}
		switch {
		case addr != "":
			conn, err := c.connectLocked(c.peer(addr))
			if err != nil {
				c.invalidateLocked(topic) // it may have moved
			}
			return conn, err
		case !refresh:
			continue
		case partition < 0 || int(partition) >= len(t.Partitions):
			return nil, notSent(fmt.Errorf("%s/%d: %w, it has %d partitions", topic, partition, ErrUnknownTopic, len(t.Partitions)))
		default:
			return nil, notSent(fmt.Errorf("%s/%d: %w, its broker is not registered", topic, partition, ErrNoLeader))
		}
	}
}

// AtLeast says that the partition was led in this leader epoch, in the topic with the id: who tells of an older one is not believed. Of another topic of the name, whose epochs are its own, it says nothing.
func (c *Cluster) AtLeast(topic string, id [16]byte, partition, epoch int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(topic)
	if e.topic == nil || e.topic.ID != id {
		return
	}
	e.raise(partition, epoch)
	if int(partition) < len(e.topic.Partitions) && e.topic.Partitions[partition].Epoch < epoch {
		e.want = c.seq + 1
	}
}

func (e *entry) raise(partition, epoch int32) {
	for int(partition) >= len(e.least) {
		e.least = append(e.least, -1)
	}
	e.least[partition] = max(e.least[partition], epoch)
}

// Place is where a partition is led.
type Place struct {
	Addr  string   // can be dialled
	Epoch int32    // leader epoch, -1: not known
	Topic [16]byte // id of the topic; zero: the brokers tell none
}

// Where tells which broker leads the partition. After Invalidate, or when it is not known, the metadata is refreshed first, within the back-off. With an error the place has the topic's id, if that is known.
func (c *Cluster) Where(topic string, partition int32) (at Place, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for refresh := false; ; refresh = true {
		t, err := c.topicLocked(topic, refresh)
		if err != nil {
			return at, err
		}
		at = Place{Epoch: -1, Topic: t.ID}
		if partition >= 0 && int(partition) < len(t.Partitions) {
			if addr := c.addrOf(t.Partitions[partition].Leader); addr != "" {
				return Place{addr, t.Partitions[partition].Epoch, t.ID}, nil
			}
		}
		if refresh {
			return at, notSent(fmt.Errorf("%s/%d: %w", topic, partition, ErrNoLeader))
		}
	}
}

// Broker returns a connection to the broker with this id.
func (c *Cluster) Broker(id int32) (*Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.addrOf(id) == "" {
		if err := c.refreshLocked(); err != nil {
			return nil, err
		}
	}
	addr := c.addrOf(id)
	if addr == "" {
		c.m.Mark("mark/client/broker-not-in-metadata")
		return nil, notSent(fmt.Errorf("broker %d: %w", id, ErrNoLeader))
	}
	return c.connectLocked(c.peer(addr))
}

// Invalidate says that the topic's metadata proved wrong (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, a connection that
// failed): the next call that needs it asks a broker again.
func (c *Cluster) Invalidate(topic string) {
	c.mu.Lock()
	c.invalidateLocked(topic)
	c.mu.Unlock()
}

func (c *Cluster) invalidateLocked(topic string) {
	// A refresh under way may carry what was true before: only one that begins later counts.
	c.entry(topic).want = c.seq + 1
}

// Close closes all connections; calls under way and later ones fail with ErrClosed.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	for _, addr := range c.addrs() {
		if conn := c.peers[addr].conn; conn != nil {
			conn.Close()
		}
	}
	c.changed.Broadcast()
}

func (c *Cluster) addrOf(id int32) string {
	for _, b := range c.brokers {
		if b.id == id {
			return b.addr
		}
	}
	return ""
}
