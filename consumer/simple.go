package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	broker "faultline/broker/client"
	"faultline/broker/record"
	"faultline/broker/wire"
	"faultline/sim/machine"
)

// Places to ask Offset for instead of a time.
const (
	Latest   = broker.Latest   // the first offset that is not visible yet
	Earliest = broker.Earliest // the log start
)

// SimpleConfig says how a consumer without a group reads. Zero fields take the default.
type SimpleConfig struct {
	Brokers        []string // addresses to find the cluster by ("host:port"); required
	ClientID       string
	FetchBytes     int32         // most bytes of one fetch (default 1 MiB)
	FetchMinBytes  int32         // a fetch waits for so many bytes (default 1) ...
	MaxWait        time.Duration // ... but no longer than this (default 5 s)
	RequestTimeout time.Duration // for the answer of a broker, besides MaxWait (default 10 s)
	Tap            broker.Tap
}

// Simple reads partitions by offset, without group, claims or commits: the application keeps its place. Its methods may be called by many tasks.
type Simple struct {
	m       machine.Machine
	cfg     SimpleConfig
	cluster *broker.Cluster
	frames  *wire.Spare // memory of answers, for all readers
}

// NewSimple contacts nobody yet.
func NewSimple(m machine.Machine, cfg SimpleConfig) (*Simple, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("simple consumer: no address of a broker: set SimpleConfig.Brokers")
	}
	if cfg.FetchBytes <= 0 {
		cfg.FetchBytes = 1 << 20
	}
	if cfg.FetchMinBytes <= 0 {
		cfg.FetchMinBytes = 1
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 5 * time.Second
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = 10 * time.Second
	}
	s := &Simple{m: m, cfg: cfg, frames: &wire.Spare{}}
	s.cluster = broker.NewCluster(m, cfg.Brokers, s.broker())
	return s, nil
}

func (s *Simple) broker() broker.Config {
	c := &s.cfg
	return broker.Config{ClientID: c.ClientID, RequestTimeout: c.RequestTimeout, DialTimeout: c.RequestTimeout, Tap: c.Tap, Spare: s.frames}
}

// Partitions is the number of partitions of a topic.
func (s *Simple) Partitions(topic string) (int32, error) {
	t, err := s.cluster.Topic(topic)
	if err != nil {
		return 0, err
	}
	return int32(len(t.Partitions)), nil
}

// Offset is the first offset whose record's timestamp (ms since 1970) is at least ts, and that timestamp; or Earliest or Latest. -1, -1: there is no such record.
func (s *Simple) Offset(topic string, partition int32, ts int64) (offset, timestamp int64, err error) {
	return s.cluster.Offset(topic, partition, ts)
}

// Close ends the connections. A Next under way returns ErrClosed once its fetch is over, which takes MaxWait at most.
func (s *Simple) Close() { s.cluster.Close() }

// Reader reads one partition from an offset on. It belongs to one task.
type Reader struct {
	s         *Simple
	topic     string
	partition int32
	position  int64 // next offset to hand over
	end       int64
	conn      *broker.Conn // its own, so that its long polls hold nobody up
	encoder   fetchEncoder
	records   reader
	failures  int
}

// Read starts at offset, which must be 0 or more: ask Offset for one.
func (s *Simple) Read(topic string, partition int32, offset int64) *Reader {
	return &Reader{s: s, topic: topic, partition: partition, position: offset, end: -1}
}

// Position is the offset of the record that Next returns next, provided that the log still holds it.
func (r *Reader) Position() int64 { return r.position }

// End is the first offset that was not visible at the last fetch; -1 before the first.
func (r *Reader) End() int64 { return r.end }

// SeekTo makes offset the next one.
func (r *Reader) SeekTo(offset int64) {
	r.position = offset
	r.records.chunk, r.records.batch = nil, false
}

// Next returns the next record; it blocks until there is one. Brokers that are away are waited for.
//
// Errors: *OutOfRangeError, with the offsets that there are to go to (SeekTo); *CorruptError; ErrClosed; ErrUnknownTopic of the broker client for a topic or
// partition that does not exist.
func (r *Reader) Next() (Message, error) {
	for {
		if r.records.chunk != nil {
			ok, err := r.records.next()
			r.records.charge(r.s.m)
			if err != nil {
				return Message{}, &CorruptError{r.topic, r.partition, r.position, err}
			}
			if ok {
				rec := r.records.it.Record
				r.position = rec.Offset + 1
				return Message{Topic: r.topic, Partition: r.partition, Record: rec}, nil
			}
			r.position = max(r.position, r.records.chunk.next)
			r.records.chunk.over()
			r.records.chunk = nil
		}
		err := r.fill()
		if err == nil {
			r.failures = 0
			continue
		}
		if fatal := r.fatal(err); fatal != nil {
			return Message{}, fatal
		}
		r.s.m.Sleep(min(fetchBackoff<<min(r.failures, 10), fetchBackoffMax))
		r.failures++
	}
}

