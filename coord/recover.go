package coord

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"

	"faultline/coord/tree"
	"faultline/sim/machine"
)

// recovered is what the data directory holds.
type recovered struct {
	tree     *tree.Tree
	untraced []machine.Event // of transactions that were perhaps not traced
	last     uint64          // largest number in use, 0: none
}

// openStore recovers the state and begins a new log. It may fail or be cut off at any point and be tried again.
func openStore(m machine.Machine, dir string) (*store, *recovered, error) {
	if err := m.Disk().Mkdir(dir); err != nil {
		return nil, nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	for d := dir; d != "." && d != "/"; d = path.Dir(d) {
		up := path.Dir(d)
		if up == "." || up == "/" {
			up = ""
		}
		if err := m.Disk().SyncDir(up); err != nil {
			return nil, nil, fmt.Errorf("data directory %s: %w", dir, err)
		}
	}
	r, err := readStore(m, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("recover %s: %w", dir, err)
	}
	s := &store{m: m, dir: dir}
	m.Failpoint("fault/coord/recover-slow")
	if err := saveSnapshot(m, dir, r.last+1, encodeSnapshot(r.tree, r.untraced, r.last+1)); err != nil {
		return nil, nil, err
	}
	if err := s.begin(r.last+1, r.tree.Zxid()); err != nil {
		return nil, nil, err
	}
	if !m.Failpoint("fault/coord/recovered-logs-kept") {
		removeBelow(m, dir, r.last+1)
	}
	return s, r, nil
}

// readStore reads the newest snapshot and replays the logs from there. It changes nothing on disk.
func readStore(m machine.Machine, dir string) (*recovered, error) {
	files, err := listStore(m, dir)
	if err != nil {
		return nil, err
	}
	r := &recovered{}
	var snap uint64
	logs := 0
	for _, f := range files {
		r.last = max(r.last, f.number)
		switch f.kind {
		case kindSnap:
			snap = max(snap, f.number)
		case kindLog:
			logs++
		}
	}
	if snap == 0 {
		if logs > 0 {
			return nil, fmt.Errorf("%w: %d transaction logs but no snapshot; restore a snapshot or remove the logs to start empty", tree.ErrCorrupt, logs)
		}
		r.tree = tree.New()
		return r, nil
	}
	if err := r.snapshot(m, dir, snap); err != nil {
		return nil, err
	}
	next, torn := snap, ""
	for _, f := range files { // sorted by name, so logs by number
		if f.kind != kindLog || f.number < snap {
			continue
		}
		if f.number != next {
			return nil, fmt.Errorf("%w: %s is missing, %s is there", tree.ErrCorrupt, logName(next), f.name)
		}
		if torn != "" {
			return nil, fmt.Errorf("%w: %s, but it is not the last log", tree.ErrCorrupt, torn)
		}
		if torn, err = r.replay(m, path.Join(dir, f.name), f.number); err != nil {
			return nil, err
		}
		if torn != "" {
			m.Mark("mark/coord/recovered-torn-log")
		}
		if next > snap {
			m.Mark("mark/coord/recovered-many-logs")
		}
		next++
	}
	return r, nil
}

func (r *recovered) snapshot(m machine.Machine, dir string, number uint64) error {
	name := path.Join(dir, snapName(number))
	b, err := readFile(m, name)
	if err != nil {
		return err
	}
	return r.load(name, number, b)
}

func (r *recovered) load(name string, number uint64, b []byte) (err error) {
	if len(b) < snapHeader || string(b[:8]) != snapMagic || binary.BigEndian.Uint64(b[8:]) != number ||
		binary.BigEndian.Uint64(b[16:]) != uint64(len(b)-snapHeader) || binary.BigEndian.Uint32(b[24:]) != snapSum(b) {
		return fmt.Errorf("%w: %s is no valid snapshot (%d bytes); restore it from a copy", tree.ErrCorrupt, name, len(b))
	}
	if r.untraced, b, err = decodeEvents(b[snapHeader:]); err == nil {
		r.tree, err = tree.Decode(b)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// replay applies a log's transactions. torn says where and how the log ends in something that is no whole record, "": it does not.
func (r *recovered) replay(m machine.Machine, name string, number uint64) (torn string, err error) {
	b, err := readFile(m, name)
	if err != nil {
		return "", err
	}
	return r.redo(name, number, b)
}

func (r *recovered) redo(name string, number uint64, b []byte) (torn string, err error) {
	if len(b) < logHeader || string(b[:8]) != logMagic || crc32.Checksum(b[:24], castagnoli) != binary.BigEndian.Uint32(b[24:]) {
		return fmt.Sprintf("%s has no valid header", name), nil
	}
	if n, zxid := binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:])); n != number || zxid != r.tree.Zxid() {
		return "", fmt.Errorf("%w: %s is log %d after transaction %d, but the state is at transaction %d", tree.ErrCorrupt, name, n, zxid, r.tree.Zxid())
	}
	sum := binary.BigEndian.Uint32(b[24:])
	var txn tree.Txn
	var effects []tree.Effect
	for at := logHeader; at < len(b); {
		payload, stored, end := record(b, at)
		if payload == nil {
			return fmt.Sprintf("%s ends inside a record at %d", name, at), nil
		}
		if sum = recordSum(sum, b[at:at+4], payload); sum != stored {
			// A record of a later batch says that this one was durable, so it is not the torn end but damage.
			next, nextSum, _ := record(b, end)
			traced, n := binary.Varint(next)
			if next != nil && recordSum(stored, b[end:end+4], next) == nextSum && n > 0 && traced > r.tree.Zxid() {
				return "", fmt.Errorf("%w: %s is damaged at %d, in transactions that were acknowledged; restore it from a copy", tree.ErrCorrupt, name, at)
			}
			return fmt.Sprintf("%s has a record at %d whose checksum is wrong", name, at), nil
		}
		traced, n := binary.Varint(payload)
		if n <= 0 {
			return "", fmt.Errorf("%w: %s at %d", tree.ErrCorrupt, name, at)
		}
		if err := txn.Decode(payload[n:]); err != nil {
			return "", fmt.Errorf("%s at %d: %w", name, at, err)
		}
		if effects, err = r.tree.Apply(&txn, effects[:0]); err != nil {
			return "", fmt.Errorf("%s at %d: %w", name, at, err)
		}
		r.untraced = appendTrace(dropTraced(r.untraced, traced), &txn, effects)
		at = end
	}
	return "", nil
}

// record finds the record at an offset; payload is nil when none is whole there.
func record(b []byte, at int) (payload []byte, sum uint32, end int) {
	if len(b)-at < recHeader {
		return nil, 0, 0
	}
	length, start := int(binary.BigEndian.Uint32(b[at:])), at+recHeader
	if length == 0 || length > maxRecord || length > len(b)-start {
		return nil, 0, 0
	}
	return b[start : start+length], binary.BigEndian.Uint32(b[at+4:]), start + length
}

func readFile(m machine.Machine, name string) ([]byte, error) {
	file, err := m.Disk().Open(name, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := machine.ReadFull(file, b, 0); err != nil {
		return nil, fmt.Errorf("read %s: %d of %d bytes: %w", name, n, size, err)
	}
	return b, nil
}
