package producer

import (
	"fmt"
	"math"
	"time"

	"faultline/broker/client"
	"faultline/broker/record"
	"faultline/broker/sequence"
)

// Codec names the compression of batches.
type Codec = record.Codec

const (
	None   = record.None
	Gzip   = record.Gzip
	Snappy = record.Snappy
	LZ4    = record.LZ4
	Zstd   = record.Zstd
)

// Acks: when a batch counts as delivered.
const (
	AcksNone int16 = 0  // when it is on the wire; its offset stays unknown
	AcksOne  int16 = 1  // when the broker has it in its log; survives a crash of the broker's process
	AcksAll  int16 = -1 // when it is flushed, too; survives a power loss
)

// Config says how to produce. Zero fields take the default, except Acks.
type Config struct {
	Brokers  []string // addresses to find the cluster by ("host:port"); required
	ClientID string
	Acks     int16 // AcksNone (zero), AcksOne or AcksAll

	BatchBytes   int           // a batch is full at so many bytes, before compression (default 16 KiB); a larger record gets a batch of its own
	BatchRecords int           // ... or at so many records (default: no limit)
	Linger       time.Duration // a batch that is not full waits so long for more (default 0: not at all)
	BufferBytes  int           // of all batches together, before compression; Send blocks when they are reached (default 32 MiB)
	RequestBytes int           // a request carries no more, unless one batch alone does (default 1 MiB)

	// Retries is how often a batch is sent again at most. 0: as long as DeliveryTimeout lasts. Negative: never.
	Retries int
	// RetryBackoff is the pause before the first retry. It doubles with each further one, up to 10 times of it, and is spread by a quarter either way
	// (default 100 ms).
	RetryBackoff time.Duration
	// RequestTimeout is how long an answer is waited for; then the outcome of the request is unknown (default 10 s).
	RequestTimeout time.Duration
	// DeliveryTimeout is how long after Send a record that is not in flight may still be sent (default 60 s).
	DeliveryTimeout time.Duration
	// MaxInFlight is how many requests to one broker, and batches of one partition, may be unanswered (default 1).
	MaxInFlight int
	// MetadataMaxAge is when a topic that is sent to is looked at again, for new partitions (default 5 min).
	MetadataMaxAge time.Duration

	// Idempotent: a batch that is sent again is in the log once and in its place (KIP-98). It needs Acks AcksAll, and at most 5 in flight.
	Idempotent bool

	Partitioner Partitioner // default: KeyHash
	Compression Codec       // default: None
	Tap         client.Tap  // sees every request to brokers
}

func (c Config) withDefaults() (Config, error) {
	number := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	duration := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	number(&c.BatchBytes, 16<<10)
	number(&c.BatchRecords, math.MaxInt32)
	number(&c.BufferBytes, 32<<20)
	number(&c.RequestBytes, 1<<20)
	number(&c.MaxInFlight, 1)
	duration(&c.RetryBackoff, 100*time.Millisecond)
	duration(&c.RequestTimeout, 10*time.Second)
	duration(&c.DeliveryTimeout, 60*time.Second)
	duration(&c.MetadataMaxAge, 5*time.Minute)
	c.Linger = max(c.Linger, 0)
	switch {
	case c.Retries == 0:
		c.Retries = math.MaxInt
	case c.Retries < 0:
		c.Retries = 0
	}
	if c.Partitioner == nil {
		c.Partitioner = KeyHash
	}
	if len(c.Brokers) == 0 {
		return c, fmt.Errorf("new producer: no address of a broker: set Config.Brokers")
	}
	if c.Acks < -1 || c.Acks > 1 {
		return c, fmt.Errorf("new producer: acks is %d: want -1 (all), 0 or 1", c.Acks)
	}
	if c.Idempotent && (c.Acks != AcksAll || c.MaxInFlight > sequence.Window) {
		return c, fmt.Errorf("new producer: idempotent with acks %d and %d in flight: want acks -1 (all) and at most %d", c.Acks, c.MaxInFlight, sequence.Window)
	}
	if c.Compression < None || c.Compression > Zstd {
		return c, fmt.Errorf("new producer: compression codec %d is unknown", c.Compression)
	}
	return c, nil
}
