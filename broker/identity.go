package broker

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"faultline/broker/log"
	"faultline/sim/machine"
)

const (
	metaFile    = "meta.properties"
	markerFile  = "clean-shutdown"
	topicIDFile = "partition.metadata"
)

// identity is what a data directory says of the broker that it belongs to.
type identity struct {
	Broker      int32
	Cluster     string // id of the cluster, "" before the first registration
	Incarnation int64  // starts of this broker on this directory
}

func (id identity) encode() string {
	return fmt.Sprintf("version=1\nbroker.id=%d\ncluster.id=%s\nincarnation=%d\n", id.Broker, id.Cluster, id.Incarnation)
}

func decodeIdentity(text string) (id identity, err error) {
	seen := 0
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return id, fmt.Errorf("line %q: want key=value", line)
		}
		var n int64
		switch key {
		case "version":
			if value != "1" {
				return id, fmt.Errorf("version %s: want 1", value)
			}
		case "broker.id":
			n, err = strconv.ParseInt(value, 10, 32)
			id.Broker = int32(n)
			seen++
		case "incarnation":
			id.Incarnation, err = strconv.ParseInt(value, 10, 64)
			seen++
		case "cluster.id":
			id.Cluster = value
			seen++
		}
		if err != nil {
			return id, fmt.Errorf("line %q: %w", line, err)
		}
	}
	if seen != 3 {
		return id, errors.New("want broker.id, cluster.id and incarnation")
	}
	return id, nil
}

// shutdown is what the clean-shutdown marker says.
type shutdown struct {
	// CleanSince: the logs lost nothing since the registration of that epoch; -1: there was none.
	CleanSince int64
}

func (s shutdown) encode() string { return fmt.Sprintf("version=1\nclean.since=%d\n", s.CleanSince) }

// decodeShutdown reads the marker. One that makes no sense still says that the logs were closed.
func decodeShutdown(text string) *shutdown {
	s := &shutdown{CleanSince: -1}
	if n, err := fmt.Sscanf(text, "version=1\nclean.since=%d\n", &s.CleanSince); n != 1 || err != nil {
		s.CleanSince = -1
	}
	return s
}

// loadIdentity begins a new incarnation on the data directory and takes the clean-shutdown marker off it, durably, before anything else there is touched:
// should this incarnation die, its successor must not take the logs for closed. clean: what the marker said, nil when there was none.
func loadIdentity(d machine.Disk, dir string, broker int32) (id identity, clean *shutdown, err error) {
	if err := machine.MakeDir(d, dir); err != nil {
		return id, nil, fmt.Errorf("data directory: %w", err)
	}
	text, err := readFile(d, path.Join(dir, metaFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		id.Broker = broker
	case err != nil:
		return id, nil, err
	default:
		if id, err = decodeIdentity(text); err != nil {
			return id, nil, fmt.Errorf("%s: %w", path.Join(dir, metaFile), err)
		}
	}
	if id.Broker != broker {
		return id, nil, fmt.Errorf("data directory %s belongs to broker %d, this is broker %d: give it another directory", dir, id.Broker, broker)
	}
	marker := path.Join(dir, markerFile)
	if text, err := readFile(d, marker); err == nil {
		clean = decodeShutdown(text)
		if err := d.Remove(marker); err != nil {
			return id, nil, fmt.Errorf("remove the clean-shutdown marker: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return id, nil, fmt.Errorf("look for the clean-shutdown marker: %w", err)
	}
	id.Incarnation++
	// This syncs the directory, and with it the removal of the marker.
	return id, clean, writeFile(d, path.Join(dir, metaFile), id.encode())
}

// The small files say who a broker is and which topic a log belongs to; a broker that believed a changed one would drop logs that are still wanted.
// So each ends with a line that holds the CRC-32C of what precedes it.
const sumLine = "crc="

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(text string) string {
	return fmt.Sprintf("%s%s%08x\n", text, sumLine, crc32.Checksum([]byte(text), castagnoli))
}

// unseal is the text that was sealed; false when it is not what was written.
func unseal(sealed string) (text string, ok bool) {
	i := strings.LastIndex(sealed, sumLine)
	if i < 0 || seal(sealed[:i]) != sealed {
		return "", false
	}
	return sealed[:i], true
}

// readFile reads a small text file. log.ErrDamaged: it is not what writeFile wrote.
func readFile(d machine.Disk, name string) (string, error) {
	f, err := d.Open(name, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	buf := make([]byte, size)
	if _, err := machine.ReadFull(f, buf, 0); err != nil && !(err == io.EOF && size == 0) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	text, ok := unseal(string(buf))
	if !ok {
		return "", fmt.Errorf("%w: %s does not end with the CRC-32C of what it holds", log.ErrDamaged, name)
	}
	return text, nil
}

// writeFile replaces a small text file at one stroke; it is durable under its name on return.
func writeFile(d machine.Disk, name, text string) error {
	tmp := name + ".tmp"
	f, err := d.Open(tmp, machine.Create|machine.Truncate)
	if err != nil {
		return err
	}
	_, err = machine.WriteFull(f, []byte(seal(text)), 0)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = d.Rename(tmp, name)
	}
	if err == nil {
		err = d.SyncDir(machine.Parent(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