// fatal returns the error for the application, or nil for one that passes with time.
func (r *Reader) fatal(err error) error {
	var out *OutOfRangeError
	switch {
	case errors.As(err, &out), errors.Is(err, broker.ErrUnknownTopic):
		return err
	case errors.Is(err, broker.ErrClosed):
		if _, err := r.s.cluster.Any(); errors.Is(err, broker.ErrClosed) {
			r.hangUp()
			return ErrClosed
		}
	}
	return nil
}

func (r *Reader) hangUp() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// fill fetches the next chunk.
func (r *Reader) fill() error {
	s := r.s
	leader, err := s.cluster.Leader(r.topic, r.partition)
	if err != nil {
		return err
	}
	if r.conn == nil || r.conn.Err() != nil || r.conn.Broker() != leader.Broker() {
		r.hangUp()
		if r.conn, err = broker.Dial(s.m, leader.Broker(), s.broker()); err != nil {
			r.conn = nil
			s.cluster.Invalidate(r.topic)
			return err
		}
	}
	got, bytes, err := fetchOne(r.conn, &r.encoder, s.cfg, r.topic, r.partition, r.position)
	if err != nil {
		return s.explain(err, r.topic, r.partition, r.position)
	}
	r.end = got.HighWatermark
	if len(got.RecordBatches) == 0 {
		return nil
	}
	s.m.Work(machine.Work{Summed: int64(len(got.RecordBatches))})
	ch, err := newChunk(nil, r.position, got.HighWatermark, got.RecordBatches)
	if err != nil || ch == nil {
		return err
	}
	if bytes != nil {
		ch.in(&frame{spare: s.frames, bytes: bytes})
	}
	s.m.Work(machine.Work{Received: ch.records, Batches: ch.batches})
	r.records = reader{it: r.records.it, chunk: ch}
	return nil
}

// Fetch asks once for records from offset on. It returns whole record batches (package record), of which the first may begin before the offset, and the first offset that
// is not visible yet; no bytes when nothing came within MaxWait. *OutOfRangeError; other errors pass with time.
func (s *Simple) Fetch(topic string, partition int32, offset int64) (batches []byte, end int64, err error) {
	conn, err := s.cluster.Leader(topic, partition)
	if err != nil {
		return nil, -1, err
	}
	got, _, err := fetchOne(conn, &fetchEncoder{}, s.cfg, topic, partition, offset)
	if err != nil {
		return nil, -1, s.explain(err, topic, partition, offset)
	}
	rest := got.RecordBatches
	for len(rest) > 0 {
		b, after, err := record.Next(rest)
		if errors.Is(err, record.ErrPartial) && len(rest) < len(got.RecordBatches) {
			break
		}
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return nil, -1, fmt.Errorf("fetch %s/%d from offset %d: %w", topic, partition, offset, err)
		}
		rest = after
	}
	return got.RecordBatches[:len(got.RecordBatches)-len(rest)], got.HighWatermark, nil
}

// fetchOne asks for one partition; bytes is the answer's frame.
func fetchOne(conn *broker.Conn, e *fetchEncoder, cfg SimpleConfig, topic string, partition int32, offset int64) (got *kmsg.FetchResponseTopicPartition, bytes []byte, err error) {
	e.begin(cfg.MaxWait, cfg.FetchMinBytes, cfg.FetchBytes)
	e.add(topic, topicID{}, partition, offset, -1, cfg.FetchBytes)
	answer, bytes, err := conn.Fetch(e.req)
	if err != nil {
		return nil, nil, err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		if answer.ErrorCode != 0 {
			return nil, nil, kerr.ErrorForCode(answer.ErrorCode)
		}
		return nil, nil, fmt.Errorf("fetch %s/%d from %s: the answer does not fit the question", topic, partition, conn.Broker())
	}
	p := &answer.Topics[0].Partitions[0]
	return p, bytes, kerr.ErrorForCode(p.ErrorCode)
}

// explain adds to a broker's error what the application needs, and has the leader looked up again.
func (s *Simple) explain(err error, topic string, partition int32, offset int64) error {
	if !errors.Is(err, kerr.OffsetOutOfRange) {
		s.cluster.Invalidate(topic)
		return fmt.Errorf("fetch %s/%d from offset %d: %w", topic, partition, offset, err)
	}
	start, _, err := s.cluster.Offset(topic, partition, Earliest)
	if err != nil {
		return err
	}
	end, _, err := s.cluster.Offset(topic, partition, Latest)
	if err != nil {
		return err
	}
	if offset >= start && offset <= end {
		return fmt.Errorf("fetch %s/%d from offset %d: the log changed meanwhile and holds %d up to %d now: try again", topic, partition, offset, start, end)
	}
	return &OutOfRangeError{topic, partition, offset, start, end}
}
