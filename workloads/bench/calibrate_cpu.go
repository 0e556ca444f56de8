package bench

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"faultline/broker/record"
	"faultline/consumer"
)

// gauges measure what the processor does by itself, by the CPU time of calls that change nothing.
type gauges struct {
	near, far     net.Conn
	message, got  []byte
	large, taken  []byte // the same of 64 KiB
	from, to      []byte // beyond the caches; not of the heap, for they would change when the collector runs
	free          func()
	at            int
	sum           uint32
	single, whole []byte // batches of one record each, and the same records in one
	validator     record.Validator
	walker        consumer.Walker
}

const (
	gaugeBlock   = 64 << 10
	gaugeBytes   = 64 << 20
	storeBytes   = 32 << 20
	flushBytes   = 4 << 20
	gaugeRecords = 500
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newGauges() (*gauges, error) {
	if _, ok := cpuClock(); !ok {
		return nil, errors.New("the CPU clock of a process can be read on Linux only")
	}
	g := &gauges{message: make([]byte, 200), got: make([]byte, 200), large: make([]byte, gaugeBlock), taken: make([]byte, gaugeBlock), free: func() {}}
	memory, free, err := outsideHeap(2 * gaugeBytes)
	if err != nil {
		return nil, err
	}
	g.from, g.to, g.free = memory[:gaugeBytes], memory[gaugeBytes:], free
	for i := range g.from { // so that all of it is there
		g.from[i], g.to[i] = byte(i), byte(i>>8)
	}
	values := (&drive{cell: visitsCell()}).values(0)
	var b record.Builder
	for i := range gaugeRecords {
		b.Reset(record.None)
		b.Add(int64(i), nil, values[i%len(values)], nil)
		data, err := b.Finish()
		if err != nil {
			return nil, err
		}
		at := len(g.single)
		g.single = append(g.single, data...)
		batch, _, err := record.Next(g.single[at:])
		if err != nil {
			return nil, err
		}
		batch.Place(int64(i), 0)
	}
	b.Reset(record.None)
	for i := range gaugeRecords {
		b.Add(int64(i), nil, values[i%len(values)], nil)
	}
	if g.whole, err = b.Finish(); err != nil {
		return nil, err
	}
	g.near, g.far, err = loopback()
	return g, err
}

func (g *gauges) close() {
	g.free()
	if g.near != nil {
		g.near.Close()
		g.far.Close()
	}
}

func (g *gauges) next(list []byte) []byte {
	g.at = (g.at + gaugeBlock) % len(list)
	return list[g.at : g.at+gaugeBlock]
}

// pass is a write and a read.
func (g *gauges) pass() error { return pass(g.near, g.far, g.message, g.got) }

// passLarge is the same of 64 KiB.
func (g *gauges) passLarge() error { return pass(g.near, g.far, g.large, g.taken) }

func (g *gauges) copy() error {
	copy(g.next(g.to), g.next(g.from))
	return nil
}

func (g *gauges) checksum() error {
	g.sum ^= crc32.Checksum(g.next(g.from), castagnoli)
	return nil
}

// check is a server's look at a batch.
func (g *gauges) check() error {
	batch, _, err := record.Next(g.whole)
	if err != nil {
		return err
	}
	return g.validator.Validate(&batch)
}

// walk is what a consumer does with fetched bytes.
func (g *gauges) walk(p []byte) error {
	n, err := g.walker.Walk(0, math.MaxInt64, p)
	if err == nil && n != gaugeRecords {
		err = fmt.Errorf("found %d records where %d are", n, gaugeRecords)
	}
	return err
}

// processor measures the section cpu, but for what takes servers.
type processor struct {
	k *Calibration
	*gauges
	file *os.File // that is stored in
}

// codecGauge compresses or decompresses 64 KiB.
type codecGauge struct {
	path, what string
	bytes      int
	run        func() error
}

func (p *processor) open(dir string) (err error) {
	cores, remark := runtime.NumCPU(), "all: they cannot be shared out"
	if n := halfOfComputer(); n > 0 {
		cores, remark = n, "servers and clients are pinned to half of the processors each"
	}
	p.k.set("cpu.cores", fmt.Sprint(cores), remark)
	if p.file, err = os.Create(filepath.Join(dir, "stored")); err != nil {
		return err
	}
	p.gauges, err = newGauges()
	return err
}

// store writes to the end of a file, again and again so many bytes, as a log does, and returns what each write takes in nanoseconds.
func (p *processor) store(total, bytes int) (float64, error) {
	if err := p.file.Truncate(0); err != nil {
		return 0, err
	}
	begin := cpuTime()
	for at := 0; at < total; at += bytes {
		if _, err := p.file.WriteAt(p.next(p.from)[:bytes], int64(at)); err != nil {
			return 0, err
		}
	}
	return float64(cpuTime()-begin) / float64(total/bytes), nil
}

// flush syncs a file to which pages were written one by one, and returns how many bytes a second of CPU time that is.
func (p *processor) flush() (float64, error) {
	if _, err := p.store(flushBytes, pageBytes); err != nil {
		return 0, err
	}
	begin := cpuTime()
	err := p.file.Sync()
	return flushBytes / (cpuTime() - begin).Seconds(), err
}

func (p *processor) close() {
	if p.gauges != nil {
		p.gauges.close()
	}
	if p.file != nil {
		p.file.Close()
	}
}

// interrupts finds how much work there is between two interrupts, and how long they take, in nanoseconds: a write and a read of a connection are timed one by one, and those that take more than twice as long as most were interrupted.
func (p *processor) interrupts() (every, takes float64, err error) {
	all := make([]float64, 0, 1<<14)
	for until := time.Now().Add(calibrateSlice); time.Now().Before(until); {
		begin := time.Now()
		if err := p.pass(); err != nil {
			return 0, 0, err
		}
		all = append(all, float64(time.Since(begin)))
	}
	usual := middle(all)
	work, lost, times := 0.0, 0.0, 0.0
	for _, ns := range all {
		if ns > 2*usual {
			lost, times, ns = lost+ns-usual, times+1, usual
		}
		work += ns
	}
	times = max(times, 1) // where nothing interrupts, next to nothing does
	return work / times, max(1, lost/times), nil
}

// measure is a round. It runs where clients do.
func (p *processor) measure() error {
	defer splitComputer().pinClients()()
	k := p.k
	each := func(path, what string, format func(float64) string, fn func() error, of func(ns float64) float64) error {
		return k.take(path, what, format, func() (float64, error) {
			ns, err := costs(calibrateSlice, fn)
			return of(ns), err
		})
	}
	speed := func(bytes int) func(float64) float64 {
		return func(ns float64) float64 { return float64(bytes) * 1e9 / ns }
	}
	summed := func(data []byte) float64 { return float64(len(data)) * 1e9 / k.spent["cpu.sum"] }
	if err := errors.Join(
		each("cpu.syscall", "half of a write and a read of 200 bytes on a loopback connection", nanoseconds, p.pass, func(ns float64) float64 { return ns / 2 }),
		each("cpu.copy", "64 KiB at a time, beyond the caches", perSecond, p.copy, speed(gaugeBlock)),
		each("cpu.move", "64 KiB at a time into a loopback connection and out of it, without system calls, of each of the two", perSecond, p.passLarge, func(ns float64) float64 {
			return 2 * gaugeBlock * 1e9 / (ns - 2*k.spent["cpu.syscall"])
		}),
		k.take("cpu.store", "64 KiB at a time to the end of a file, without system calls", perSecond, func() (float64, error) {
			ns, err := p.store(storeBytes, gaugeBlock)
			return gaugeBlock * 1e9 / (ns - k.spent["cpu.syscall"]), err
		}),
		k.take("cpu.flush", fmt.Sprintf("fsync of %d MiB that were written a page at a time", flushBytes>>20), perSecond, p.flush),
		each("cpu.sum", "CRC-32C of 64 KiB at a time", perSecond, p.checksum, speed(gaugeBlock)),
		each("cpu.record", "a server's check of a batch of 500, without its checksum", nanoseconds, p.check, func(ns float64) float64 { return (ns - summed(p.whole)) / gaugeRecords }),
		k.take("cpu.batch", "a consumer's two walks over 500 batches of one record, less those over one batch of 500, each without its checksums", nanoseconds, func() (float64, error) {
			apart, err := costs(calibrateSlice, func() error { return p.walk(p.single) })
			if err != nil {
				return 0, err
			}
			whole, err := costs(calibrateSlice, func() error { return p.walk(p.whole) })
			return max(0, apart-summed(p.single)-whole+summed(p.whole)) / gaugeRecords, err
		}),
	); err != nil {
		return err
	}
	every, takes, err := p.interrupts()
	if err != nil {
		return fmt.Errorf("cpu.interrupt: %w", err)
	}
	k.note("cpu.interrupt.every", "work between two times that a write and a read of 200 bytes takes more than twice as long as usual", nanoseconds, every)
	k.note("cpu.interrupt.takes", "how much longer it takes then", nanoseconds, takes)
	codecs, err := codecGauges()
	if err != nil {
		return err
	}
	for i := range codecs {
		c := &codecs[i]
		if err := each(c.path, c.what, perSecond, c.run, speed(c.bytes)); err != nil {
			return err
		}
	}
	codecs = nil
	runtime.GC() // what clients cost depends on what else is in memory
	return nil
}

// codecGauges measure compression of records as large and as compressible as visits are.
func codecGauges() ([]codecGauge, error) {
	var plain []byte
	values := (&drive{cell: visitsCell()}).values(0)
	for i := 0; len(plain) < gaugeBlock; i++ { // each message once, as in a batch
		plain = append(plain, values[i]...)
	}
	var pack, inflate []codecGauge
	for _, codec := range []record.Codec{record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		var c record.Compressor
		var d record.Decompressor
		packed, err := c.Append(nil, plain, codec)
		if err != nil {
			return nil, err
		}
		var out []byte
		pack = append(pack, codecGauge{"cpu.compress." + codec.String(), "64 KiB of visits", len(plain), func() (err error) {
			out, err = c.Append(out[:0], plain, codec)
			return err
		}})
		inflate = append(inflate, codecGauge{"cpu.decompress." + codec.String(), "of what comes forth", len(plain), func() (err error) {
			out, err = d.Append(out[:0], packed, codec)
			return err
		}})
	}
	return append(pack, inflate...), nil
}
