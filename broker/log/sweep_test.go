package log

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/disk"
	"faultline/sim/machine"
)

// TestEveryDiskOperationMayFail tells one story of a log (start, appends, flushes, rolls, retention, a clean end, a restart) many times. Each time another operation of its disk, the
// k-th, fails with EIO, or finds the disk full from then to the end of the next step. It holds that
//
//   - the error says which operation failed on which path, and why;
//   - a fenced log takes nothing more (L10 of the known faults), and a restart mends it; a log that is not fenced goes on;
//   - what was acknowledged is there after the crash of the process that ends the story, and what was visible is there after a power loss;
//   - nothing is there that was not appended at its place.
func TestEveryDiskOperationMayFail(t *testing.T) {
	for _, kind := range []disk.Kind{disk.Error, disk.Full} {
		t.Run(kind.String(), func(t *testing.T) {
			failures := 0
			for k := 0; ; k++ {
				s := &sweep{rig: newRig(t, 1, Config{SegmentBytes: 700, IndexInterval: 100, RetentionTime: -1, RetentionBytes: 1000}), kind: kind, at: k}
				s.run(k%2 == 0)
				s.w.Close()
				if s.failure != nil {
					failures++
				}
				if s.at >= 0 { // the story was over before
					break
				}
			}
			require.Greater(t, failures, 30)
		})
	}
}

type sweep struct {
	*rig
	kind    disk.Kind
	at      int // operations before the one that fails; -1: the fault was injected
	heal    int // steps until it is healed
	failure error

	acked   []batchBytes // by offset
	unknown [][]byte     // under way when the log was fenced
	visible int64
	start   int64
}

type batchBytes struct {
	base, next int64
	bytes      []byte
}

func (s *sweep) run(powerLoss bool) {
	s.onDisk = func(string) {
		if s.at--; s.at == -1 {
			f := disk.Fault{ID: "sweep", Kind: s.kind}
			if s.heal = 2; s.kind == disk.Error {
				f.Ops, f.Count = ^disk.Ops(0), 1
			}
			s.inject(f)
		}
		s.at = max(s.at, -1)
	}
	clean := s.at%3 == 0
	s.start0()
	for range 3 {
		s.add(1, 10)
		s.add(2, 300)
		s.step("flush", func() error { return s.log.Flush() })
		s.add(1, 600)
		s.add(1, 10)
		s.step("retain", func() error { return s.log.Retain(s.log.End()) })
		s.add(1, 20)
		s.step("flush", func() error { return s.log.Flush() })
		s.add(1, 20)
	}
	if clean {
		s.step("close", func() error { return s.log.Close() })
		s.crash()
		s.reopen()
		s.add(1, 10)
	}
	s.onDisk = nil
	s.c.Disk().HealAll()
	if powerLoss {
		s.powerLoss()
		for n := len(s.acked); n > 0 && s.acked[n-1].base >= s.visible; n-- {
			s.unknown = append(s.unknown, s.acked[n-1].bytes)
			s.acked = s.acked[:n-1]
		}
	} else {
		s.crash()
	}
	require.NoError(s.t, s.open(false), "after %v", s.failure)
	s.judge()
}

func (s *sweep) start0() {
	if err := s.open(false); err != nil {
		s.judgeError(err)
		s.reopen()
	}
}

// step does something that may fail, and learns what is promised.
func (s *sweep) step(what string, do func() error) {
	err := s.do(do)
	for _, e := range s.takeEvents() {
		switch e.Kind {
		case machine.LogVisible:
			s.visible = max(s.visible, e.A)
		case machine.LogDeleted:
			s.start = max(s.start, e.B)
		}
	}
	if err == nil && what == "flush" {
		require.Equal(s.t, s.state().End, s.visible)
	}
	s.after(err)
}

func (s *sweep) add(records, size int) {
	p := s.batch(records, size, 1000, record.None)
	a, err := s.append(p)
	switch {
	case err == nil:
		s.acked = append(s.acked, batchBytes{a.Base, a.Next, p})
	case errors.Is(err, ErrFenced):
		s.unknown = append(s.unknown, p)
	}
	s.step("append", func() error { return err })
}

// after deals with the outcome of a step.
func (s *sweep) after(err error) {
	if s.heal > 0 {
		if s.heal--; s.heal == 0 {
			s.c.Disk().HealAll()
		}
	}
	s.judgeError(err)
	if state := s.state(); state.Err == nil {
		return
	} else if !errors.Is(state.Err, ErrClosed) {
		require.ErrorIs(s.t, state.Err, ErrFenced)
		s.judgeError(state.Err)
		end := state.End
		_, err := s.append(s.batch(1, 10, 1000, record.None))
		require.ErrorIs(s.t, err, ErrFenced)
		require.ErrorIs(s.t, s.do(func() error { return s.log.Retain(s.log.End()) }), ErrFenced)
		require.ErrorIs(s.t, s.do(func() error { return s.log.Close() }), ErrFenced)
		require.Equal(s.t, end, s.state().End)
	} else if err == nil {
		return // closed by the story
	}
	s.crash()
	s.reopen()
}

// reopen restarts the log; a start that fails is tried again without the fault.
func (s *sweep) reopen() {
	if err := s.open(false); err != nil {
		s.judgeError(err)
		s.c.Disk().HealAll()
		require.NoError(s.t, s.open(false), "after %v", err)
	}
	s.judge()
}

func (s *sweep) judgeError(err error) {
	if err == nil {
		return
	}
	s.failure = err
	want := machine.ErrIO
	if s.kind == disk.Full {
		want = machine.ErrNoSpace
	}
	require.ErrorIs(s.t, err, want)
	require.NotErrorIs(s.t, err, ErrDamaged)
	require.Regexp(s.t, ` (data|syncdir : )`, err.Error(), "which path; the root has none")
	require.ErrorContains(s.t, err, "log t/0")
}

// judge looks at a log that was just opened.
func (s *sweep) judge() {
	for _, e := range s.takeEvents() {
		if e.Kind == machine.LogDeleted {
			s.start = max(s.start, e.B)
		}
	}
	report, err := CheckDir(s.files())
	require.NoError(s.t, err, "after %v", s.failure)
	state := s.state()
	require.GreaterOrEqual(s.t, state.End, s.visible, "after %v", s.failure)
	require.LessOrEqual(s.t, state.Start, s.start, "after %v", s.failure)
	acked := s.acked
	for len(acked) > 0 && acked[0].base < state.Start {
		acked = acked[1:]
	}
	var found []batchBytes
	for _, b := range report.Batches {
		p, _, err := s.read(b.Base, 1, state.End)
		require.NoError(s.t, err)
		found = append(found, batchBytes{b.Base, b.Last + 1, p})
		if len(acked) > 0 && acked[0].base == b.Base {
			require.True(s.t, bytes.Equal(acked[0].bytes, p), "offset %d is another batch, after %v", b.Base, s.failure)
			acked = acked[1:]
			continue
		}
		require.True(s.t, s.attempted(p), "offset %d was never appended, after %v", b.Base, s.failure)
	}
	require.Empty(s.t, acked, "acknowledged batches are gone, after %v", s.failure)
	s.acked, s.unknown, s.visible, s.start = found, nil, state.End, state.Start
}

func (s *sweep) attempted(p []byte) bool {
	for _, u := range s.unknown {
		if bytes.Equal(u, p) {
			return true
		}
	}
	return false
}
