package disk

import (
	"io"
	"io/fs"
	"time"

	"faultline/sim/machine"
)

// file is an open file of one incarnation. It implements machine.File.
type file struct {
	v    *view
	n    *node
	name string
	open bool
	busy int // Syncs that wait
	slot int // index in Model.handles
}

func (f *file) Name() string { return f.name }

// fault wraps an error of an operation on the file.
func (f *file) fault(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// begin asks the world first, so that a dead task unwinds before it touches anything.
func (f *file) begin(offset int64) (time.Duration, error) {
	now, err := f.v.begin()
	if err == nil && !f.open {
		err = fs.ErrClosed
	}
	if err == nil && offset < 0 {
		err = fs.ErrInvalid
	}
	return now, err
}

func (f *file) Pread(p []byte, offset int64) (int, error) {
	now, err := f.begin(offset)
	if err != nil {
		return 0, f.fault("pread", err)
	}
	v, m, n := f.v, f.v.m, f.n
	want := len(p)
	var delay time.Duration
	if len(m.faults) > 0 {
		c := v.consult(OpRead, n.path, want)
		if c.err != nil {
			v.end("pread", n.path, offset, c.err, v.w.Now()+m.cfg.Call+c.delay)
			return 0, f.fault("pread", c.err)
		}
		want, delay = c.count, c.delay
		now = v.w.Now()
	}
	until := max(now+m.cfg.Call, m.load(n, offset, int64(want), now))
	v.w.Wait(until + delay)
	k := int(min(int64(want), n.size-offset))
	if k <= 0 {
		v.w.Record("pread", n.path, offset, 0)
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n.read(p[:k], offset, false)
	if n.patches != nil {
		n.patchOver(p[:k], offset)
	}
	v.w.Record("pread", n.path, offset, int64(k))
	return k, nil
}

func (f *file) Pwrite(p []byte, offset int64) (int, error) {
	if _, err := f.begin(offset); err != nil {
		return 0, f.fault("pwrite", err)
	}
	v, m, n := f.v, f.v.m, f.n
	want := len(p)
	var c verdict
	if len(m.faults) > 0 {
		c = v.judge(OpWrite, n.path, want, offset/PageBytes, n.pages())
		v.hold(&c)
		if c.err != nil {
			v.end("pwrite", n.path, offset, c.err, v.w.Now()+m.cfg.Call+c.delay)
			return 0, f.fault("pwrite", c.err)
		}
		want = c.count
	}
	done := 0
	if offset%PageBytes+int64(want) > PageBytes {
		if n.split == nil {
			n.split = v.w.Stream("disk/split-write", m.name+"/"+n.key)
		}
		if n.split.IntN(16) == 0 {
			// A kill, and a reader, may find the first pages of a write without the rest.
			pages := (offset%PageBytes + int64(want) - 1) / PageBytes
			first := int((n.split.Int64N(pages)+1)*PageBytes - offset%PageBytes)
			done = f.apply(p[:first], offset, &c)
			v.w.Record("pwrite", n.path, offset, int64(done))
			v.w.Wait(v.w.Now())
			c.misdirect = nil
			if done < first {
				want = done
			}
		}
	}
	if done < want {
		done += f.apply(p[done:want], offset+int64(done), &c)
	}
	if done == 0 && len(p) > 0 { // also when the first pages of a write in two steps did not fit
		v.end("pwrite", n.path, offset, machine.ErrNoSpace, v.w.Now()+m.cfg.Call)
		return 0, f.fault("pwrite", machine.ErrNoSpace)
	}
	now := v.w.Now()
	until := max(now+m.cfg.Call, m.writeBack(now)) + c.delay
	v.w.Record("pwrite", n.path, offset, int64(done))
	v.w.Wait(until)
	return done, nil
}

// apply lands what fits of p in the cache and returns how much that was.
func (f *file) apply(p []byte, offset int64, c *verdict) int {
	m, n := f.v.m, f.n
	p = p[:m.room(n, offset, len(p))]
	if len(p) == 0 {
		return 0
	}
	if c.misdirect != nil && c.astray < n.pages() {
		m.misdirect(n, p, offset, c.astray, c.misdirect)
	} else {
		m.write(n, p, offset)
	}
	m.cached(n, offset, int64(len(p)))
	n.mtime = f.v.clock()
	return len(p)
}

func (f *file) Truncate(size int64) error {
	if _, err := f.begin(size); err != nil {
		return f.fault("truncate", err)
	}
	c := f.v.consult(OpTruncate, f.n.path, 0)
	if c.err == nil {
		f.v.m.notifyFile(Truncated, f.n, "", size)
		f.v.m.truncate(f.n, size)
		f.n.mtime = f.v.clock()
	}
	f.v.end("truncate", f.n.path, size, c.err, f.v.w.Now()+f.v.m.cfg.Call+c.delay)
	if c.err != nil {
		return f.fault("truncate", c.err)
	}
	return nil
}

func (f *file) Sync() error {
	now, err := f.begin(0)
	if err != nil {
		return f.fault("sync", err)
	}
	v, m, n := f.v, f.v.m, f.n
	if len(n.dirty) == 0 && len(n.flights) == 0 && n.size == n.synced && n.cut >= n.synced && len(m.faults) == 0 {
		m.notifyFile(Synced, n, "", 0)
		v.end("sync", n.path, n.size, nil, now+m.cfg.Call)
		return nil
	}
	var c verdict
	if len(m.faults) > 0 {
		c = v.judge(OpSync, n.path, 0, 0, 0)
	}
	if c.lie && c.err == nil {
		return f.pretend(&c, now)
	}
	f.busy++
	fl := m.capture(n, now)
	v.w.Record("sync", n.path, fl.size, int64(len(fl.pages)))
	v.hold(&c) // a stalled device stalls here: nothing is durable yet
	v.w.Wait(max(fl.end, v.w.Now()) + m.cfg.Flush + c.delay)
	for n.flights[0] != fl { // Syncs of one file end in the order in which they began
		fl.wake = v.w.Waker()
		v.w.Park()
	}
	if c.err == nil && fl.failed {
		c.err = machine.ErrIO
	}
	if c.err != nil {
		for _, later := range n.flights { // they waited for the same write-back and see its error
			later.failed = true
		}
		m.fail(fl)
	} else {
		m.land(fl)
		m.notifyFile(Synced, n, "", 0)
	}
	f.busy--
	f.drop()
	if c.err != nil {
		v.end("synced", n.path, n.synced, c.err, v.w.Now())
		return f.fault("sync", c.err)
	}
	v.end("synced", n.path, n.synced, nil, v.w.Now())
	return nil
}

// pretend is a Sync under a Lie: the device takes the pages and its time, nothing becomes durable, and the pages stay what they were, so that
// the next honest Sync takes them again.
func (f *file) pretend(c *verdict, now time.Duration) error {
	v, m, n := f.v, f.v.m, f.n
	m.transferDirty(n, len(n.dirty), now)
	end := max(now, m.dev.busy)
	v.w.Record("sync", n.path, n.size, int64(len(n.dirty)))
	v.hold(c)
	v.w.Wait(max(end, v.w.Now()) + m.cfg.Flush + c.delay)
	v.end("synced", n.path, n.size, nil, v.w.Now())
	return nil
}

func (f *file) Size() (int64, error) {
	if _, err := f.begin(0); err != nil {
		return 0, f.fault("size", err)
	}
	f.v.w.Record("size", f.n.path, f.n.size, 0)
	return f.n.size, nil
}

func (f *file) Close() error {
	if _, err := f.begin(0); err != nil {
		return f.fault("close", err)
	}
	f.open = false
	f.v.w.Record("close", f.n.path, 0, 0)
	f.drop()
	return nil
}

// drop forgets a handle that is closed and that no Sync uses any more.
func (f *file) drop() {
	if f.open || f.busy > 0 {
		return
	}
	m := f.v.m
	last := m.handles[len(m.handles)-1]
	m.handles[f.slot], last.slot = last, f.slot
	m.handles = m.handles[:len(m.handles)-1]
	m.closed(f.n)
}
