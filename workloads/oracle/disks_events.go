package oracle

import (
	"path"
	"slices"
	"strconv"
	"strings"

	simdisk "faultline/sim/disk"
)

// happened takes an event of a disk.
func (d *Disks) happened(b *brokerDisk, e simdisk.Event) {
	clear(d.ended)
	switch e.Kind {
	case simdisk.ProcessCrashed, simdisk.PowerLost:
		d.stop(b, e.Kind == simdisk.PowerLost)
		return
	case simdisk.Wiped:
		for _, l := range b.order {
			l.before, l.open, l.segs, l.floor = nil, false, nil, 0
		}
		return
	case simdisk.Renamed:
		d.renamed(b, e)
		return
	}
	if e.Kind == simdisk.DirSynced {
		// What was removed before does not come back, whatever happens.
		if l := b.logs[e.File.Path]; l != nil && l.open && len(l.segs) > 0 {
			l.floor = max(l.floor, l.segs[0].base)
			if l.replaced {
				l.swap, l.replaced = span{}, false
			}
		}
		return
	}
	dir, base, ok := segmentFile(e.File.Path)
	if !ok {
		return
	}
	l := b.logs[dir]
	if l == nil {
		if e.Kind != simdisk.Created {
			return
		}
		place, ok := parseLogDir(dir)
		if !ok {
			return
		}
		place = d.promise.Incarnations.on(b.machine, place)
		l = &diskLog{place: place, on: b, dir: dir, crowded: none, ruined: d.promise.Ruins.Disk(b.machine), replicated: d.promise.Replicated(place.topic)}
		b.logs[dir], b.named[place.String()] = l, l
		b.order = append(b.order, l)
	}
	i, found := l.segment(base)
	switch e.Kind {
	case simdisk.Created:
		if !found {
			l.segs = slices.Insert(l.segs, i, &segmentScan{base: base, path: e.File.Path})
		} else {
			l.segs[i] = &segmentScan{base: base, path: e.File.Path}
		}
		l.unseal(i - 1)
	case simdisk.Removed:
		if found && !(l.open && base >= l.swap.base && base < l.swap.next) { // or it is replaced
			l.cutting = l.cutting || l.replicated && i > 0 && i == len(l.segs)-1
			d.removed(l, l.segs[i])
			l.segs = slices.Delete(l.segs, i, i+1)
			l.unseal(i - 1)
			l.shorten()
		}
	case simdisk.Synced:
		if found && l.open {
			d.follow(l)
			for _, fn := range d.onSynced {
				if !l.ruined {
					fn(l)
				}
			}
		}
	case simdisk.Truncated:
		if found {
			l.cutting = l.cutting || l.replicated
			for _, fn := range d.onCut {
				if !l.ruined {
					fn(l, l.segs[i], e.Size)
				}
			}
			if l.segs[i].cut(e.Size) {
				l.unseal(i)
			}
		}
	}
}

// removed tells that a segment goes.
func (d *Disks) removed(l *diskLog, s *segmentScan) {
	for _, fn := range d.onRemove {
		if !l.ruined {
			fn(l, s)
		}
	}
}

// renamed takes note of a log's directory that gets another name, which is how a log is deleted.
func (d *Disks) renamed(b *brokerDisk, e simdisk.Event) {
	if l := b.logs[e.File.Path]; l != nil && e.File.IsDir() {
		for _, fn := range d.onDrop {
			fn(l)
		}
		delete(b.logs, l.dir)
		delete(b.named, l.String())
		b.order = slices.DeleteFunc(b.order, func(o *diskLog) bool { return o == l })
		return
	}
	// A file that becomes a segment by a rename, or stops being one.
	if dir, _, ok := segmentFile(e.File.Path); ok && b.logs[dir] != nil {
		d.happened(b, simdisk.Event{Kind: simdisk.Removed, File: e.File})
	}
	if dir, base, ok := segmentFile(e.To); ok && b.logs[dir] != nil {
		l := b.logs[dir]
		i, found := l.segment(base)
		switch {
		case found && l.open && base == l.swap.base && l.swap.next > 0:
			l.replace(&d.buf, i, e)
		case !found:
			l.segs = slices.Insert(l.segs, i, &segmentScan{base: base, path: e.To})
			l.unseal(i - 1)
		}
	}
}

// stop keeps how the logs are at the end of a process.
func (d *Disks) stop(b *brokerDisk, power bool) {
	for _, l := range b.order {
		if l.before != nil && !l.open {
			// It stops again before it was open, by another crash or because the disk failed it: what was durable is durable still.
			l.before.power = l.before.power || power
			l.before.require, l.before.why = l.before.durable, "it was flushed"
			continue
		}
		if !l.open {
			continue // it was never open: nothing was promised
		}
		d.follow(l)
		s := &stopped{at: d.now(), power: power, extra: l.failed || l.cutting, swap: l.swap}
		s.batches, s.start, s.end, _ = d.cached(l)
		at := l.written()
		l.sink(at)
		if l.anew(at, s.start, s.end) {
			l.before, l.open = nil, false // whatever is left of it goes
			continue
		}
		durable, _ := d.durable(l)
		s.durable = max(min(max(durable, l.visible), s.end), s.start) // what is being cut off may come back, or not
		s.require, s.why = s.end, "it was in the page cache when the process stopped"
		if power || l.failed {
			s.require, s.why = s.durable, "it was flushed"
		}
		l.before, l.open = s, false
		for _, fn := range d.onStop {
			if !l.ruined {
				fn(l)
			}
		}
	}
}

// segmentFile takes the path of a segment's log file apart.
func segmentFile(name string) (dir string, base int64, ok bool) {
	dir, file := path.Split(name)
	number, ok := strings.CutSuffix(file, ".log")
	if !ok || len(number) != 20 {
		return "", 0, false
	}
	base, err := strconv.ParseInt(number, 10, 64)
	return strings.TrimSuffix(dir, "/"), base, err == nil && base >= 0
}

// parseLogDir reads ".../<topic>-<partition>".
func parseLogDir(dir string) (place, bool) {
	name := path.Base(dir)
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return place{}, false
	}
	p, ok := parsePartition(name[i+1:])
	return place{name[:i], p}, ok
}
