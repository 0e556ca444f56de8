package disk

import "time"

// flight is a Sync between its capture and its end. Pages that change meanwhile leave their captured bytes with it.
type flight struct {
	n      *node
	pages  []captured
	size   int64
	reach  int64 // smallest length between the durable state and the capture
	cut    int64 // smallest length since the capture
	mtime  time.Time
	end    time.Duration // when the device is done
	failed bool          // an earlier Sync of the file failed while this one waited
	wake   func()        // not nil: it waits for the earlier ones to end
}

type captured struct {
	page  int32
	saved bool  // the page changed since: image is what was captured
	image *page // nil: zeros
}

// capture starts a Sync and returns it with the time at which the device has written its pages.
func (m *Model) capture(n *node, now time.Duration) *flight {
	var fl *flight
	if k := len(m.flights); k > 0 {
		fl, m.flights = m.flights[k-1], m.flights[:k-1]
	} else {
		fl = new(flight)
	}
	fl.n, fl.size, fl.reach, fl.cut, fl.mtime = n, n.size, n.cut, n.size, n.mtime
	m.transferDirty(n, len(n.dirty), now)
	for i, pg := range n.dirty {
		s := n.peekSlot(int64(pg))
		s.flags &^= listed
		s.flight, s.at = fl, int32(i)
		fl.pages = append(fl.pages, captured{page: pg})
	}
	n.dirty, n.written = n.dirty[:0], 0
	fl.end = max(now, m.dev.busy)
	n.flights = append(n.flights, fl)
	return fl
}

// land ends the file's oldest Sync with success: what it captured is durable.
func (m *Model) land(fl *flight) {
	n := fl.n
	for i := range fl.pages {
		c := &fl.pages[i]
		s := n.peekSlot(int64(c.page))
		m.freePage(s.old)
		s.old = nil
		if c.saved {
			s.old = c.image
			c.image = nil
			continue
		}
		s.flags &^= unsynced
		s.flight = nil
	}
	// The truncation is durable too: it also cut pages that an earlier, failed Sync has left behind.
	for pg := fl.reach / PageBytes; pg*PageBytes < n.synced; pg++ {
		if s := n.peekSlot(pg); s != nil && s.flags&orphan != 0 && s.old != nil {
			clear(s.old[max(fl.reach-pg*PageBytes, 0):])
		}
	}
	n.synced, n.cut, n.syncedTime = fl.size, fl.cut, fl.mtime
	m.endFlight(fl)
}

// fail ends the file's oldest Sync with an error: its pages count as clean and are not promised.
func (m *Model) fail(fl *flight) {
	for i := range fl.pages {
		c := &fl.pages[i]
		if c.saved {
			m.freePage(c.image)
			c.image = nil
			continue
		}
		s := fl.n.peekSlot(int64(c.page))
		s.flags |= orphan
		s.flight = nil
	}
	m.endFlight(fl)
}

func (m *Model) endFlight(fl *flight) {
	n := fl.n
	n.flights = append(n.flights[:0], n.flights[1:]...)
	m.recycle(fl)
	if len(n.flights) > 0 && n.flights[0].wake != nil {
		n.flights[0].wake()
		n.flights[0].wake = nil
	}
}

// cancel gives up a Sync whose process died: its pages are unsynced as before. The caller clears node.flights.
func (m *Model) cancel(fl *flight) {
	for i := range fl.pages {
		c := &fl.pages[i]
		if c.saved {
			m.freePage(c.image)
			c.image = nil
			continue
		}
		s := fl.n.peekSlot(int64(c.page))
		s.flight = nil
		s.flags &^= unsynced // detach lists it again and must not take cur for durable
		old := s.old
		m.detach(fl.n, s, int64(c.page))
		s.old = old
	}
	m.recycle(fl)
}

func (m *Model) recycle(fl *flight) {
	fl.n, fl.failed, fl.wake = nil, false, nil
	fl.pages = fl.pages[:0]
	m.flights = append(m.flights, fl)
}
