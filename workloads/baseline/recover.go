package baseline

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"

	"faultline/sim/machine"
)

// sequential reads a file from its start. It implements io.Reader.
type sequential struct {
	f  machine.File
	at int64
}

func (s *sequential) Read(p []byte) (int, error) {
	n, err := s.f.Pread(p, s.at)
	s.at += int64(n)
	return n, err
}

// scan passes the records of a segment to each, with the position of their bodies, and returns where the last whole record ends. The body is valid until each returns.
func scan(m machine.Machine, f machine.File, each func(kind byte, at int64, body []byte) error) (end int64, err error) {
	r := bufio.NewReaderSize(&sequential{f: f}, 1<<20)
	var head [8]byte
	var buf []byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return end, torn(err)
		}
		n := int64(binary.BigEndian.Uint32(head[:]))
		if n < 1 || n > math.MaxInt32 {
			return end, nil
		}
		// Believe a length only as far as bytes follow.
		size, err := f.Size()
		if err != nil || end+8+n > size {
			return end, err
		}
		if int64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := io.ReadFull(r, buf); err != nil {
			return end, torn(err)
		}
		m.Work(machine.Work{Queue: machine.QueueWork{Taken: 1}, Copied: n, Summed: n})
		if crc32.Checksum(buf, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
			return end, nil
		}
		if err := each(buf[0], end+recordHead, buf[1:]); err != nil {
			return end, err
		}
		end += 8 + n
	}
}

func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// recover reads the journal and begins a new segment. What follows the last whole record of the last segment was never promised, and is cut off; anywhere else it is an error.
func (s *Server) recover() error {
	disk, dir := s.m.Disk(), s.cfg.DataDir
	if err := machine.MakeDir(disk, dir); err != nil {
		return err
	}
	files, err := disk.ReadDir(dir)
	if err != nil {
		return err
	}
	var list []*segment
	for _, info := range files {
		number := int64(0)
		if n, err := fmt.Sscanf(strings.TrimPrefix(info.Name, journalPrefix), "%d", &number); err != nil || n != 1 {
			return fmt.Errorf("%s/%s is no segment of the journal", dir, info.Name)
		}
		if k := len(list); k > 0 && number != list[k-1].number+1 {
			return fmt.Errorf("%s: segment %d follows %d: some are missing", dir, number, list[k-1].number)
		}
		list = append(list, &segment{number: number, size: info.Size})
	}
	for i, seg := range list {
		if seg.file, err = disk.Open(segmentName(dir, seg.number), 0); err != nil {
			return err
		}
		end, err := scan(s.m, seg.file, func(kind byte, at int64, body []byte) error { return s.x.restore(seg, kind, at, body) })
		if err != nil {
			return fmt.Errorf("%s: %w", seg.file.Name(), err)
		}
		if last := i == len(list)-1; last {
			if err := seg.file.Truncate(end); err != nil {
				return err
			}
			seg.size = end
			if err := seg.file.Sync(); err != nil {
				return err
			}
		} else if end < seg.size {
			return fmt.Errorf("%s: the record at %d is damaged", seg.file.Name(), end)
		}
	}
	if err := disk.SyncDir(dir); err != nil {
		return err
	}
	s.x.restored()
	next := &segment{number: 1}
	if n := len(list); n > 0 {
		s.j.head = list[n-1]
		next.number = s.j.head.number + 1
	}
	for _, seg := range list {
		seg.stored = seg.size
	}
	s.j.segments = list
	s.j.open(next)
	return nil
}

// restore takes in a record of the journal.
func (x *index) restore(seg *segment, kind byte, at int64, body []byte) error {
	r := &reader{rest: body}
	position := func() int64 { return at + int64(len(body)-len(r.rest)) }
	switch kind {
	case recordBindings:
		x.next = max(x.next, r.u64())
		for range r.count(4) {
			x.bind(string(r.text()), string(r.text()))
		}
	case recordBind:
		x.bind(string(r.text()), string(r.text()))
	case recordMessages:
		id := r.u64()
		queues := x.topics[string(r.text())]
		n := r.count(4)
		for range n {
			size := r.u32()
			where := position()
			r.take(size)
			for _, q := range queues {
				x.place(q, id, seg, where, size)
			}
			id++
		}
		x.next = max(x.next, id)
	case recordAcks:
		number, list := r.spans(nil)
		if int(number) >= len(x.queues) || number < 0 {
			return fmt.Errorf("acknowledgements in queue %d of %d", number, len(x.queues))
		}
		q := x.queues[number]
		for _, p := range list {
			for id := p.first; id < p.first+uint64(p.count); id++ {
				if q.find(id) != nil {
					x.drop(q, id)
				}
			}
		}
	case recordMoved:
		for range r.count(14) {
			x.restoreMoved(seg, r, position)
		}
	default:
		return fmt.Errorf("a record of kind %d", kind)
	}
	return r.end()
}

// restoreMoved takes in one message that was moved. What the record says of it takes the place of all that older segments say.
func (x *index) restoreMoved(seg *segment, r *reader, position func() int64) {
	id := r.u64()
	var holders []int32
	for range r.u16() {
		holders = append(holders, int32(r.u32()))
	}
	size := r.u32()
	where := position()
	r.take(size)
	for _, q := range x.queues {
		switch has := q.find(id) != nil; {
		case !slices.Contains(holders, q.number):
			if has {
				x.drop(q, id)
			}
		case !has:
			x.place(q, id, seg, where, size)
		}
	}
	if m := x.message(id); m != nil {
		m.move(seg, where)
	}
}

// move says that a message's bytes are elsewhere now.
func (m *message) move(seg *segment, at int64) {
	m.segment.letGo(m)
	m.segment, m.at = seg, at
	seg.hold(m)
}

// place lets a queue have a message that is in the journal only.
func (x *index) place(q *queue, id uint64, seg *segment, at int64, size int) {
	m := x.hold(id)
	if m.holders == 0 {
		m.segment, m.at, m.size = seg, at, int32(size)
		seg.hold(m)
	}
	m.holders++
	q.slot(id).state = ready
}

// restored is called when the whole journal was taken in: what no acknowledgement came for is ready, and may have been handed over before.
func (x *index) restored() {
	for _, q := range x.queues {
		var ids []uint64
		for first, b := range q.slots { // order: sorted below
			for i := range b.slots {
				if b.slots[i].state == ready {
					b.slots[i].again = true
					ids = append(ids, first*blockIDs+uint64(i))
				}
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			q.ready.push(id)
		}
	}
}

// bindings appends the body of the record that a segment begins with.
func (x *index) bindings(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, x.next)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(x.queues)))
	for _, q := range x.queues {
		dst = appendText(appendText(dst, q.topic), q.name)
	}
	return dst
}
