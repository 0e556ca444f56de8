package coord

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"

	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/packed"
	"faultline/coord/replica"
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// recovered is what the data directory holds.
type recovered struct {
	image
	state   *replica.State // after the entry image.index; image.state is nil
	log     raftLog        // the entries behind
	applied uint64         // last entry that was surely applied and traced
	last    uint64         // largest number in use, 0: none
}

// openStore recovers the state and begins a new log. It may fail or be cut off at any point and be tried again.
func openStore(m machine.Machine, dir string, id, members uint64) (*store, *recovered, error) {
	if err := machine.MakeDir(m.Disk(), dir); err != nil {
		return nil, nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	r, err := readStore(m, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("recover %s: %w", dir, err)
	}
	if r.members > 0 && (r.id != id || r.members != members) {
		return nil, nil, fmt.Errorf("recover %s: it belongs to server %d of %d, this is server %d of %d; servers keep their places", dir, r.id, r.members, id, members)
	}
	r.id, r.members = id, members
	s := &store{m: m, dir: dir}
	m.Failpoint("fault/coord/recover-slow")
	now := r.image
	now.tail, now.state = r.log.entries, r.state.Append(nil)
	if err := saveSnapshot(m, dir, r.last+1, now.encode(r.last+1)); err != nil {
		return nil, nil, err
	}
	if err := s.begin(r.last + 1); err != nil {
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
		r.state = replica.New()
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
	if err := r.settle(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
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
	d := packed.Reader{Rest: b[snapHeader:], Wrap: tree.ErrCorrupt}
	x := &r.image
	for _, v := range [...]*uint64{&x.id, &x.members, &x.hard.term, &x.hard.vote, &x.hard.commit, &x.index, &x.term} {
		*v = d.Uint()
	}
	r.log.reset(x.index, x.term)
	var tail []*raftpb.Entry
	for count := d.Count(3); count > 0; count-- {
		tail = append(tail, readEntry(&d))
	}
	if d.Err != nil {
		return fmt.Errorf("%s: %w", name, d.Err)
	}
	if err = r.log.append(tail); err == nil {
		r.state, err = replica.Decode(d.Rest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.applied = x.index
	return nil
}

// replay takes what a log has. torn says where and how the log ends in something that is no whole record, "": it does not.
func (r *recovered) replay(m machine.Machine, name string, number uint64) (torn string, err error) {
	b, err := readFile(m, name)
	if err != nil {
		return "", err
	}
	return r.redo(name, number, b)
}

func (r *recovered) redo(name string, number uint64, b []byte) (torn string, err error) {
	if len(b) < logHeader || string(b[:8]) != logMagic || crc32.Checksum(b[:16], castagnoli) != binary.BigEndian.Uint32(b[16:]) {
		return fmt.Sprintf("%s has no valid header", name), nil
	}
	if n := binary.BigEndian.Uint64(b[8:]); n != number {
		return "", fmt.Errorf("%w: %s is log %d", tree.ErrCorrupt, name, n)
	}
	sum := binary.BigEndian.Uint32(b[16:])
	for at := logHeader; at < len(b); {
		payload, stored, end := record(b, at)
		if payload == nil {
			return fmt.Sprintf("%s ends inside a record at %d", name, at), nil
		}
		if sum = recordSum(sum, b[at:at+4], payload); sum != stored {
			// A later record that says that this one was durable makes it damage, and not the torn end.
			next, nextSum, _ := record(b, end)
			synced, n := binary.Uvarint(next)
			if next != nil && recordSum(stored, b[end:end+4], next) == nextSum && n > 0 && synced >= uint64(end) {
				return "", fmt.Errorf("%w: %s is damaged at %d, in what was promised to clients or servers; restore it from a copy", tree.ErrCorrupt, name, at)
			}
			return fmt.Sprintf("%s has a record at %d whose checksum is wrong", name, at), nil
		}
		if err := r.record(payload); err != nil {
			return "", fmt.Errorf("%s at %d: %w", name, at, err)
		}
		at = end
	}
	return "", nil
}

// record takes one record.
func (r *recovered) record(payload []byte) error {
	d := packed.Reader{Rest: payload, Wrap: tree.ErrCorrupt}
	d.Uint() // synced
	hard := hardState{term: d.Uint(), vote: d.Uint(), commit: d.Uint()}
	applied := d.Uint()
	var entries []*raftpb.Entry
	for count := d.Count(3); count > 0; count-- {
		entries = append(entries, readEntry(&d))
	}
	if err := d.End(); err != nil {
		return err
	}
	if err := r.log.append(entries); err != nil {
		return err
	}
	r.hard, r.applied = hard, max(r.applied, applied)
	return nil
}

// settle applies what was applied, and traced, before.
func (r *recovered) settle() error {
	if r.applied > r.log.last() {
		return fmt.Errorf("%w: entry %d was applied, but the last one there is %d", tree.ErrCorrupt, r.applied, r.log.last())
	}
	for _, e := range r.log.entries[:r.applied-r.log.index] {
		if err := r.state.Apply(e.GetData(), nil, func(*replica.Outcome) error { return nil }); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	}
	r.log.compact(r.applied)
	r.index, r.term = r.log.index, r.log.term
	r.hard.commit = max(r.hard.commit, r.applied)
	if r.hard.commit > r.log.last() {
		return fmt.Errorf("%w: entry %d was agreed on, but the last one there is %d", tree.ErrCorrupt, r.hard.commit, r.log.last())
	}
	return nil
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
