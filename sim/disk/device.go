package disk

import (
	"slices"
	"time"

	"faultline/sim"
)

// device is the queue of one device and where its head is.
type device struct {
	busy time.Duration // transfers asked now start then
	node *node         // the last transfer ended in this file,
	next int64         // before this page

	watched sim.Window
	works   time.Duration // how long it is busy within
}

// occupy queues work and returns when it is done.
func (d *device) occupy(now, lasts time.Duration) time.Duration {
	begin := max(d.busy, now)
	d.busy = begin + lasts
	d.works += d.watched.Holds(begin, d.busy)
	return d.busy
}

// Watch has the device count anew how long it transfers and seeks within a window. Flushes do not count: they hold up who waits for them, nobody else.
func (m *Model) Watch(w sim.Window) { m.dev.watched, m.dev.works = w, 0 }

// Busy is how long the device was busy within the window of Watch, as far as is known by now: what is queued counts already.
func (m *Model) Busy() time.Duration { return m.dev.works }

// transfer queues pages [first, first+count) of a file and returns when they are done.
func (m *Model) transfer(n *node, first, count, bandwidth int64, now time.Duration) time.Duration {
	d := &m.dev
	took := lasts(count*PageBytes, bandwidth)
	if d.node != n || d.next != first {
		took += m.cfg.Seek
	}
	d.node, d.next = n, first+count
	return d.occupy(now, took)
}

// transferDirty writes the file's oldest dirty pages that are not written back yet, up to dirty[:to], each run of neighbours as one transfer.
func (m *Model) transferDirty(n *node, to int, now time.Duration) {
	m.dirtyPages -= int64(to - n.written)
	for n.written < to {
		first := n.dirty[n.written]
		count := int32(1)
		n.written++
		for n.written < to && n.dirty[n.written] == first+count {
			count++
			n.written++
		}
		m.transfer(n, int64(first), int64(count), m.cfg.WriteBandwidth, now)
	}
}

// enqueue puts a file with dirty pages at the end of the write-back queue. Files that were synced, or are gone, since they were queued go when the
// queue has doubled, so that it holds no more than twice what has dirty pages.
func (m *Model) enqueue(n *node) {
	if n.queued {
		return
	}
	if len(m.queue) >= max(64, m.queueLimit) {
		m.queue = slices.DeleteFunc(m.queue, func(q *node) bool {
			clean := q.written == len(q.dirty)
			q.queued = !clean
			return clean
		})
		m.queueLimit = 2 * len(m.queue)
	}
	n.queued = true
	m.queue = append(m.queue, n)
}

// writeBack lets the kernel write dirty pages above the background limit, and returns until when a writer is held back.
func (m *Model) writeBack(now time.Duration) time.Duration {
	const batch = 256 // pages of one file at a time
	background := m.cfg.DirtyBackground / PageBytes
	for m.dirtyPages > background && len(m.queue) > 0 {
		n := m.queue[0]
		m.queue = append(m.queue[:0], m.queue[1:]...)
		n.queued = false
		if n.written == len(n.dirty) {
			continue
		}
		m.transferDirty(n, min(n.written+batch, len(n.dirty)), now)
		if n.written < len(n.dirty) {
			m.enqueue(n)
		}
	}
	slack := lasts(m.cfg.DirtyLimit-m.cfg.DirtyBackground, m.cfg.WriteBandwidth)
	return m.dev.busy - slack
}

// load brings the extents of a range into the cache and returns when the last of them is there.
func (m *Model) load(n *node, offset, length int64, now time.Duration) time.Duration {
	end := min(offset+length, n.size)
	if offset >= end {
		return now
	}
	until := now
	last := (end - 1) / extentBytes
	ahead := last
	if offset == n.nextRead {
		ahead = max(last, offset/extentBytes+m.cfg.Readahead/extentBytes-1)
		ahead = min(ahead, (n.size-1)/extentBytes)
	}
	n.nextRead = end
	for i := offset / extentBytes; i <= last; i++ {
		if e := n.at(i); e != nil && e.resident {
			m.touch(e)
			until = max(until, e.ready)
			continue
		}
		run := i
		for ; i <= ahead; i++ {
			if e := n.at(i); e != nil && e.resident {
				break
			}
			m.touch(n.reach(i))
		}
		done := m.transfer(n, run*extentPages, (i-run)*extentPages, m.cfg.ReadBandwidth, now)
		for ; run < i; run++ {
			n.at(run).ready = done
		}
		i--
		until = done
	}
	m.shrink()
	return until
}

// cached marks the extents of a range as resident: they were written.
func (m *Model) cached(n *node, offset, length int64) {
	for i := offset / extentBytes; i*extentBytes < offset+length; i++ {
		m.touch(n.extents[i])
	}
	m.shrink()
}

// touch makes an extent the most recently used one.
func (m *Model) touch(e *extent) {
	if e.resident {
		if m.lru.next == e {
			return
		}
		e.prev.next, e.next.prev = e.next, e.prev
	} else {
		e.resident = true
		m.resident++
	}
	e.prev, e.next = &m.lru, m.lru.next
	e.next.prev = e
	m.lru.next = e
}

// drop takes an extent out of the cache.
func (m *Model) drop(e *extent) {
	if e.resident {
		e.prev.next, e.next.prev = e.next, e.prev
		e.prev, e.next, e.resident, e.ready = nil, nil, false, 0
		m.resident--
	}
}

// shrink holds the cache to its size. Extents with unsynced pages stay, unless a failed Sync called these clean.
func (m *Model) shrink() {
	for tries := 0; m.resident*extentBytes > m.cfg.Cache && tries < 64; tries++ {
		e := m.lru.prev
		if e.busy() {
			m.touch(e)
			continue
		}
		m.drop(e)
		m.forget(e)
	}
}

func (e *extent) busy() bool {
	for i := range e.slots {
		if s := &e.slots[i]; s.flight != nil || s.flags&listed != 0 {
			return true
		}
	}
	return false
}

// forget decides about the pages of a dropped extent that a failed Sync has left: each reached the device or not.
func (m *Model) forget(e *extent) {
	n := e.node
	for i := range e.slots {
		s := &e.slots[i]
		if s.flags&orphan == 0 {
			continue
		}
		if n.luck == nil {
			n.luck = m.world.Stream("disk/failed-sync", m.name+"/"+n.key)
		}
		if n.luck.IntN(2) == 0 {
			s.cur, s.old = s.old, s.cur
			m.recount(n, s.old, s.cur)
		}
		m.freePage(s.old)
		s.old = nil
		s.flags &^= unsynced | orphan
	}
}

// recount adjusts the account of space when a page's bytes change from before to after.
func (m *Model) recount(n *node, before, after *page) {
	d := int64(0)
	if before == nil && after != nil {
		d = 1
	} else if before != nil && after == nil {
		d = -1
	}
	n.blocks += d
	if n.live {
		m.used += d
	}
}

func (m *Model) dropCache() {
	for e := m.lru.next; e != nil && e != &m.lru; {
		next := e.next
		m.drop(e)
		e = next
	}
	m.lru.next, m.lru.prev = &m.lru, &m.lru
	m.resident = 0
	m.dev.node, m.dev.next = nil, 0
}
