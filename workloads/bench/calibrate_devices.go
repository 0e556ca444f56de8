package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"
)

// loopback is a TCP connection of this machine with itself.
func loopback() (a, b net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if b, err = l.Accept(); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// network measures the network section: the loopback interface.
func (k *Calibration) network(string) error {
	a, b, err := loopback()
	if err != nil {
		return err
	}
	defer b.Close()
	echoed := make(chan error, 1)
	go func() {
		_, err := io.Copy(b, onlyReader{b})
		echoed <- err
	}()
	message := make([]byte, 200)
	err = k.take("network.latency", "half of a ping-pong of 200 bytes, without its system calls", nanoseconds, func() (float64, error) {
		var all []float64
		for until := time.Now().Add(calibrateSlice); time.Now().Before(until); {
			begin := time.Now()
			if _, err := a.Write(message); err != nil {
				return 0, err
			}
			if _, err := io.ReadFull(a, message); err != nil {
				return 0, err
			}
			all = append(all, float64(time.Since(begin)))
		}
		return max(100, middle(all)/2-2*k.spent["cpu.syscall"]), nil
	})
	a.Close()
	<-echoed
	if err != nil {
		return err
	}
	return k.take("network.bandwidth", "64 KiB at a time over one connection", perSecond, func() (float64, error) {
		a, b, err := loopback()
		if err != nil {
			return 0, err
		}
		defer b.Close()
		wrote := make(chan error, 1)
		begin := time.Now()
		go func() {
			defer a.Close()
			block := make([]byte, 64<<10)
			for time.Since(begin) < 2*calibrateSlice {
				if _, err := a.Write(block); err != nil {
					wrote <- err
					return
				}
			}
			wrote <- nil
		}()
		n, err := io.CopyBuffer(io.Discard, onlyReader{b}, make([]byte, 64<<10))
		if err == nil {
			err = <-wrote
		}
		return float64(n) / time.Since(begin).Seconds(), err
	})
}

// onlyReader hides what else a connection can do, so that bytes go through this process as they do in the system.
type onlyReader struct{ io.Reader }

const (
	deviceBytes = 32 << 20 // of a file that is written and read
	deviceBlock = 1 << 20
	pageBytes   = 4 << 10
)

// disk measures the disk section, in a folder.
func (k *Calibration) disk(dir string) error {
	f, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, deviceBlock)
	for i := range block {
		block[i] = byte(rand.Uint32())
	}
	write := func() (float64, error) {
		if err := f.Truncate(0); err != nil {
			return 0, err
		}
		begin := time.Now()
		for at := int64(0); at < deviceBytes; at += deviceBlock {
			if _, err := f.WriteAt(block, at); err != nil {
				return 0, err
			}
		}
		err := f.Sync()
		return deviceBytes / time.Since(begin).Seconds(), err
	}
	if err := k.take("disk.write", fmt.Sprintf("%d MiB and their fsync", deviceBytes>>20), perSecond, write); err != nil {
		return err
	}
	read := func() (float64, error) {
		if err := forget(f); err != nil {
			return 0, err
		}
		begin := time.Now()
		for at := int64(0); at < deviceBytes; at += deviceBlock {
			if _, err := f.ReadAt(block, at); err != nil {
				return 0, err
			}
		}
		return deviceBytes / time.Since(begin).Seconds(), nil
	}
	if err := k.take("disk.read", "the same bytes in order, not in the page cache where the system forgets them when asked", perSecond, read); err != nil {
		return err
	}
	seek := func() (float64, error) {
		if err := forget(f); err != nil {
			return 0, err
		}
		const reads = 50
		begin := time.Now()
		for range reads {
			if _, err := f.ReadAt(block[:pageBytes], rand.Int64N(deviceBytes/pageBytes)*pageBytes); err != nil {
				return 0, err
			}
		}
		return float64(time.Since(begin)) / reads, nil
	}
	if err := k.take("disk.seek", "a page at a random place, read like that", nanoseconds, seek); err != nil {
		return err
	}
	at := int64(0)
	flush := func() (float64, error) {
		const syncs = 10
		var all []float64
		for range syncs {
			if _, err := f.WriteAt(block[:pageBytes], at); err != nil {
				return 0, err
			}
			at += pageBytes
			begin := time.Now()
			if err := f.Sync(); err != nil {
				return 0, err
			}
			all = append(all, float64(time.Since(begin)))
		}
		return middle(all), nil
	}
	if err := k.take("disk.flush", "fsync of 4 KiB", nanoseconds, flush); err != nil {
		return err
	}
	if cache, background, limit, ok := pageCache(); ok {
		k.set("disk.cache", fmt.Sprintf("%dB", cache), "memory that is available")
		k.set("disk.dirty_background", fmt.Sprintf("%dB", background), "as the kernel is set")
		k.set("disk.dirty_limit", fmt.Sprintf("%dB", limit), "as the kernel is set")
	}
	return nil
}
