package bench

import (
	"errors"
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
func (k *Calibration) network() error {
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

// device measures the section disk, with a file in a folder.
type device struct {
	k     *Calibration
	f     *os.File
	block []byte
	at    int64 // where the next flushed page goes
}

func (d *device) open(dir string) (err error) {
	d.block = make([]byte, deviceBlock)
	for i := range d.block {
		d.block[i] = byte(rand.Uint32())
	}
	d.f, err = os.Create(filepath.Join(dir, "data"))
	return err
}

func (d *device) close() {
	if d.f != nil {
		d.f.Close()
	}
}

// measure is a round.
func (d *device) measure() error {
	k := d.k
	if err := errors.Join(
		k.take("disk.write", fmt.Sprintf("%d MiB and their fsync", deviceBytes>>20), perSecond, d.write),
		k.take("disk.read", "the same bytes in order, not in the page cache where the system forgets them when asked", perSecond, d.read),
		k.take("disk.seek", "a page at a random place, read like that", nanoseconds, d.seek),
		k.take("disk.flush", "fsync of 4 KiB", nanoseconds, d.flush),
	); err != nil {
		return err
	}
	if cache, background, limit, ok := pageCache(); ok {
		k.set("disk.cache", fmt.Sprintf("%dB", cache), "memory that is available")
		k.set("disk.dirty_background", fmt.Sprintf("%dB", background), "as the kernel is set")
		k.set("disk.dirty_limit", fmt.Sprintf("%dB", limit), "as the kernel is set")
	}
	return nil
}

func (d *device) write() (float64, error) {
	if err := d.f.Truncate(0); err != nil {
		return 0, err
	}
	begin := time.Now()
	for at := int64(0); at < deviceBytes; at += deviceBlock {
		if _, err := d.f.WriteAt(d.block, at); err != nil {
			return 0, err
		}
	}
	err := d.f.Sync()
	return deviceBytes / time.Since(begin).Seconds(), err
}

func (d *device) read() (float64, error) {
	if err := forget(d.f); err != nil {
		return 0, err
	}
	begin := time.Now()
	for at := int64(0); at < deviceBytes; at += deviceBlock {
		if _, err := d.f.ReadAt(d.block, at); err != nil {
			return 0, err
		}
	}
	return deviceBytes / time.Since(begin).Seconds(), nil
}

func (d *device) seek() (float64, error) {
	if err := forget(d.f); err != nil {
		return 0, err
	}
	const reads = 50
	begin := time.Now()
	for range reads {
		if _, err := d.f.ReadAt(d.block[:pageBytes], rand.Int64N(deviceBytes/pageBytes)*pageBytes); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin)) / reads, nil
}

func (d *device) flush() (float64, error) {
	const syncs = 10
	var all []float64
	for range syncs {
		if _, err := d.f.WriteAt(d.block[:pageBytes], d.at); err != nil {
			return 0, err
		}
		d.at += pageBytes
		begin := time.Now()
		if err := d.f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, float64(time.Since(begin)))
	}
	return middle(all), nil
}
