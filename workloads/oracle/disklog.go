package oracle

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	simdisk "faultline/sim/disk"
	"faultline/workloads/history"
)

// diskLog is the log of one partition on one disk, as it lies there.
type diskLog struct {
	place
	on   *brokerDisk
	dir  string
	segs []*segmentScan // by base; holds durable batches only

	open    bool          // since LogOpened
	since   time.Duration // of that
	visible int64         // what the broker said is flushed: without other replicas, what consumers may see
	failed  bool          // an I/O error fenced it since it was opened
	before  *stopped      // how it was when its process last stopped, until it is open again
	offline string        // why the broker could not open it
	floor   int64         // the log may not begin below it any more: it began there when it was open, and what lay below is surely gone
	ruined  bool          // its disk was, since it was opened on a sound one last; nothing is judged
	sound   time.Duration // when it was opened on a sound disk again; 0: it was never ruined
	crowded time.Duration // since when retention should have removed the first segment; none: it should not
	crowd   span          // what that segment holds

	swap     span // a compaction is putting another file in the place of these offsets: a power loss may bring the old one back; empty: none
	replaced bool // and has done so, but the directory is not synced

	// Of a partition with several replicas.
	replicated bool
	committed  int64 // high watermark as this broker told it last
	restarted  int64 // where it was begun anew last, at its end or beyond
	cutting    bool  // its end is being cut off: a power loss may bring back what is gone already
}

// span are the offsets of a segment, next is not one of them.
type span struct{ base, next int64 }

// stopped is a log at the moment at which its process or machine stopped.
type stopped struct {
	at      time.Duration
	power   bool
	batches []logBatch // whole batches, cached, without a gap from start on
	start   int64      // first offset
	end     int64
	durable int64
	require int64 // the log must reach so far when it is recovered
	why     string
	extra   bool // an append had failed: whole batches may follow the end
	swap    span // see diskLog
}

// shown is the first offset that consumers may not see, as far as this broker knows.
func (l *diskLog) shown() int64 {
	if l.replicated {
		return l.committed
	}
	return l.visible
}

// restarts tells whether the log, of which start..end are left, is being dropped as a whole to begin anew: further on, as that of a follower is whose leader begins behind its end, or at its end, where
// the leader can tell nothing of what it has, or further back, as that of one is whose leader ends before its start. Its checkpoint says so first, and in the last case that broker has told that it
// knows of nothing committed there. The last segment goes first; retention, which writes the same when it takes all but an empty one, leaves that.
func (l *diskLog) restarts(start, end int64, last bool) bool {
	at := l.checkpointed()
	return (at != end || last) && l.anew(at, start, end)
}

// anew tells by what the checkpoint says whether whatever there is of the log is to go.
func (l *diskLog) anew(at, start, end int64) bool {
	return l.replicated && (at > end || at == end && start < end || at >= 0 && at < start && l.committed < start)
}

// sink lowers the floor for a log that begins anew further back.
func (l *diskLog) sink(to int64) {
	if l.replicated && to >= 0 && to < l.floor && l.committed < l.floor {
		l.floor = to
	}
}

// segment finds the segment with the base offset, or where it would be.
func (l *diskLog) segment(base int64) (int, bool) {
	return slices.BinarySearchFunc(l.segs, base, func(s *segmentScan, o int64) int { return cmp.Compare(s.base, o) })
}

// unsound tells whether an answer may be of a time at which the log was on a ruined disk.
func (l *diskLog) unsound(e *history.Event) bool { return l.ruined || e.Kafka.Start < l.sound }

// shorten takes note that the oldest segments were removed since the log stopped.
func (l *diskLog) shorten() {
	if live := l.live(); l.before != nil && len(live) > 0 && live[0].base > l.before.start {
		l.before.start = live[0].base
	}
}

// unseal says that the segments from index i on must be looked at again; -1: none.
func (l *diskLog) unseal(i int) {
	if i < 0 {
		return
	}
	for _, s := range l.segs[i:] {
		s.sealed = false
	}
}

// live are the segments without the dead ones, which are the oldest.
func (l *diskLog) live() []*segmentScan {
	i := 0
	for i < len(l.segs) && l.segs[i].dead {
		i++
	}
	return l.segs[i:]
}

// replace follows a compaction, whose file is durable and has the place of those of the swap now. The old ones count no more.
func (l *diskLog) replace(buf *scanBuffer, i int, e simdisk.Event) {
	to, _ := l.segment(l.swap.next)
	s := &segmentScan{base: l.swap.base, path: e.To, named: true}
	_ = s.scan(buf, e.File.ReadSyncedAt, e.File.Synced) // what is in the way shows when the log is read as a whole
	s.sealed = s.next() == l.swap.next
	l.segs = slices.Replace(l.segs, i, to, s)
	l.replaced = true
}

