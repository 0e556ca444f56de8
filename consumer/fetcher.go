package consumer

import (
	"time"

	broker "faultline/broker/client"
	"faultline/sim/machine"
)

// fetcher is the task that reads from one broker, for all partitions of it that this member owns. It lives from one rebalance to the next and has a
// connection of its own, so that giving up the partitions can cut a long poll short.
type fetcher struct {
	g      *Group
	broker brokerState
	claims []*claim

	// Group.mu guards these.
	cond    machine.Cond // stopped, room in a queue, a Seek
	waiting bool         // in cond
	stopped bool
	cut     bool // the connection was closed on purpose, to start over
	conn    *broker.Conn
	until   time.Duration // Uptime before which nothing is tried

	// Only the task looks: failures in a row, of the connection, and the request under way.
	failures int
	asked    []ask
	got      []reply
	resets   []*claim
	maxWait  time.Duration
	encoder  fetchEncoder
}

// ask is what a fetch asked of one partition.
type ask struct {
	c        *claim
	cursor   *cursor
	position int64
	epoch    int32
}

const (
	// pausedWait is how long a fetch may wait when a queue that was full may have room before.
	pausedWait = 100 * time.Millisecond
	// fetchBackoff is the pause after a failure of a broker or partition; it doubles with each further one up to fetchBackoffMax.
	fetchBackoff    = 100 * time.Millisecond
	fetchBackoffMax = 2 * time.Second
)

// newFetchers makes a fetcher for each broker of the claims. Called with the lock held.
func (g *Group) newFetchers(claims []*claim) []*fetcher {
	var fs []*fetcher
next:
	for _, c := range claims {
		for _, f := range fs {
			if f.broker == c.broker {
				f.claims = append(f.claims, c)
				c.fetcher = f
				continue next
			}
		}
		c.fetcher = &fetcher{g: g, broker: c.broker, claims: []*claim{c}, cond: g.m.NewCond("consumer/fetcher", g.mu)}
		fs = append(fs, c.fetcher)
	}
	return fs
}

func (f *fetcher) run() {
	for f.next() {
		conn, err := f.connect()
		if err == nil && len(f.resets) > 0 {
			err = f.lookUp(conn)
		} else if err == nil {
			err = f.fetch(conn)
		}
		f.settle(err)
	}
	if f.conn != nil {
		f.conn.Close()
	}
}

// next waits until there is something to do and says what: positions to look up, or partitions to fetch from. It leaves out partitions
// whose queue is full: they hold nobody up. False: stopped.
func (f *fetcher) next() bool {
	g := f.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for !f.stopped {
		f.asked, f.resets = f.asked[:0], f.resets[:0]
		now := g.m.Uptime()
		later := time.Duration(-1) // until something that has to wait comes due
		soonest := func(at time.Duration) {
			if d := at - now; later < 0 || d < later {
				later = d
			}
		}
		paused := false
		if f.until > now {
			soonest(f.until)
		} else {
			for _, c := range f.claims {
				switch {
				case c.gone:
				case c.paused.Load():
				case c.notBefore > now:
					soonest(c.notBefore)
				case c.position < 0:
					f.resets = append(f.resets, c)
				case c.stream.full():
					g.m.Mark("mark/consumer/queue-full")
					paused = true
				default:
					f.asked = append(f.asked, ask{c, c.cursor, c.position, c.epoch})
				}
			}
		}
		if len(f.asked)+len(f.resets) > 0 {
			f.maxWait = g.cfg.MaxWait
			if paused {
				f.maxWait = min(f.maxWait, pausedWait)
			}
			if later > 0 {
				f.maxWait = min(f.maxWait, later)
			}
			return true
		}
		f.waiting = true
		if later >= 0 {
			f.cond.WaitTimeout(later)
		} else {
			f.cond.Wait()
		}
		f.waiting = false
	}
	return false
}

// connect returns the connection, or makes it.
func (f *fetcher) connect() (*broker.Conn, error) {
	g := f.g
	if f.conn != nil && f.conn.Err() == nil {
		return f.conn, nil
	}
	if g.m.Failpoint("fault/consumer/connect") {
		return nil, errMisfortune
	}
	conn, err := broker.Dial(g.m, f.broker.addr, broker.Config{
		ClientID:       g.id,
		DialTimeout:    g.cfg.RequestTimeout,
		RequestTimeout: g.cfg.RequestTimeout,
		Tap:            g.cfg.Tap,
		Serial:         true,
		Spare:          &g.frames,
	})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	f.conn = conn
	stopped := f.stopped
	g.mu.Unlock()
	if stopped {
		g.m.Mark("mark/consumer/stopped-while-dialling")
		conn.Close()
		return nil, broker.ErrClosed
	}
	return conn, nil
}

// settle notes how a request went: after a failure the broker is left alone for a while, longer with each in a row.
func (f *fetcher) settle(err error) {
	if err == nil {
		f.failures = 0
		return
	}
	g := f.g
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case f.cut:
		f.cut = false
	case g.party != nil:
		g.party.fled(f)
	default:
		f.until = g.m.Uptime() + g.pause(f.failures)
		f.failures++
	}
}

// pause is the back-off after so many failures before. Called with the lock held.
func (g *Group) pause(failures int) time.Duration {
	return g.spread(min(fetchBackoff<<min(failures, 10), fetchBackoffMax))
}

// room wakes fetchers that wait for it. Called with the lock held.
func (g *Group) room() {
	for _, f := range g.fetchers {
		if f.waiting {
			f.cond.Signal()
		}
	}
}

// refetch makes the partition's fetcher look at it anew. It returns the connection that may wait for its old position; the caller closes it when it has let
// the lock go. Called with the lock held.
func (g *Group) refetch(c *claim) *broker.Conn {
	f := c.fetcher
	if f == nil {
		return nil
	}
	f.cond.Signal()
	f.cut = f.conn != nil && !f.waiting
	if f.cut {
		return f.conn
	}
	return nil
}
