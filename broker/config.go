package broker

import (
	"fmt"
	"time"

	"faultline/broker/log"
	coord "faultline/coord/client"
)

// Config of a broker. Zero fields take the default.
type Config struct {
	ID             int32         // unique in the cluster, 0 or more
	Port           int           // to listen on; 0: 9092; -1: any free one
	AdvertisedHost string        // what clients are told to dial (default: the machine's name)
	AdvertisedPort int           // default: the port it listens on
	Coord          []string      // addresses of the coordination service. Required
	SessionTimeout time.Duration // of the registration (default 6 s)
	CoordTap       coord.Tap     // sees this broker's calls to the coordination service
	DataDir        string        // default "broker"
	// Waits is told what keeps the broker from being registered, again and again, while Start waits; nil: nobody is.
	Waits func(reason error)

	// Log is the policy of topics that have no settings of their own; log.Defaults when it is zero. When it flushes
	// neither by count nor by time, both defaults apply: what is never flushed is never visible.
	Log               log.Config
	RetentionInterval time.Duration // between two rounds of retention (default 5 min)

	Partitions int32 // of topics that are created without a number (default 1)
	Replicas   int   // of these (default 1)
	LeastISR   int   // in-sync replicas that acks=all needs, of topics without min.insync.replicas (default 1)

	// OffsetsPartitions and OffsetsSegmentBytes of the topic that keeps the groups' offsets, when it is made (default 50 and 100 MiB). A coordinator loads what compaction left of a partition, and a segment that is
	// still open.
	OffsetsPartitions   int32
	OffsetsSegmentBytes int64
	OffsetsReplicas     int           // of each of them (default 3, or as many as there are brokers when it is made)
	OffsetsLeastISR     int           // in-sync replicas that a commit needs (default LeastISR)
	OffsetsRetention    time.Duration // what a group committed and nobody uses stays so long (default 7 days)
	OffsetsCheck        time.Duration // between two looks for what has been unused for so long (default 10 min)
	MinGroupSession     time.Duration // least session time-out that a member may ask for (default 6 s)
	GroupDelay          time.Duration // an empty group waits so long for more members before its first rebalance (default 3 s; negative: not at all)

	// ReplicaLag is how long a follower may be behind before its leader takes it out of the in-sync replicas (default 10 s).
	ReplicaLag time.Duration
	// ReplicaFetchBytes is how much of one partition a follower asks for at once, and a tenth of what it asks for of all (default 1 MiB).
	ReplicaFetchBytes int
	// PreferredInterval is how often the controller gives partitions back to their preferred leaders (default 5 min).
	PreferredInterval time.Duration
	AutoCreateTopics  bool // create a topic when a client asks for the metadata of one that does not exist

	// Limits.
	MaxRequestBytes int           // a larger request closes its connection (default 100 MiB)
	MaxFetchBytes   int           // most record bytes of one fetch response (default 55 MiB)
	MaxFetchWait    time.Duration // longest long poll (default 5 min)
	CopyReads       bool          // log bytes go to consumers through the broker's memory, rather than from file to socket: for measuring what zero-copy saves
	MaxInFlight     int           // produce requests of one connection that wait for their flush (default 64); then it is read no further
	MaxConnections  int           // default 4096; more are closed at once
	IdleTimeout     time.Duration // a connection without a request, or blocked in a response, for this long is closed; it may take up to a tenth less (default 10 min)
}

func (c Config) withDefaults(machineName string) (Config, error) {
	switch {
	case c.ID < 0:
		return c, fmt.Errorf("broker: id %d: want 0 or more", c.ID)
	case len(c.Coord) == 0:
		return c, fmt.Errorf("broker %d: no address of the coordination service", c.ID)
	case c.Port > 65535 || c.Port < -1:
		return c, fmt.Errorf("broker %d: port %d: want 1 to 65535, 0 for 9092 or -1 for any", c.ID, c.Port)
	}
	if c.Log == (log.Config{}) {
		c.Log = log.Defaults()
	}
	if c.Log.FlushInterval == 0 && c.Log.FlushMessages == 0 {
		d := log.Defaults()
		c.Log.FlushInterval, c.Log.FlushMessages = d.FlushInterval, d.FlushMessages
	}
	if err := c.Log.Check(); err != nil {
		return c, fmt.Errorf("broker %d: %w", c.ID, err)
	}
	// What the log would take for the zeros, so that clients can be told.
	d := log.Defaults()
	orTo(&c.Log.SegmentBytes, d.SegmentBytes)
	orTo(&c.Log.IndexInterval, d.IndexInterval)
	orTo(&c.Log.RetentionTime, d.RetentionTime)
	orTo(&c.Log.RetentionBytes, d.RetentionBytes)
	orTo(&c.Log.MaxBatchBytes, d.MaxBatchBytes)
	orTo(&c.Log.CompactRatio, d.CompactRatio)
	orTo(&c.Log.DeleteRetention, d.DeleteRetention)
	switch c.Port {
	case 0:
		c.Port = 9092
	case -1:
		c.Port = 0
	}
	if c.AdvertisedHost == "" {
		c.AdvertisedHost = machineName
	}
	if c.DataDir == "" {
		c.DataDir = "broker"
	}
	orDuration(&c.SessionTimeout, 6*time.Second)
	orDuration(&c.RetentionInterval, 5*time.Minute)
	orDuration(&c.MaxFetchWait, 5*time.Minute)
	orDuration(&c.IdleTimeout, 10*time.Minute)
	orDuration(&c.MinGroupSession, 6*time.Second)
	orDuration(&c.OffsetsRetention, 7*24*time.Hour)
	orDuration(&c.OffsetsCheck, 10*time.Minute)
	if c.GroupDelay == 0 {
		c.GroupDelay = 3 * time.Second
	}
	c.GroupDelay = max(c.GroupDelay, 0)
	orDuration(&c.ReplicaLag, 10*time.Second)
	orDuration(&c.PreferredInterval, 5*time.Minute)
	if c.OffsetsPartitions <= 0 {
		c.OffsetsPartitions = 50
	}
	if c.OffsetsSegmentBytes <= 0 {
		c.OffsetsSegmentBytes = 100 << 20
	}
	orInt(&c.ReplicaFetchBytes, 1<<20)
	orInt(&c.Replicas, 1)
	orInt(&c.LeastISR, 1)
	orInt(&c.MaxRequestBytes, 100<<20)
	orInt(&c.MaxFetchBytes, 55<<20)
	orInt(&c.MaxInFlight, 64)
	orInt(&c.MaxConnections, 4096)
	if c.Partitions <= 0 {
		c.Partitions = 1
	}
	return c, nil
}

// policy is that of topics without settings of their own.
func (c *Config) policy() policy { return policy{Config: c.Log, leastISR: c.LeastISR} }

func orTo[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func orDuration(v *time.Duration, d time.Duration) {
	if *v <= 0 {
		*v = d
	}
}

func orInt(v *int, d int) {
	if *v <= 0 {
		*v = d
	}
}
