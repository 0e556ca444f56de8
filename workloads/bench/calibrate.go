package bench

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"faultline/broker/record"
	"faultline/sim/machine"
)

// Calibration measures what this machine costs, each figure by itself and none by the throughput that it is to predict: CPU costs are read from the process's CPU clock, so that other programs
// disturb them little, the others from the wall clock.
type Calibration struct {
	Host *Host  // runs the servers that costs of requests and records are measured with
	Dir  string // on the disk that is measured. Default: the system's folder for temporary files
	Stop func() bool
	// Said is told each figure when it is there: "cpu.syscall", "870ns", "850ns to 910ns of 5".
	Said func(name, value, spread string)

	lines []string // of the profile
	spent map[string]float64
}

const (
	calibrateSamples = 5
	calibrateSlice   = 60 * time.Millisecond // of a sample
)

// Run measures everything and returns the profile as a file.
func (k *Calibration) Run(name string) ([]byte, error) {
	dir, err := os.MkdirTemp(k.Dir, "faultline-calibrate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	k.spent = map[string]float64{}
	k.lines = []string{
		"name: " + name,
		"about: >-",
		fmt.Sprintf("  %s, measured by \"faultline calibrate\" with %s: each figure is the median of so many samples as its remark says, with the lowest and highest.", Computer(), runtime.Version()),
	}
	for _, section := range []struct {
		name string
		fill func(dir string) error
	}{{"cpu", k.processor}, {"disk", k.disk}, {"network", k.network}} {
		k.lines = append(k.lines, section.name+":")
		if err := section.fill(dir); err != nil {
			return nil, fmt.Errorf("calibrate %s: %w", section.name, err)
		}
	}
	text := []byte(strings.Join(k.lines, "\n") + "\n")
	if _, err := ParseProfile(name+".yaml", text); err != nil {
		return nil, err
	}
	return text, nil
}

// set writes a line of the profile.
func (k *Calibration) set(path, value, remark string) {
	parts := strings.Split(path, ".")
	k.lines = append(k.lines, fmt.Sprintf("%s%s: %s # %s", strings.Repeat("  ", len(parts)-1), parts[len(parts)-1], value, remark))
	k.Said(path, value, remark)
}

// take samples a quantity and writes its line.
func (k *Calibration) take(path, what string, format func(float64) string, sample func() (float64, error)) error {
	var all []float64
	for range calibrateSamples {
		if k.Stop() {
			return ErrStopped
		}
		v, err := sample()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, v)
	}
	return k.note(path, what, format, all)
}

func (k *Calibration) note(path, what string, format func(float64) string, all []float64) error {
	f := spreadOf(all)
	if slices.ContainsFunc(all, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		f.Median = math.NaN() // a run in which nothing was done
	}
	if f.Median <= 0 || math.IsNaN(f.Median) || math.IsInf(f.Median, 0) {
		return fmt.Errorf("%s: found %v, a figure is above 0: is this machine too busy?", path, f.Median)
	}
	k.spent[path] = f.Median
	k.set(path, format(f.Median), fmt.Sprintf("%s to %s of %d: %s", format(f.Low), format(f.High), len(all), what))
	return nil
}

func nanoseconds(v float64) string { return fmt.Sprintf("%dns", int64(math.Round(v))) }
func perSecond(v float64) string   { return fmt.Sprintf("%dB/s", int64(math.Round(v))) }

// cpuTime is the CPU time of this process so far.
func cpuTime() time.Duration {
	t, _ := cpuClock()
	return t
}

// costs is how much CPU time in nanoseconds one call takes.
func costs(fn func() error) (float64, error) {
	begin, calls := cpuTime(), 0
	for until := time.Now().Add(calibrateSlice); time.Now().Before(until); {
		for range 16 {
			if err := fn(); err != nil {
				return 0, err
			}
			calls++
		}
	}
	return float64(cpuTime()-begin) / float64(calls), nil
}

// speed is how many bytes a second one core handles, each call so many.
func speed(n int, fn func() error) func() (float64, error) {
	return func() (float64, error) {
		ns, err := costs(fn)
		return float64(n) * 1e9 / ns, err
	}
}

