package baseline

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"time"

	"faultline/sim/machine"
)

// The journal is a row of files, segments, numbered without a gap. A record in it is its length (4 bytes, of all that follows the checksum), the CRC-32C of that (4), a kind (1) and a body:
//
//	bindings  id of the next message (8), count (4), then topic and queue (each 2+n) of each queue, by number. The first record of a segment
//	bind      topic, queue (each 2+n)
//	messages  id of the first (8), topic (2+n), count (4), then length (4) and bytes of each
//	acks      queue number (4), count (4), then ranges of ids: first (8), how many (4)
//	moved     count (4), then for each message its id (8), numbers of the queues that have it (2 + n*4), length (4) and bytes. Takes the place of what older segments say of it
//
// Segments go oldest first: once no queue has a message whose bytes are there, nor is there an older segment, nobody needs its acknowledgements either. So that one message that stays does not
// keep all that came after it, the oldest segment's messages are moved to the end when most of the journal is dead.
const (
	recordBindings byte = iota + 1
	recordBind
	recordMessages
	recordAcks
	recordMoved
)

const recordHead = 9 // length, checksum, kind

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is a file of the journal.
type segment struct {
	number int64
	file   machine.File // nil until it was made
	fresh  bool         // its name may not be durable
	size   int64        // with what waits to be written
	stored int64        // without
	live   int          // messages that a queue has and whose bytes are here
	bytes  int64        // of these
	using  int          // tasks that read it
	gone   bool         // removed: whoever stops reading last closes it
}

func (s *segment) hold(m *message)  { s.live++; s.bytes += int64(m.size) }
func (s *segment) letGo(m *message) { s.live--; s.bytes -= int64(m.size) }

// chunk is bytes that wait to be written to one segment.
type chunk struct {
	s    *segment
	at   int64
	data []byte
}

// journal writes records. One task writes what has gathered since it wrote last, another syncs what was written, so that many share a write and a sync, and neither waits for the other. All fields are
// guarded by the lock, which is the server's.
type journal struct {
	m      machine.Machine
	cfg    Config
	mu     machine.Mutex
	settle machine.Mutex // of whoever makes a segment durable; not to be taken with mu

	due     machine.Cond // for the writer
	unsafe  machine.Cond // for the syncer
	moved   machine.Cond // written or synced moved
	told    func()       // likewise; called with the lock
	opening func(dst []byte) []byte

	segments []*segment // oldest first
	head     *segment   // of what was written last
	waiting  []chunk
	spare    []chunk
	free     [][]byte

	// Positions count bytes since the start of the process.
	appended, written, synced int64
	wanted                    int64         // to be synced
	since                     time.Duration // the oldest byte that is not synced was written then
}

const journalPrefix = "journal-"

func segmentName(dir string, number int64) string {
	return path.Join(dir, fmt.Sprintf("%s%012d", journalPrefix, number))
}

func newJournal(m machine.Machine, cfg Config, mu machine.Mutex) *journal {
	return &journal{
		m: m, cfg: cfg, mu: mu, settle: m.NewMutex("queue.journal.settle"),
		due: m.NewCond("queue.journal.due", mu), unsafe: m.NewCond("queue.journal.unsafe", mu), moved: m.NewCond("queue.journal.moved", mu),
	}
}

// begin starts a record; the caller appends its body to the data of the chunk that it returns and calls end. The lock is held from before begin to after end.
func (j *journal) begin(kind byte) (c *chunk, start int) {
	last := j.segments[len(j.segments)-1]
	if last.size >= j.cfg.SegmentBytes {
		last = &segment{number: last.number + 1}
		j.open(last)
	}
	n := len(j.waiting)
	if n == 0 || j.waiting[n-1].s != last {
		j.waiting = append(j.waiting, chunk{s: last, at: last.size, data: j.buffer()})
		n++
	}
	c = &j.waiting[n-1]
	start = len(c.data)
	c.data = append(c.data, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	return c, start
}

// open begins a segment.
func (j *journal) open(s *segment) {
	j.segments = append(j.segments, s)
	c := chunk{s: s, data: append(j.buffer(), 0, 0, 0, 0, 0, 0, 0, 0, recordBindings)}
	c.data = j.opening(c.data)
	j.waiting = append(j.waiting, c)
	j.end(&j.waiting[len(j.waiting)-1], 0)
}

func (j *journal) buffer() []byte {
	if n := len(j.free); n > 0 {
		b := j.free[n-1]
		j.free = j.free[:n-1]
		return b[:0]
	}
	return make([]byte, 0, 4096)
}

// end completes a record and returns the position after it.
func (j *journal) end(c *chunk, start int) int64 {
	rec := c.data[start:]
	binary.BigEndian.PutUint32(rec, uint32(len(rec)-8))
	binary.BigEndian.PutUint32(rec[4:], crc32.Checksum(rec[8:], castagnoli))
	c.s.size = c.at + int64(len(c.data))
	j.appended += int64(len(rec))
	j.due.Signal()
	return j.appended
}

// messages adds n messages, each its length (4 bytes) and bytes, and says where they will be. The lock is held.
func (j *journal) messages(first uint64, topic string, n int, body []byte) (s *segment, at int64) {
	c, start := j.begin(recordMessages)
	c.data = binary.BigEndian.AppendUint64(c.data, first)
	c.data = appendText(c.data, topic)
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(n))
	s, at = c.s, c.at+int64(len(c.data))
	c.data = append(c.data, body...)
	j.end(c, start)
	return s, at
}

