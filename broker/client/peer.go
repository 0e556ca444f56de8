package client

import (
	"slices"
	"time"
)

// pace spaces attempts: at least the back-off between two, doubled for each failure in a row.
type pace struct {
	failures  int
	notBefore time.Duration // uptime of the next attempt
}

// ended records an attempt's outcome. spread is in [0, 1).
func (p *pace) ended(ok bool, now, base, most time.Duration, spread float64) {
	if ok {
		p.failures = 0
	} else {
		p.failures++
	}
	wait := base
	for i := 1; i < p.failures && wait < most; i++ {
		wait *= 2
	}
	wait = min(wait, max(most, base))
	wait += time.Duration(float64(wait) * (spread - 0.5) / 2)
	p.notBefore = now + wait
}

// peer is an address that may be dialled.
type peer struct {
	addr    string
	conn    *Conn
	dialing bool
	dials   int   // ended
	err     error // of the last dial
	pace    pace
}

func (c *Cluster) peer(addr string) *peer {
	p := c.peers[addr]
	if p == nil {
		p = &peer{addr: addr}
		c.peers[addr] = p
	}
	return p
}

// addrs lists the addresses of known peers, sorted.
func (c *Cluster) addrs() []string {
	out := make([]string, 0, len(c.peers))
	// order: sorted below
	for a := range c.peers {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// connected returns the peer's connection when it is usable.
func (p *peer) connected() *Conn {
	if p.conn != nil && p.conn.Err() != nil {
		p.conn = nil
	}
	return p.conn
}

// connectLocked returns the peer's connection, dialling when there is none. Tasks that come while another one dials share its outcome.
func (c *Cluster) connectLocked(p *peer) (*Conn, error) {
	for {
		if c.closed {
			return nil, notSent(ErrClosed)
		}
		if conn := p.connected(); conn != nil {
			return conn, nil
		}
		if p.dialing {
			c.m.Mark("mark/client/shared-dial")
			for before := p.dials; p.dials == before && !c.closed; {
				c.changed.Wait()
			}
			if p.err != nil {
				return nil, p.err
			}
			continue
		}
		if wait := p.pace.notBefore - c.m.Uptime(); wait > 0 {
			c.changed.WaitTimeout(wait)
			continue
		}
		p.dialing = true
		c.mu.Unlock()
		conn, err := Dial(c.m, p.addr, c.cfg)
		c.mu.Lock()
		p.dialing, p.err = false, err
		p.dials++
		p.pace.ended(err == nil, c.m.Uptime(), c.cfg.Backoff, c.cfg.BackoffMax, c.rng.Float64())
		c.changed.Broadcast()
		if err != nil {
			c.m.Mark("mark/client/dial-failed")
			return nil, err
		}
		if c.closed {
			conn.Close()
			return nil, notSent(ErrClosed)
		}
		p.conn = conn
		return conn, nil
	}
}

// Any returns a connection to some live broker: one that is connected, or else the next one that answers a dial.
func (c *Cluster) Any() (*Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.anyLocked()
}

func (c *Cluster) anyLocked() (*Conn, error) {
	var live []*Conn
	var candidates []*peer
	add := func(addr string) {
		p := c.peer(addr)
		if slices.Contains(candidates, p) {
			return
		}
		candidates = append(candidates, p)
		if conn := p.connected(); conn != nil {
			live = append(live, conn)
		}
	}
	for _, b := range c.brokers {
		add(b.addr)
	}
	for _, a := range c.bootstrap {
		add(a)
	}
	if len(live) > 0 {
		return live[c.rng.IntN(len(live))], nil
	}
	// Whoever may be dialled first; among equals a random one, so that clients spread.
	c.rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	now := c.m.Uptime()
	slices.SortStableFunc(candidates, func(a, b *peer) int {
		return int(max(a.pace.notBefore, now) - max(b.pace.notBefore, now))
	})
	err := notSent(ErrNoLeader)
	for _, p := range candidates {
		var conn *Conn
		if conn, err = c.connectLocked(p); err == nil {
			return conn, nil
		}
	}
	return nil, err
}