// processor measures the CPU section.
func (k *Calibration) processor(string) error {
	if _, ok := cpuClock(); !ok {
		return errors.New("the CPU clock of a process can be read on Linux only")
	}
	cores, remark := runtime.NumCPU(), "all: they cannot be shared out"
	if n := halfOfComputer(); n > 0 {
		cores, remark = n, "servers and clients are pinned to half of the processors each"
	}
	k.set("cpu.cores", fmt.Sprint(cores), remark)
	a, b, err := loopback()
	if err != nil {
		return err
	}
	defer a.Close()
	defer b.Close()
	message, got := make([]byte, 200), make([]byte, 200)
	err = k.take("cpu.syscall", "half of a write and a read of 200 bytes on a loopback connection", nanoseconds, func() (float64, error) {
		ns, err := costs(func() error { return pass(a, b, message, got) })
		return ns / 2, err
	})
	if err != nil {
		return err
	}
	const block = 64 << 10
	from, to := make([]byte, 64<<20), make([]byte, 64<<20)
	for i := range from { // so that all of it is there
		from[i], to[i] = byte(i), byte(i>>8)
	}
	at := 0
	next := func(list []byte) []byte {
		at = (at + block) % len(list)
		return list[at : at+block]
	}
	if err := k.take("cpu.copy", "64 KiB at a time, beyond the caches", perSecond, speed(block, func() error {
		copy(next(to), next(from))
		return nil
	})); err != nil {
		return err
	}
	castagnoli, sum := crc32.MakeTable(crc32.Castagnoli), uint32(0)
	if err := k.take("cpu.sum", "CRC-32C of 64 KiB at a time", perSecond, speed(block, func() error {
		sum ^= crc32.Checksum(next(from), castagnoli)
		return nil
	})); err != nil {
		return err
	}
	if err := k.paths(); err != nil {
		return err
	}
	if err := k.queue(); err != nil {
		return err
	}
	return k.codecs()
}

// codecs measures compression of records as large and as compressible as visits are.
func (k *Calibration) codecs() error {
	var plain []byte
	values := (&drive{cell: visitsCell()}).values(0)
	for i := 0; len(plain) < 64<<10; i++ { // each message once, as in a batch
		plain = append(plain, values[i]...)
	}
	for _, way := range []string{"compress", "decompress"} {
		k.lines = append(k.lines, "  "+way+":")
		for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
			var c record.Compressor
			var d record.Decompressor
			packed, err := c.Append(nil, plain, codec)
			if err != nil {
				return err
			}
			var out []byte
			run := func() (err error) { out, err = c.Append(out[:0], plain, codec); return err }
			what := "64 KiB of visits"
			if way == "decompress" {
				run = func() (err error) { out, err = d.Append(out[:0], packed, codec); return err }
				what = "of what comes forth"
			}
			if err := k.take("cpu."+way+"."+codec.String(), what, perSecond, speed(len(plain), run)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathSuite is what costs of requests and records are measured with: a producer with small and with large batches, and a consumer.
const pathSuite = `
name: calibrate
topology:
  topics: [{name: visits, partitions: 1, segment_bytes: 64MiB, flush_interval: 20ms}]
  producers: [{acks: 1, batch: 1MiB, linger: 5ms, in_flight: 5, partitioner: random}]
workload: {message_bytes: 200B}
load: {real_warm_up: 200ms, real_measure: 1s}
sweep: {setting: topology.brokers, values: [1]}
series:
  - {name: small batches, set: [topology.producers.0.batch_records=1, topology.producers.0.batch=16KiB, topology.producers.0.buffer=256KiB]}
  - {name: large batches, set: [topology.producers.0.batch_records=500]}
  - name: consumer
    set: [load.rate=1/s, load.retained=768MiB, "load.cached=\"yes\"", "topology.groups.0.name=readers", topology.groups.0.consumers=1, topology.groups.0.fetch_bytes=1MiB, topology.groups.0.queue=100000]
`

func visitsCell() *Cell {
	s, err := ParseSuite("calibrate.yaml", []byte(pathSuite))
	if err != nil {
		panic(err)
	}
	c, err := s.Cell(&s.Series[0], "1")
	if err != nil {
		panic(err)
	}
	return c
}

// usage is what the programs of a process did after their warm-up, and the CPU time that it took.
type usage struct {
	mu   sync.Mutex
	work machine.Work
	cpu  time.Duration
}

// spent is what a server tells of its usage.
type spent struct {
	Work machine.Work
	CPU  time.Duration
}

// begin forgets what was used so far: what clients cost until they are under way, and until their memory is there.
func (u *usage) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.work, u.cpu = machine.Work{}, cpuTime()
}

// end is told when they are done.
func (u *usage) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cpu = cpuTime() - u.cpu
}

// counting is a machine that counts the work of its process.
type counting struct {
	machine.Machine
	u *usage
}

func (c *counting) Work(w machine.Work) {
	c.u.add(w)
}

func (u *usage) add(w machine.Work) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := &u.work
	t.Requests += w.Requests
	t.Sent += w.Sent
	t.Received += w.Received
	t.Syscalls += w.Syscalls
	t.Copied += w.Copied
	t.Summed += w.Summed
	t.Queue = t.Queue.Plus(w.Queue)
}

// rest is the CPU time in nanoseconds that is left for requests and records when what was measured before is taken off.
func (k *Calibration) rest(u *usage) float64 {
	w := &u.work
	return float64(u.cpu) - float64(w.Syscalls)*k.spent["cpu.syscall"] - float64(w.Copied)*1e9/k.spent["cpu.copy"] - float64(w.Summed)*1e9/k.spent["cpu.sum"]
}

