package coord

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"

	"faultline/coord/tree"
	"faultline/sim/machine"
)

// The data directory. Snapshots and logs are numbered together and every number is used once:
//
//	snap.N  the tree at some transaction
//	log.N   the transactions after snap.N, until log.N+1 begins
//
// Snapshot: 8 bytes magic, number, length, CRC-32C of all but itself, events not traced yet (trace.go), tree.
// Log: 8 bytes magic, number, zxid before the first record, CRC-32C of these; then records: length, CRC-32C, last zxid traced, transaction. The
// CRC of a record covers the CRC before it, so that no record is valid anywhere but at its place.
//
// Rules, which make every crash point safe:
//
//   - Bytes are synced in a file before the file's name is synced in the directory, and that before anything relies on it.
//   - A snapshot is written under a temporary name and renamed, so a snapshot that has its name is whole.
//   - Every start writes a new snapshot of what it recovered and begins a new log before it serves. Nothing is appended to an older file: so neither a torn
//     tail nor bytes that an earlier fsync failed to write (but that the page cache still shows) can come back later.
//   - Files with smaller numbers are removed when a snapshot and its name are durable, not before.
//   - Only the last log may end in a record that is not whole: that one was never acknowledged.
const (
	logMagic   = "FLCLOG01"
	snapMagic  = "FLCSNP01"
	logHeader  = 8 + 8 + 8 + 4
	snapHeader = 8 + 8 + 8 + 4
	recHeader  = 4 + 4
	// maxRecord bounds a record: a request is at most a packet, and a transaction is no longer than its request and a little.
	maxRecord = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// store is the open log. The commit task alone uses it, but for saveSnapshot and removeBelow.
type store struct {
	m        machine.Machine
	dir      string
	number   uint64 // of the open log
	file     machine.File
	size     int64  // bytes of the log that are written
	sum      uint32 // CRC of the last record
	records  int    // in the open log
	unsynced int    // of these, in buf
	traced   int64  // last transaction traced
	buf      []byte // records not yet written
}

func logName(number uint64) string  { return fmt.Sprintf("log.%016x", number) }
func snapName(number uint64) string { return fmt.Sprintf("snap.%016x", number) }

// append adds a transaction to the records that the next commit writes.
func (s *store) append(txn *tree.Txn) {
	start := len(s.buf)
	s.buf = append(s.buf, make([]byte, recHeader)...)
	s.buf = binary.AppendVarint(s.buf, s.traced)
	s.buf = txn.Append(s.buf)
	payload := s.buf[start+recHeader:]
	head := s.buf[start : start+recHeader]
	binary.BigEndian.PutUint32(head, uint32(len(payload)))
	s.sum = recordSum(s.sum, head[:4], payload)
	binary.BigEndian.PutUint32(head[4:], s.sum)
	s.records++
	s.unsynced++
}

func recordSum(before uint32, length, payload []byte) uint32 {
	return crc32.Update(crc32.Update(before, castagnoli, length), castagnoli, payload)
}

// pending is the number of bytes that the next commit writes.
func (s *store) pending() int { return len(s.buf) }

// commit makes the appended transactions durable. After an error the store must not be used again.
func (s *store) commit() error {
	n, err := machine.WriteFull(s.file, s.buf, s.size)
	s.size += int64(n)
	if err != nil {
		return fmt.Errorf("write transaction log %s: %w", s.file.Name(), err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync transaction log %s: %w", s.file.Name(), err)
	}
	s.unsynced = 0
	if s.buf = s.buf[:0]; cap(s.buf) > maxRecord {
		s.buf = nil
	}
	return nil
}

// begin makes log number durable and empty, and appends there from now on.
func (s *store) begin(number uint64, zxid int64) error {
	name := path.Join(s.dir, logName(number))
	file, err := s.m.Disk().Open(name, machine.Create|machine.Exclusive)
	if err != nil {
		return fmt.Errorf("begin transaction log: %w", err)
	}
	head := make([]byte, 0, logHeader)
	head = append(head, logMagic...)
	head = binary.BigEndian.AppendUint64(head, number)
	head = binary.BigEndian.AppendUint64(head, uint64(zxid))
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
	s.number, s.file, s.size, s.sum, s.records = number, file, logHeader, sum, 0
	return nil
}

func writeSynced(file machine.File, b []byte) error {
	if _, err := machine.WriteFull(file, b, 0); err != nil {
		return err
	}
	return file.Sync()
}

// encodeSnapshot is the content of snapshot number.
func encodeSnapshot(t *tree.Tree, untraced []machine.Event, number uint64) []byte {
	b := make([]byte, snapHeader, 4096)
	copy(b, snapMagic)
	binary.BigEndian.PutUint64(b[8:], number)
	b = appendEvents(b, untraced)
	b = t.Append(b)
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
