package coord

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"

	"go.etcd.io/raft/v3/raftpb"

	"faultline/sim/machine"
)

// The data directory. Snapshots and logs are numbered together and every number is used once:
//
//	snap.N  all of a server's state at some moment: what is applied, and the entries behind it
//	log.N   what was written after snap.N, until log.N+1 begins
//
// Snapshot: 8 bytes magic, number, length, CRC-32C of all but itself; then which server of how many, term, vote, commit, index and term of the last
// entry applied, the entries behind it, the applied state.
// Log: 8 bytes magic, number, CRC-32C of these; then records: length, CRC-32C, bytes of the log that were synced when it was written, term, vote, commit, last entry
// applied (and so traced), entries. The CRC of a record covers the CRC before it, so that no record is valid anywhere but at its place. An
// entry takes the place of an older one of the same index and of all behind that.
//
// Rules, which make every crash point safe:
//
//   - Bytes are synced in a file before the file's name is synced in the directory, and that before anything relies on it: a reply, or a message to
//     another server that promises an entry or a vote.
//   - A snapshot is written under a temporary name and renamed, so a snapshot that has its name is whole.
//   - Every start writes a new snapshot of what it recovered and begins a new log before it serves. Nothing is appended to an older file: so neither a torn
//     tail nor bytes that an earlier fsync failed to write (but that the page cache still shows) can come back later.
//   - Files with smaller numbers are removed when a snapshot and its name are durable, not before.
//   - Only the last log may end in a record that is not whole: nothing of that one was ever promised.
const (
	logMagic   = "FLCLOG02"
	snapMagic  = "FLCSNP02"
	logHeader  = 8 + 8 + 4
	snapHeader = 8 + 8 + 8 + 4
	recHeader  = 4 + 4
	// maxRecord bounds a record, which has the entries that were there when it was written.
	maxRecord = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// store is the open log. One task uses it.
type store struct {
	m      machine.Machine
	dir    string
	number uint64 // of the open log
	file   machine.File
	size   int64  // bytes of the log that are written
	synced int64  // bytes of the log that are durable
	sum    uint32 // CRC of the last record
	buf    []byte // records not yet written

	unsynced int // entries in buf
}

func logName(number uint64) string  { return fmt.Sprintf("log.%016x", number) }
func snapName(number uint64) string { return fmt.Sprintf("snap.%016x", number) }

// append adds a record to those that the next commit writes.
func (s *store) append(hard hardState, applied uint64, entries []*raftpb.Entry) {
	start := len(s.buf)
	s.buf = append(s.buf, make([]byte, recHeader)...)
	for _, v := range [...]uint64{uint64(s.synced), hard.term, hard.vote, hard.commit, applied, uint64(len(entries))} {
		s.buf = binary.AppendUvarint(s.buf, v)
	}
	for _, e := range entries {
		s.buf = appendEntry(s.buf, e)
	}
	s.unsynced += len(entries)
	payload := s.buf[start+recHeader:]
	head := s.buf[start : start+recHeader]
	binary.BigEndian.PutUint32(head, uint32(len(payload)))
	s.sum = recordSum(s.sum, head[:4], payload)
	binary.BigEndian.PutUint32(head[4:], s.sum)
}

func recordSum(before uint32, length, payload []byte) uint32 {
	return crc32.Update(crc32.Update(before, castagnoli, length), castagnoli, payload)
}

// pending is the number of bytes that the next commit writes.
func (s *store) pending() int { return len(s.buf) }

// commit makes the appended records durable. After an error the store must not be used again.
func (s *store) commit() error {
	n, err := machine.WriteFull(s.file, s.buf, s.size)
	s.size += int64(n)
	if err != nil {
		return fmt.Errorf("write transaction log %s: %w", s.file.Name(), err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync transaction log %s: %w", s.file.Name(), err)
	}
	s.synced, s.unsynced = s.size, 0
	if s.buf = s.buf[:0]; cap(s.buf) > 4<<20 {
		s.buf = nil
	}
	return nil
}

// begin makes log number durable and empty, and appends there from now on.
func (s *store) begin(number uint64) error {
	name := path.Join(s.dir, logName(number))
	file, err := s.m.Disk().Open(name, machine.Create|machine.Exclusive)
	if err != nil {
		return fmt.Errorf("begin transaction log: %w", err)
	}
	head := make([]byte, 0, logHeader)
	head = append(head, logMagic...)
	head = binary.BigEndian.AppendUint64(head, number)
	sum := crc32.Checksum(head, castagnoli)
	head = binary.BigEndian.AppendUint32(head, sum)
	if err := writeSynced(file, head); err != nil {
		file.Close()
		return fmt.Errorf("begin transaction log %s: %w", name, err)
	}
	if err := s.m.Disk().SyncDir(s.dir); err != nil {
		file.Close()
		return fmt.Errorf("begin transaction log %s: %w", name, err)
	}
	if s.file != nil {
		s.file.Close()
	}
	s.number, s.file, s.size, s.synced, s.sum = number, file, logHeader, logHeader, sum
	return nil
}

func writeSynced(file machine.File, b []byte) error {
	if _, err := machine.WriteFull(file, b, 0); err != nil {
		return err
	}
	return file.Sync()
}

// image is all of a server's state at some moment, as a snapshot file has it.
type image struct {
	id, members uint64
	hard        hardState
	index, term uint64          // of the last entry applied
	tail        []*raftpb.Entry // behind it
	state       []byte          // applied
}

// encode is the content of snapshot number.
func (x *image) encode(number uint64) []byte {
	b := make([]byte, snapHeader, 4096+len(x.state))
	copy(b, snapMagic)
	binary.BigEndian.PutUint64(b[8:], number)
	for _, v := range [...]uint64{x.id, x.members, x.hard.term, x.hard.vote, x.hard.commit, x.index, x.term, uint64(len(x.tail))} {
		b = binary.AppendUvarint(b, v)
	}
	for _, e := range x.tail {
		b = appendEntry(b, e)
	}
	b = append(b, x.state...)
	binary.BigEndian.PutUint64(b[16:], uint64(len(b)-snapHeader))
	binary.BigEndian.PutUint32(b[24:], snapSum(b))
	return b
}

func snapSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:24], castagnoli), castagnoli, b[snapHeader:])
}

