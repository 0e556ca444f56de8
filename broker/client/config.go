package client

import (
	"time"

	"faultline/broker/wire"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config says how to talk to brokers. The zero value is usable: zero fields take the default.
type Config struct {
	ClientID         string        // shown to brokers in every request header (default "faultline")
	DialTimeout      time.Duration // to connect and negotiate versions (default 10 s)
	RequestTimeout   time.Duration // from Start to the answer (default 30 s); a fetch gets its MaxWaitMillis on top
	MaxResponseBytes int           // a larger answer fails the connection (default 128 MiB)

	// A cluster waits at least Backoff between two refreshes of its metadata and between two dials of the same broker.
	// The wait doubles with every failure in a row up to BackoffMax, and is spread by up to a quarter either way.
	Backoff    time.Duration // default 100 ms
	BackoffMax time.Duration // default 1 s
	// MetadataMaxAge is how old cached metadata may grow before a call refreshes it (default 5 min).
	MetadataMaxAge time.Duration

	// AtMost is, by API key, the newest version to speak, for a client that is as old as that. Of others it is the newest that both sides know.
	AtMost map[int16]int16

	// Serial: one request is under way at a time. Who waits for the answer reads it, which spares a task and its wake-up; that the broker closed the connection shows with the next request only. The
	// answer to a fetch is valid until the next request starts, for then its memory is used again; that of its record batches is not, unless Transient says so.
	Serial, Transient bool

	// Spare is where large requests and answers get their memory from. Requests, and answers to transient connections, go back to it. Default: each connection has its own; those of a cluster share.
	Spare *wire.Spare

	Tap Tap // sees every request when it is over; nil: nobody
}

// Tap sees each request once, when its outcome is known. Done runs in the task that waits for the answer, must not
// block, and must copy what it keeps of Req and Resp: they belong to the caller.
//
// A request whose process was killed before the outcome was known is never seen.
type Tap interface {
	Done(call Call)
}

// Call is a finished request.
type Call struct {
	Machine    string        // name of the machine that asked
	Broker     string        // address that was dialled, "host:port"
	Req        kmsg.Request  // with the version that was used
	Resp       kmsg.Response // nil when Err is set or the request has no answer (produce with acks=0)
	Err        error         // see the package's errors
	Sent       bool          // false: not one byte of it was put on the wire
	Start, End time.Duration // the asking machine's Uptime
}

func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = "faultline"
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.DialTimeout, 10*time.Second)
	def(&c.RequestTimeout, 30*time.Second)
	def(&c.Backoff, 100*time.Millisecond)
	def(&c.BackoffMax, time.Second)
	def(&c.MetadataMaxAge, 5*time.Minute)
	if c.MaxResponseBytes <= 0 {
		c.MaxResponseBytes = 128 << 20
	}
	return c
}
