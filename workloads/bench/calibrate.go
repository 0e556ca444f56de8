package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Calibration measures what this machine costs, each figure by itself and none by the throughput that it is to predict: CPU costs are read from the process's CPU clock, so that other programs
// disturb them little, the others from the wall clock.
//
// It goes round: every round measures every figure once, and a cost that is left when others are taken off takes those of its own round. So all figures are of the same moments, and what slows the
// machine down for a while does not spoil one of them alone.
type Calibration struct {
	Host *Host  // runs the servers that costs of requests and records are measured with
	Dir  string // on the disk that is measured. Default: the system's folder for temporary files
	Stop func() bool
	// Said is told each figure at the end: "cpu.syscall", "870ns", "850ns to 910ns of 7".
	Said func(name, value, spread string)
	// Round is told after each round how many there were, and of how many.
	Round func(done, of int)

	figures []*calibrated      // in the order of the file
	spent   map[string]float64 // what was measured in this round
}

const (
	calibrateRounds = 7
	seldom          = 3 // rounds: the queue is measured in the first of them, for it takes as long as all others together
	leastRounds     = 3 // that a figure takes
	calibrateSlice  = 40 * time.Millisecond
)

// calibrated is a figure, with its value in each round.
type calibrated struct {
	path, remark string
	format       func(float64) string
	all          []float64
	fixed        string // the value of one that is not measured
}

// Run measures everything and returns the profile as a file.
func (k *Calibration) Run(name string) ([]byte, error) {
	dir, err := os.MkdirTemp(k.Dir, "faultline-calibrate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	k.figures = nil
	p := &processor{k: k}
	q := &paths{k: k}
	d := &device{k: k}
	defer p.close()
	defer q.close()
	defer d.close()
	for _, begin := range []func() error{func() error { return p.open(dir) }, q.open, func() error { return d.open(dir) }} {
		if err := begin(); err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
	}
	for round := range calibrateRounds {
		k.spent = map[string]float64{}
		steps := []func() error{p.measure, q.measure, d.measure, k.network}
		if round%seldom == 0 {
			steps = slices.Insert(steps, 2, func() error { return k.queue(uint64(round)) })
		}
		for _, measure := range steps {
			if err := measure(); err != nil {
				return nil, fmt.Errorf("calibrate: %w", err)
			}
		}
		k.Round(round+1, calibrateRounds)
	}
	text, err := k.profile(name)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	_, err = ParseProfile(name+".yaml", text)
	return text, err
}

// set writes down what is not measured.
func (k *Calibration) set(path, value, remark string) {
	if k.figure(path) == nil {
		k.figures = append(k.figures, &calibrated{path: path, remark: remark, fixed: value})
	}
}

// take measures a figure in this round.
func (k *Calibration) take(path, what string, format func(float64) string, sample func() (float64, error)) error {
	if k.Stop() {
		return ErrStopped
	}
	v, err := sample()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	k.note(path, what, format, v)
	return nil
}

// note writes down what a figure is in this round; one that is not a number, of a run in which nothing was done, is none.
func (k *Calibration) note(path, what string, format func(float64) string, v float64) {
	f := k.figure(path)
	if f == nil {
		f = &calibrated{path: path, remark: what, format: format}
		k.figures = append(k.figures, f)
	}
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		f.all = append(f.all, v)
		k.spent[path] = v
	}
}

func (k *Calibration) figure(path string) *calibrated {
	i := slices.IndexFunc(k.figures, func(f *calibrated) bool { return f.path == path })
	if i < 0 {
		return nil
	}
	return k.figures[i]
}

// profile is the file.
func (k *Calibration) profile(name string) ([]byte, error) {
	lines := []string{
		"name: " + name,
		"about: >-",
		fmt.Sprintf("  %s, measured by \"faultline calibrate\" with %s: each figure is the median of so many rounds as its remark says, with the lowest and highest.", Computer(), runtime.Version()),
	}
	var in []string // sections that are open
	for _, f := range k.figures {
		value, remark := f.fixed, f.remark
		if f.format != nil {
			if len(f.all) < leastRounds {
				return nil, fmt.Errorf("%s: clients had the processor in %d rounds, it takes %d: this machine is too busy", f.path, len(f.all), leastRounds)
			}
			all := FigureOf(f.all)
			if all.Median <= 0 {
				return nil, fmt.Errorf("%s: found %v, a figure is above 0: is this machine too busy?", f.path, all.Median)
			}
			value, remark = f.format(all.Median), fmt.Sprintf("%s to %s of %d: %s", f.format(all.Low), f.format(all.High), len(f.all), remark)
		}
		parts := strings.Split(f.path, ".")
		for i, section := range parts[:len(parts)-1] {
			if i < len(in) && in[i] == section {
				continue
			}
			in = append(in[:i], section)
			lines = append(lines, strings.Repeat("  ", i)+section+":")
		}
		in = in[:len(parts)-1]
		lines = append(lines, fmt.Sprintf("%s%s: %s # %s", strings.Repeat("  ", len(parts)-1), parts[len(parts)-1], value, remark))
		k.Said(f.path, value, remark)
	}
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}

func nanoseconds(v float64) string { return fmt.Sprintf("%dns", int64(math.Round(v))) }
func perSecond(v float64) string   { return fmt.Sprintf("%dB/s", int64(math.Round(v))) }

// cpuTime is the CPU time of this process so far.
func cpuTime() time.Duration {
	t, _ := cpuClock()
	return t
}

// costs is how much CPU time in nanoseconds one call takes.
func costs(slice time.Duration, fn func() error) (float64, error) { return takes(slice, cpuTime, fn) }

// takes is how many nanoseconds of a clock one call takes.
func takes(slice time.Duration, clock func() time.Duration, fn func() error) (float64, error) {
	begin, calls := clock(), 0
	for until := time.Now().Add(slice); time.Now().Before(until); {
		for range 16 {
			if err := fn(); err != nil {
				return 0, err
			}
			calls++
		}
	}
	return float64(clock()-begin) / float64(calls), nil
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
