package consumer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	broker "faultline/broker/client"
)

// OffsetForTime is the first offset of a partition that this member owns whose record's timestamp (ms since 1970) is at least ts, and that timestamp; Seek goes there. -1, -1: there is no such record yet. It asks the broker that
// the partition is read from. ErrNotOwner, ErrClosed; other errors pass with time, such as when nobody is known to lead the partition.
func (g *Group) OffsetForTime(topic string, partition int32, ts int64) (offset, timestamp int64, err error) {
	fail := func(err error) (int64, int64, error) {
		return -1, -1, fmt.Errorf("offset of %s/%d at %d: %w", topic, partition, ts, err)
	}
	if ts < 0 {
		return fail(fmt.Errorf("want a time of 0 or more"))
	}
	g.mu.Lock()
	c := g.find(topic, partition)
	addr, epoch, closing := "", int32(-1), g.closing
	if c != nil && c.fetcher != nil {
		addr, epoch = c.fetcher.broker.addr, c.epoch
	}
	g.mu.Unlock()
	switch {
	case closing:
		return fail(ErrClosed)
	case c == nil:
		return fail(ErrNotOwner)
	case addr == "":
		return fail(kerr.LeaderNotAvailable)
	}
	// Not by the connection of the fetches, on which a long poll may wait.
	conn, err := broker.Dial(g.m, addr, broker.Config{ClientID: g.id, DialTimeout: g.cfg.RequestTimeout, RequestTimeout: g.cfg.RequestTimeout, Tap: g.cfg.Tap})
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	if offset, timestamp, err = conn.Offset(topic, partition, epoch, ts); err != nil {
		return fail(err)
	}
	return offset, timestamp, nil
}