// want asks for a sync up to a position.
func (j *journal) want(position int64) {
	if position > j.wanted {
		j.wanted = position
		j.unsafe.Signal()
	}
}

// write is the writing task. Errors end the process: what the disk has then, only a new start finds out.
func (j *journal) write() {
	j.mu.Lock()
	for {
		for len(j.waiting) == 0 {
			j.due.Wait()
		}
		chunks, upTo := j.waiting, j.appended
		j.waiting, j.spare = j.spare[:0], nil
		head := j.head
		j.mu.Unlock()
		var err error
		for i := range chunks {
			if err = j.put(&chunks[i], head); err != nil {
				j.m.Exit(fmt.Errorf("queue: journal: %w", err))
			}
			head = chunks[i].s
		}
		j.mu.Lock()
		for i := range chunks {
			chunks[i].s.stored = chunks[i].at + int64(len(chunks[i].data))
			if cap(chunks[i].data) <= 1<<20 && len(j.free) < 4 {
				j.free = append(j.free, chunks[i].data)
			}
		}
		clear(chunks)
		j.spare = chunks
		j.head = head
		if j.written == j.synced {
			j.since = j.m.Uptime()
		}
		j.written = upTo
		j.unsafe.Signal()
		j.progress()
	}
}

// put writes a chunk. Before the first of a segment, the segment before, which ended in head, is made durable: only the last one can be torn.
func (j *journal) put(c *chunk, head *segment) error {
	n := int64(len(c.data))
	j.m.Work(machine.Work{Stored: n, Summed: n, Syscalls: 1})
	if c.s.file == nil {
		if head != nil {
			if err := j.makeDurable(head); err != nil {
				return err
			}
		}
		f, err := j.m.Disk().Open(segmentName(j.cfg.DataDir, c.s.number), machine.Create|machine.Truncate)
		if err != nil {
			return err
		}
		c.s.file, c.s.fresh = f, true
	}
	_, err := machine.WriteFull(c.s.file, c.data, c.at)
	return err
}

// makeDurable syncs a segment and its name.
func (j *journal) makeDurable(s *segment) error {
	j.settle.Lock()
	defer j.settle.Unlock()
	j.m.Work(machine.Work{Syscalls: 1})
	if err := s.file.Sync(); err != nil {
		return err
	}
	if s.fresh {
		if err := j.m.Disk().SyncDir(j.cfg.DataDir); err != nil {
			return err
		}
		s.fresh = false
	}
	return nil
}

// sync is the syncing task.
func (j *journal) sync() {
	j.mu.Lock()
	for {
		wait := time.Duration(0)
		if j.written > j.synced && j.cfg.FlushInterval > 0 {
			wait = max(j.since+j.cfg.FlushInterval-j.m.Uptime(), 0)
			if wait == 0 {
				j.wanted = max(j.wanted, j.written)
			}
		}
		if j.written == j.synced || j.wanted <= j.synced {
			if wait > 0 {
				j.unsafe.WaitTimeout(wait)
			} else {
				j.unsafe.Wait()
			}
			continue
		}
		target, bytes, head := j.written, j.written-j.synced, j.head
		j.since = j.m.Uptime()
		j.mu.Unlock()
		j.m.Work(machine.Work{Flushed: bytes})
		if err := j.makeDurable(head); err != nil {
			j.m.Exit(fmt.Errorf("queue: journal: %w", err))
		}
		j.mu.Lock()
		j.synced = target
		j.progress()
	}
}

// progress lets everybody know who waits.
func (j *journal) progress() {
	j.moved.Broadcast()
	j.told()
}

// await waits until a position is written.
func (j *journal) await(position int64) {
	for j.written < position {
		j.moved.Wait()
	}
}

// awaitSynced waits until a position is durable.
func (j *journal) awaitSynced(position int64) {
	j.want(position)
	for j.synced < position {
		j.moved.Wait()
	}
}