// paths measures what requests and records cost the clients: their CPU time in runs of a producer with small and with large batches, and of a consumer, divided by the work that they did. Servers
// are in processes of their own, whose time does not count; what they do with a record is measured by itself.
func (k *Calibration) paths() error {
	s, err := ParseSuite("calibrate.yaml", []byte(pathSuite))
	if err != nil {
		return err
	}
	var requests, sent, received []float64
	for i := range 3 {
		var of [3]*usage
		for n := range s.Series {
			c, err := s.Cell(&s.Series[n], "1")
			if err != nil {
				return err
			}
			h := *k.Host
			h.used = &usage{}
			if _, err := h.Measure(c, uint64(i), k.Stop); err != nil {
				return err
			}
			of[n] = h.used
		}
		small, large, consumer := of[0], of[1], of[2]
		// request*small.Requests + send*small.Sent = rest(small), and alike for large.
		a, b, p := float64(small.work.Requests), float64(small.work.Sent), k.rest(small)
		c, d, q := float64(large.work.Requests), float64(large.work.Sent), k.rest(large)
		request := (p*d - q*b) / (a*d - b*c)
		requests = append(requests, request)
		sent = append(sent, (q-request*c)/d)
		received = append(received, (k.rest(consumer)-request*float64(consumer.work.Requests))/float64(consumer.work.Received))
	}
	if err := k.note("cpu.request", "CPU time of a producer whose batches are single records, without that of the records, of copies and of system calls", nanoseconds, requests); err != nil {
		return err
	}
	if err := k.note("cpu.send", "CPU time of a producer with large batches, without that of requests, copies, checksums and system calls", nanoseconds, sent); err != nil {
		return err
	}
	if err := k.record(); err != nil {
		return err
	}
	if err := k.batch(); err != nil {
		return err
	}
	return k.note("cpu.receive", "CPU time of a consumer that reads what is there, without that of requests, copies, checksums and system calls", nanoseconds, received)
}

// batch measures what a batch costs a consumer beside its records and its checksum.
func (k *Calibration) batch() error {
	const many = 500
	values := (&drive{cell: visitsCell()}).values(0)
	var b record.Builder
	var single []byte
	for i := range many {
		b.Reset(record.None)
		b.Add(int64(i), nil, values[i%len(values)], nil)
		data, err := b.Finish()
		if err != nil {
			return err
		}
		single = append(single, data...)
	}
	b.Reset(record.None)
	for i := range many {
		b.Add(int64(i), nil, values[i%len(values)], nil)
	}
	together, err := b.Finish()
	if err != nil {
		return err
	}
	var it record.Iterator
	walk := func(data []byte) (float64, error) {
		ns, err := costs(func() error {
			for rest := data; len(rest) > 0; { // when it comes
				batch, after, err := record.Next(rest)
				if err == nil {
					err = batch.Check()
				}
				if err != nil {
					return err
				}
				rest = after
			}
			for rest := data; len(rest) > 0; { // when it is handed over
				batch, after, err := record.Next(rest)
				if err != nil {
					return err
				}
				for it.Reset(batch); it.Next(); {
				}
				if it.Err() != nil {
					return it.Err()
				}
				rest = after
			}
			return nil
		})
		return ns - float64(len(data))*1e9/k.spent["cpu.sum"], err
	}
	return k.take("cpu.batch", "a consumer's two walks over 500 batches of one record, less those over one batch of 500, each without its checksums", nanoseconds, func() (float64, error) {
		apart, err := walk(single)
		if err != nil {
			return 0, err
		}
		whole, err := walk(together)
		return max(0, apart-whole) / many, err
	})
}

// record measures how a server looks at a record.
func (k *Calibration) record() error {
	const records = 500
	values := (&drive{cell: visitsCell()}).values(0)
	var b record.Builder
	b.Reset(record.None)
	for i := range records {
		b.Add(int64(i), nil, values[i%len(values)], nil)
	}
	data, err := b.Finish()
	if err != nil {
		return err
	}
	var v record.Validator
	return k.take("cpu.record", "a server's check of a batch of 500, without its checksum", nanoseconds, func() (float64, error) {
		ns, err := costs(func() error {
			batch, _, err := record.Next(data)
			if err != nil {
				return err
			}
			return v.Validate(&batch)
		})
		return (ns - float64(len(data))*1e9/k.spent["cpu.sum"]) / records, err
	})
}

// spreadOf is the median of samples with the lowest and the highest.
func spreadOf(all []float64) Figure {
	f := Figure{Median: middle(all), Low: all[0], High: all[0]}
	for _, v := range all {
		f.Low, f.High = min(f.Low, v), max(f.High, v)
	}
	return f
}

// pass sends a message over a connection and takes it out at its other end.
func pass(a, b interface {
	Write([]byte) (int, error)
	Read([]byte) (int, error)
}, message, got []byte) error {
	if _, err := a.Write(message); err != nil {
		return err
	}
	for n := 0; n < len(message); {
		m, err := b.Read(got[n:])
		if err != nil {
			return err
		}
		n += m
	}
	if !bytes.Equal(message, got) {
		return errors.New("another message came out than went in")
	}
	return nil
}
