package log

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"

	"faultline/broker/replica"
	"faultline/broker/sequence"
	"faultline/sim/machine"
)

const (
	checkpointName = "checkpoint"
	temporary      = ".tmp" // ends the name of a file that is not yet in place
)

// A checkpoint says what a restart may take for granted:
//
//   - segments that end at or below start were deleted; what a crash left of them goes;
//   - what lies below recovery is durable, and so are the indexes of segments that end at or below it;
//   - below cleaned no key has two records: what lies above is not compacted yet;
//   - where the leader epochs begin that begin below recovery;
//   - what idempotent producers appended last below recovery.
//
// It is one line of text and its CRC-32C. A log without one, or with one that cannot be read, is read and checked whole: slower, and nothing is lost by it.
type checkpoint struct {
	start, recovery, cleaned int64
	epochs                   []replica.Entry
	producers                []sequence.Batch
}

func (c checkpoint) encode() []byte {
	line := fmt.Appendf(nil, "faultline-log 3 start %d recovery %d cleaned %d epochs %d", c.start, c.recovery, c.cleaned, len(c.epochs))
	for _, e := range c.epochs {
		line = fmt.Appendf(line, " %d@%d", e.Epoch, e.Start)
	}
	line = fmt.Appendf(line, " producers %d", len(c.producers))
	for _, b := range c.producers {
		line = fmt.Appendf(line, " %v", b)
	}
	return fmt.Appendf(line, " crc %08x\n", crc32.Checksum(line, castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decodeCheckpoint reads what encode writes and nothing else.
func decodeCheckpoint(p []byte) (c checkpoint, ok bool) {
	fields := strings.Fields(string(p))
	n := 0
	if _, err := fmt.Sscanf(string(p), "faultline-log 3 start %d recovery %d cleaned %d epochs %d", &c.start, &c.recovery, &c.cleaned, &n); err != nil || n < 0 || n > len(fields)-14 {
		return checkpoint{}, false
	}
	for _, f := range fields[10 : 10+n] {
		var e replica.Entry
		if _, err := fmt.Sscanf(f, "%d@%d", &e.Epoch, &e.Start); err != nil {
			return checkpoint{}, false
		}
		c.epochs = append(c.epochs, e)
	}
	m := 0
	if _, err := fmt.Sscanf(fields[10+n+1], "%d", &m); err != nil || m != len(fields)-14-n {
		return checkpoint{}, false
	}
	for _, f := range fields[10+n+2 : 10+n+2+m] {
		b, ok := sequence.Parse(f)
		if !ok {
			return checkpoint{}, false
		}
		c.producers = append(c.producers, b)
	}
	if _, err := replica.NewEpochs(c.epochs); err != nil || c.start < 0 || c.recovery < c.start || c.cleaned < 0 || c.cleaned > c.recovery || string(c.encode()) != string(p) {
		return checkpoint{}, false
	}
	return c, true
}

// loadCheckpoint reads the checkpoint; without a readable one it returns the zero value and false. The error is one of the disk.
func (l *Log) loadCheckpoint() (checkpoint, bool, error) {
	p, err := l.readFile(checkpointName)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint{}, false, nil
	}
	if err != nil {
		return checkpoint{}, false, err
	}
	c, ok := decodeCheckpoint(p)
	return c, ok, nil
}

// saveCheckpoint replaces the checkpoint, durably. Whatever it vouches for must be durable before. It fills in what does not depend on the caller. Call with flushing.
func (l *Log) saveCheckpoint(c checkpoint) error {
	l.mu.Lock()
	epochs := l.epochs
	l.cleaned = min(l.cleaned, c.recovery) // what is cut off and comes again is not compacted
	c.cleaned = l.cleaned
	l.producers.Prune(c.recovery, l.m.Now().Add(-producerExpiry).UnixMilli())
	c.producers = l.producers.Below(c.recovery)
	l.mu.Unlock()
	epochs.TruncateStart(c.start)
	epochs.TruncateEnd(c.recovery)
	c.epochs = epochs.Entries()
	if err := l.replaceFile(checkpointName, c.encode()); err != nil {
		return l.wrap("write its checkpoint", err)
	}
	return l.syncDir()
}

// replaceFile puts a file of these bytes in the place of the one of that name, at one stroke. Its bytes are durable; under this name it is to be found after the next SyncDir.
func (l *Log) replaceFile(name string, p []byte) error {
	f, err := l.disk.Open(l.path(name+temporary), machine.Create|machine.Truncate)
	if err != nil {
		return err
	}
	if _, err = machine.WriteFull(f, p, 0); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = l.disk.Rename(l.path(name+temporary), l.path(name))
	}
	if err != nil {
		l.m.Mark("mark/log/file-not-replaced")
		l.remove(name + temporary) // it takes space; the next start would remove it
	}
	return err
}

// syncDir makes the directory's entries durable. A failure fences the log: it says nothing about any entry made so far, and a later success would not either.
func (l *Log) syncDir() error {
	if err := l.disk.SyncDir(l.dir); err != nil {
		l.m.Mark("mark/log/fenced-by-directory")
		return l.fence(err)
	}
	return nil
}

// remove deletes a file of the log's directory; one that is not there is no error.
func (l *Log) remove(name string) error {
	if err := l.disk.Remove(l.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// present reports whether the path is there.
func present(d machine.Disk, path string) (bool, error) {
	if _, err := d.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}
