package group

import "time"

// Config are the coordinator's settings, with the names that Kafka has for them. Start from Defaults.
type Config struct {
	MinSession           time.Duration // group.min.session.timeout.ms
	MaxSession           time.Duration // group.max.session.timeout.ms
	InitialDelay         time.Duration // group.initial.rebalance.delay.ms: the first rebalance of an empty group waits for more members (KIP-134)
	NewMemberJoinTimeout time.Duration // how long a member that never got an answer to a join may wait for one before it must ask again
	MaxSize              int           // group.max.size; 0: no limit
	MaxMetadata          int           // offset.metadata.max.bytes
	Retention            time.Duration // offsets.retention.minutes
	RetentionCheck       time.Duration // offsets.retention.check.interval.ms

	// Grace is how long after the loading an earlier coordinator of the same groups may still answer, because it has not heard yet that it is none any more. For so much longer
	// nobody who was a member when the loading began is counted out: it may act by what the earlier one told it. Default 0.
	Grace time.Duration

	// NewID makes the part of a member id that makes it unique. It is called once for each member.
	NewID func() string
	// Exists tells whether offsets may be committed for a partition. nil: for any.
	Exists func(topic string, partition int32) bool
}

// Defaults are Kafka's, with newID as the source of member ids.
func Defaults(newID func() string) Config {
	return Config{
		MinSession: 6 * time.Second, MaxSession: 30 * time.Minute,
		InitialDelay: 3 * time.Second, NewMemberJoinTimeout: 5 * time.Minute,
		MaxMetadata: 4096,
		Retention:   7 * 24 * time.Hour, RetentionCheck: 10 * time.Minute,
		NewID: newID,
	}
}

// Time is the moment of a call.
type Time struct {
	Up   time.Duration // Machine.Uptime: what timers go by
	Wall int64         // Machine.Now in ms since 1970: what is written into records, and what retention goes by
}

// Client is who sent a request.
type Client struct {
	ID   string // client id of the request header
	Host string
}