// checkpointed is the log start that the log's checkpoint file tells, as a power loss would leave it: a restart may not go below it. -1: none.
func (l *diskLog) checkpointed() int64 {
	f, ok := l.on.model.File(l.checkpoint())
	if !ok || !f.EntryDurable() {
		return -1
	}
	return startIn(f.Synced, f.ReadSyncedAt)
}

// written is the log start that the checkpoint file tells now: after a power loss it is this one or the one before. -1: none.
func (l *diskLog) written() int64 {
	f, ok := l.on.model.File(l.checkpoint())
	if !ok {
		return -1
	}
	return startIn(f.Size, f.ReadAt)
}

func (l *diskLog) checkpoint() string { return path.Join(l.dir, "checkpoint") }

// startIn reads a checkpoint file of so many bytes.
func startIn(size int64, read func(p []byte, off int64) (int, error)) int64 {
	p := make([]byte, size)
	if n, _ := read(p, 0); int64(n) != size {
		return -1
	}
	var start int64
	if n, _ := fmt.Sscanf(string(p), "faultline-log 3 start %d ", &start); n != 1 {
		return -1
	}
	return start
}

// follow reads what became durable.
func (d *Disks) follow(l *diskLog) {
	first := len(l.segs)
	for first > 0 && !l.segs[first-1].sealed {
		first--
	}
	for i, s := range l.segs[first:] {
		f, ok := s.file(l.on.model)
		if !ok {
			continue
		}
		s.named = f.EntryDurable()
		_ = s.scan(&d.buf, f.ReadSyncedAt, f.Synced) // what is in the way shows in durable
		if at := first + i; at+1 < len(l.segs) {
			whole := at == 0 || l.segs[at-1].dead || l.segs[at-1].sealed // a gap before it must not be passed over
			s.sealed = whole && s.named && s.pos == f.Size && l.segs[at+1].base == s.next()
		}
	}
}

// flushed is the first offset that fsync has not made durable.
func (d *Disks) flushed(l *diskLog) int64 {
	end, _ := d.reach(l, false)
	return end
}

// durable is the first offset that a power loss could take, and why. It asks for durable names too.
func (d *Disks) durable(l *diskLog) (end int64, why string) { return d.reach(l, true) }

func (d *Disks) reach(l *diskLog, names bool) (end int64, why string) {
	segs := l.live()
	if len(segs) == 0 {
		return 0, "there is no segment"
	}
	first := len(segs) - 1
	for first > 0 && !segs[first-1].sealed {
		first--
	}
	end = segs[first].base
	for i, s := range segs[first:] {
		switch {
		case s.base != end:
			return end, "the next segment begins at " + strconv.FormatInt(s.base, 10)
		case names && !s.named:
			return end, "the name of " + s.path + " is not durable"
		}
		end = s.next()
		if f, ok := s.file(l.on.model); first+i+1 < len(segs) && (!ok || s.pos != f.Size) {
			return end, s.path + " is not durable from position " + strconv.FormatInt(s.pos, 10) + " on"
		}
	}
	return end, "nothing is durable behind it"
}

// whole is what [Disks.cached] says of a log.
type whole struct {
	batches    []logBatch
	start, end int64
	wrong      string
}

// last is cached at the end of a run, when nothing changes any more: each log is read once for all oracles.
func (d *Disks) last(l *diskLog) (batches []logBatch, start, end int64, wrong string) {
	x := d.ended[l]
	if x == nil {
		x = &whole{}
		x.batches, x.start, x.end, x.wrong = d.cached(l)
		d.ended[l] = x
	}
	return x.batches, x.start, x.end, x.wrong
}

// cached reads the whole log as processes see it: batches without a gap, where they end, and what is in the way there ("": nothing).
func (d *Disks) cached(l *diskLog) (batches []logBatch, start, end int64, wrong string) {
	segs := l.live()
	if len(segs) == 0 {
		return nil, 0, 0, ""
	}
	start = segs[0].base
	end = start
	durable := 0
	for _, s := range segs {
		durable += len(s.batches)
	}
	batches = make([]logBatch, 0, durable+durable/8+16)
	for _, s := range segs {
		if s.base != end {
			return batches, start, end, s.path + " begins there, the segment before ends at " + strconv.FormatInt(end, 10)
		}
		all := segmentScan{base: s.base, path: s.path, batches: batches[len(batches):]}
		f, ok := s.file(l.on.model)
		if !ok {
			return batches, start, end, s.path + " is gone"
		}
		err := all.scan(&d.buf, f.ReadAt, f.Size)
		batches = append(batches, all.batches...) // in place, while there is room
		end = all.next()
		if err != nil {
			return batches, start, end, s.path + ", position " + strconv.FormatInt(all.pos, 10) + ": " + err.Error()
		}
	}
	return batches, start, end, ""
}