// saveSnapshot makes snapshot number durable.
func saveSnapshot(m machine.Machine, dir string, number uint64, content []byte) error {
	name := path.Join(dir, snapName(number))
	err := func() error {
		file, err := m.Disk().Open(name+".tmp", machine.Create|machine.Truncate)
		if err != nil {
			return err
		}
		defer file.Close()
		return writeSynced(file, content)
	}()
	if err == nil {
		err = m.Disk().Rename(name+".tmp", name)
	}
	if err == nil {
		err = m.Disk().SyncDir(dir)
	}
	if err != nil {
		m.Disk().Remove(name + ".tmp")
		return fmt.Errorf("save snapshot %s: %w", name, err)
	}
	return nil
}

// removeBelow removes the files that a durable snapshot makes superfluous. What cannot be removed is tried again after the next snapshot.
func removeBelow(m machine.Machine, dir string, number uint64) {
	files, err := listStore(m, dir)
	if err != nil {
		return
	}
	removed := false
	for _, f := range files {
		if f.number < number {
			removed = m.Disk().Remove(path.Join(dir, f.name)) == nil || removed
		}
	}
	if removed {
		// Unsynced removals come back after a power loss and are removed then; syncing only frees the space earlier.
		_ = m.Disk().SyncDir(dir)
	}
}

// storeFile is a file of the data directory.
type storeFile struct {
	name   string
	kind   fileKind
	number uint64
}

type fileKind uint8

const (
	kindLog fileKind = iota
	kindSnap
	kindTemp
)

// listStore lists the data directory's files by name. Foreign files are left alone.
func listStore(m machine.Machine, dir string) ([]storeFile, error) {
	infos, err := m.Disk().ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []storeFile
	for _, info := range infos {
		f := storeFile{name: info.Name}
		switch {
		case scan(info.Name, "log.", "", &f.number):
			f.kind = kindLog
		case scan(info.Name, "snap.", "", &f.number):
			f.kind = kindSnap
		case scan(info.Name, "snap.", ".tmp", &f.number):
			f.kind = kindTemp
		default:
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

// scan parses prefix, 16 hexadecimal digits, suffix.
func scan(name, prefix, suffix string, number *uint64) bool {
	if len(name) != len(prefix)+16+len(suffix) || name[:len(prefix)] != prefix || name[len(prefix)+16:] != suffix {
		return false
	}
	n, err := fmt.Sscanf(name[len(prefix):len(prefix)+16], "%016x", number)
	return n == 1 && err == nil
}
