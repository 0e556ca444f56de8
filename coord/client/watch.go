package client

import (
	"slices"

	"faultline/coord/jute"
)

// watchBits says which watches are left at a path.
type watchBits uint8

const (
	dataWatch watchBits = 1 << iota
	existWatch
	childWatch
)

// arm remembers the watch that an answered request left. Under lock.
func (c *Client) arm(r *jute.Request, code jute.Code) {
	if !r.Watch {
		return
	}
	switch {
	case r.Op == jute.OpExists && code == jute.NoNode:
		c.armed[r.Path] |= existWatch
	case code != jute.OK:
	case r.Op == jute.OpGetChildren2:
		c.armed[r.Path] |= childWatch
	default:
		c.armed[r.Path] |= dataWatch
	}
}

// fired takes the watches that an event ends, and announces it if there were any: after a reconnection the server may tell a deletion once for each. Under lock.
func (c *Client) fired(e jute.Event) {
	event := Event{Path: e.Path, State: StateConnected}
	var ends watchBits
	switch e.Type {
	case jute.EventCreated:
		event.Type, ends = EventCreated, dataWatch|existWatch
	case jute.EventDeleted:
		event.Type, ends = EventDeleted, dataWatch|existWatch|childWatch
	case jute.EventDataChanged:
		event.Type, ends = EventDataChanged, dataWatch|existWatch
	case jute.EventChildrenChanged:
		event.Type, ends = EventChildrenChanged, childWatch
	default:
		return
	}
	had := c.armed[e.Path]
	if had&ends == 0 {
		c.m.Mark("mark/session/told-twice")
		return
	}
	if had &^= ends; had == 0 {
		delete(c.armed, e.Path)
	} else {
		c.armed[e.Path] = had
	}
	c.heard(Heard{Kind: HeardEvent, Path: event.Path, Event: event.Type})
	c.announce(event)
}

// rearm asks the new connection to leave all watches again. Under lock.
func (c *Client) rearm() {
	paths := make([]string, 0, len(c.armed))
	// order: sorted below
	for path := range c.armed {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	const chunk = 128 << 10 // well below the largest packet of any server
	var w jute.SetWatches
	size := 0
	flush := func() {
		if size > 0 {
			c.m.Mark("mark/session/watches-left-again")
			w.RelativeZxid = c.zxid
			c.link.rearms++
			c.link.out = appendRequest(c.link.out, &jute.Request{Xid: jute.XidSetWatches, Op: jute.OpSetWatches, Watches: &w})
			w, size = jute.SetWatches{}, 0
		}
	}
	for _, path := range paths {
		bits := c.armed[path]
		if bits&dataWatch != 0 {
			w.Data = append(w.Data, path)
		}
		if bits&existWatch != 0 {
			w.Exist = append(w.Exist, path)
		}
		if bits&childWatch != 0 {
			w.Child = append(w.Child, path)
		}
		if size += 3 * (len(path) + 4); size > chunk {
			flush()
		}
	}
	flush()
}

// heard shows the tap what the server sent. Under lock.
func (c *Client) heard(h Heard) {
	if c.cfg.Tap != nil {
		h.Session = c.session
		c.cfg.Tap.Heard(h)
	}
}

// heardAnswer shows the tap the answer to a request. Under lock.
func (c *Client) heardAnswer(r *jute.Request, reply *jute.Reply) {
	h := Heard{Kind: HeardAnswer, Path: r.Path, Watch: r.Watch, Found: reply.Code == jute.OK, Stat: reply.Stat, Zxid: reply.Zxid}
	switch r.Op {
	case jute.OpExists:
		h.Op, h.Reads = OpExists, true
	case jute.OpGetData:
		h.Op, h.Reads = OpGet, true
	case jute.OpGetChildren2:
		h.Op, h.Reads = OpChildren, true
	}
	c.heard(h)
}

// announce queues an event. A connection that comes and goes while OnEvent blocks leaves at most one pair of session events behind. Under lock.
func (c *Client) announce(e Event) {
	if c.cfg.OnEvent == nil {
		return
	}
	if n := len(c.pending); n >= 2 && e.Type == EventSession && c.pending[n-2] == e && c.pending[n-1].Type == EventSession {
		c.m.Mark("mark/session/events-merged")
		c.pending = c.pending[:n-1]
		return
	}
	c.pending = append(c.pending, e)
	c.events.Signal()
}

// deliver is the task that hands events to OnEvent.
func (c *Client) deliver() {
	c.lock.Lock()
	defer c.lock.Unlock()
	for {
		for len(c.pending) == 0 {
			if c.phase == closed || c.phase == expired {
				return
			}
			c.events.Wait()
		}
		e := c.pending[0]
		c.pending = slices.Delete(c.pending, 0, 1)
		c.lock.Unlock()
		c.m.Failpoint("fault/session/event-late")
		c.cfg.OnEvent(e)
		c.lock.Lock()
	}
}
