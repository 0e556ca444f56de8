package broker

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"strings"
	"time"

	"faultline/sim/machine"
)

const (
	highWaterFile = "high-watermarks"
	// highWaterInterval is how often the high watermarks are written down. What is read after a restart may be older than what was known, never newer.
	highWaterInterval = time.Second
)

// encodeHighWaters is the file of high watermarks: a line for each, the topic's id, the partition and the offset, and a CRC over them. The lines are in the order given.
func encodeHighWaters(names []string, hw map[string]int64) string {
	var lines strings.Builder
	lines.WriteString("version=1\n")
	for _, n := range names {
		fmt.Fprintf(&lines, "%s %d\n", n, hw[n])
	}
	return fmt.Sprintf("%scrc=%08x\n", lines.String(), crc32.ChecksumIEEE([]byte(lines.String())))
}

// decodeHighWaters reads what encodeHighWaters writes and nothing else.
func decodeHighWaters(text string) (map[string]int64, bool) {
	i := strings.LastIndex(text, "crc=")
	if i < 0 || fmt.Sprintf("crc=%08x\n", crc32.ChecksumIEEE([]byte(text[:i]))) != text[i:] {
		return nil, false
	}
	hw := map[string]int64{}
	for n, line := range strings.Split(strings.TrimSuffix(text[:i], "\n"), "\n") {
		if n == 0 {
			if line != "version=1" {
				return nil, false
			}
			continue
		}
		var name string
		var offset int64
		if k, err := fmt.Sscanf(line, "%s %d", &name, &offset); k != 2 || err != nil || offset < 0 {
			return nil, false
		}
		hw[name] = offset
	}
	return hw, true
}

// loadHighWaters reads the last checkpoint. Without one, or with one that makes no sense, every high watermark begins at its log's start: nothing is committed that is not known to be.
func loadHighWaters(d machine.Disk, dir string) (map[string]int64, error) {
	text, err := readFile(d, path.Join(dir, highWaterFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	hw, _ := decodeHighWaters(text)
	return hw, nil
}

// keepHighWaters is the task that writes the checkpoint.
func (b *Broker) keepHighWaters() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.stopping {
		b.changedWithin(highWaterInterval, func() bool { return false })
		if b.stopping {
			return // Stop writes the last one
		}
		b.mu.Unlock()
		b.saveHighWaters()
		b.mu.Lock()
	}
}

// saveHighWaters writes the high watermarks of all replicas here, whoever leads them, if one changed. While the logs are being opened the last checkpoint stays. A failure is no harm: the
// next attempt makes up for it, and an older file is a right one.
func (b *Broker) saveHighWaters() {
	b.mu.Lock()
	parts, serving := b.localLocked(), b.serving
	b.mu.Unlock()
	hw := map[string]int64{}
	var names []string
	for _, p := range parts {
		if p.replicated && p.log != nil {
			name := p.lasting()
			hw[name] = p.visible()
			names = append(names, name)
		}
	}
	if len(names) == 0 || !serving {
		return
	}
	text := encodeHighWaters(names, hw)
	if text == b.savedHW {
		return
	}
	if writeFile(b.m.Disk(), path.Join(b.cfg.DataDir, highWaterFile), text) == nil {
		b.savedHW = text
	}
}
