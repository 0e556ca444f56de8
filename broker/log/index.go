package log

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"faultline/sim/machine"
)

// Index files are arrays of fixed entries, big endian, in the order of the log. Numbers are relative to the segment's base offset.
//
//	.index      8 bytes: offset uint32, position uint32      a batch with that base offset starts there
//	.timeindex 12 bytes: timestamp int64, offset uint32      no record up to that offset is newer; one of them is exactly this old
//
// They are sparse, an entry each IndexInterval log bytes; the time index of a sealed or cleanly closed segment ends with an entry for its last
// record. They only save a search: what they say of an offset is compared with the log, and they can be made again from it.
const (
	entryBytes     = 8
	timeEntryBytes = 12
)

type entry struct{ offset, pos uint32 }

type timeEntry struct {
	time   int64 // ms since 1970
	offset uint32
}

// index is both indexes of one segment in memory.
type index struct {
	offsets []entry
	times   []timeEntry
	gap     int64 // log bytes since the last offset entry
}

// add notes a batch that was appended: rel is its base offset and pos its position, newest is the newest timestamp before it.
func (x *index) add(rel, pos uint32, size int64, newest int64, interval int) {
	if x.gap >= int64(interval) {
		x.offsets = append(x.offsets, entry{rel, pos})
		x.addTime(newest, rel-1)
		x.gap = 0
	}
	x.gap += size
}

// addTime notes that no record up to rel is newer than newest. It keeps one entry an offset.
func (x *index) addTime(newest int64, rel uint32) {
	if n := len(x.times); n > 0 && x.times[n-1].offset >= rel {
		return
	}
	x.times = append(x.times, timeEntry{newest, rel})
}

// floor is the last entry whose offset is not above rel; without one, the segment's start.
func (x *index) floor(rel int64) entry {
	i := sort.Search(len(x.offsets), func(i int) bool { return int64(x.offsets[i].offset) > rel })
	if i == 0 {
		return entry{}
	}
	return x.offsets[i-1]
}

// floorPos is the last entry whose position is not above pos; without one, the segment's start.
func (x *index) floorPos(pos int64) entry {
	i := sort.Search(len(x.offsets), func(i int) bool { return int64(x.offsets[i].pos) > pos })
	if i == 0 {
		return entry{}
	}
	return x.offsets[i-1]
}

// before is the first relative offset whose record may be as new as time.
func (x *index) before(time int64) int64 {
	i := sort.Search(len(x.times), func(i int) bool { return x.times[i].time >= time })
	if i == 0 {
		return 0
	}
	return int64(x.times[i-1].offset) + 1
}

// truncate is the index without what it says about offsets from rel on, in a log that now ends at position size. The entries are copied: readers may still hold the old ones.
func (x *index) truncate(rel, size int64) index {
	n := sort.Search(len(x.offsets), func(i int) bool { return int64(x.offsets[i].offset) >= rel })
	k := sort.Search(len(x.times), func(i int) bool { return int64(x.times[i].offset) >= rel })
	t := index{offsets: append([]entry(nil), x.offsets[:n]...), times: append([]timeEntry(nil), x.times[:k]...), gap: size}
	if n > 0 {
		t.gap -= int64(t.offsets[n-1].pos)
	}
	return t
}

func (x *index) encode() (offsets, times []byte) {
	be := binary.BigEndian
	offsets = make([]byte, 0, len(x.offsets)*entryBytes)
	for _, e := range x.offsets {
		offsets = be.AppendUint32(be.AppendUint32(offsets, e.offset), e.pos)
	}
	times = make([]byte, 0, len(x.times)*timeEntryBytes)
	for _, t := range x.times {
		times = be.AppendUint32(be.AppendUint64(times, uint64(t.time)), t.offset)
	}
	return offsets, times
}

func decodeEntry(p []byte) entry {
	return entry{binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])}
}

func decodeTime(p []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(p)), binary.BigEndian.Uint32(p[8:])}
}

// decodeIndex reads both files of a segment with size log bytes whose offsets end before base+span. It says what is wrong with them by themselves; whether the log
// agrees is another question.
func decodeIndex(offsets, times []byte, size, span int64) (x index, err error) {
	if len(offsets)%entryBytes != 0 || len(times)%timeEntryBytes != 0 {
		return x, fmt.Errorf("index files of %d and %d bytes hold no whole number of entries", len(offsets), len(times))
	}
	x.offsets = make([]entry, 0, len(offsets)/entryBytes)
	last := entry{} // the first entry is never at the start, so every one is above this
	for p := offsets; len(p) > 0; p = p[entryBytes:] {
		e := decodeEntry(p)
		if e.offset <= last.offset || e.pos <= last.pos || int64(e.offset) >= span || int64(e.pos) >= size {
			return x, fmt.Errorf("index entry %d (offset +%d at %d) does not fit between its neighbours and the log's end (+%d at %d)", len(x.offsets), e.offset, e.pos, span, size)
		}
		x.offsets = append(x.offsets, e)
		last = e
	}
	x.times = make([]timeEntry, 0, len(times)/timeEntryBytes)
	old := timeEntry{time: math.MinInt64}
	for p := times; len(p) > 0; p = p[timeEntryBytes:] {
		t := decodeTime(p)
		if t.time < old.time || len(x.times) > 0 && t.offset <= old.offset || int64(t.offset) >= span {
			return x, fmt.Errorf("time index entry %d (%d at offset +%d) does not fit between its neighbours and the log's end (+%d)", len(x.times), t.time, t.offset, span)
		}
		x.times = append(x.times, t)
		old = t
	}
	x.gap = size - int64(last.pos)
	return x, nil
}

// loadIndex reads a segment's index files.
func (l *Log) loadIndex(s *segment, size, next int64) (index, error) {
	offsets, err := l.readFile(segmentName(s.base, indexSuffix))
	if err != nil {
		return index{}, err
	}
	times, err := l.readFile(segmentName(s.base, timeSuffix))
	if err != nil {
		return index{}, err
	}
	return decodeIndex(offsets, times, size, next-s.base)
}

// storeIndex replaces a segment's index files. They are durable after the next SyncDir; until then a power loss leaves the old ones or these.
func (l *Log) storeIndex(base int64, x *index) error {
	offsets, times := x.encode()
	if err := l.replaceFile(segmentName(base, indexSuffix), offsets); err != nil {
		return err
	}
	return l.replaceFile(segmentName(base, timeSuffix), times)
}

// readFile reads a whole file of the log's directory.
func (l *Log) readFile(name string) ([]byte, error) {
	f, err := l.disk.Open(l.path(name), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	p := make([]byte, size)
	_, err = machine.ReadFull(f, p, 0)
	return p, err
}
