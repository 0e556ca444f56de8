package log

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/disk"
	"faultline/sim/machine"
)

// Bytes that are no longer what was written. These tests hold what the package comment says of them: the log never passes off a batch as another one. Either it refuses
// to open (ErrDamaged), or to read there, or it ends before, or the bytes that it serves fail the CRC check that every reader makes.

// spoiled is a log with bytes that are not to be trusted, and what was appended to it.
type spoiled struct {
	*rig
	batches map[int64][]byte // by base offset
	end     int64
}

// spoil appends batches of all sizes over several segments, the last one or two of which lie above the recovery point.
func spoil(t *testing.T, seed uint64) *spoiled {
	s := &spoiled{newRig(t, seed, Config{SegmentBytes: 9000, IndexInterval: 700}), map[int64][]byte{}, 0}
	require.NoError(t, s.open(false))
	for i := range 24 {
		s.add(1+i%3, 100*(i%7))
		if i%4 == 3 && i < 20 {
			s.flush()
		}
	}
	return s
}

func (s *spoiled) add(records, size int) {
	p := s.batch(records, size, 1000+s.end, record.None)
	a, err := s.append(p)
	require.NoError(s.t, err)
	s.batches[a.Base], s.end = p, a.Next
}

func (s *spoiled) flush() { require.NoError(s.t, s.do(func() error { return s.log.Flush() })) }

// found is what a reader makes of the log.
type found struct{ good, caught, refused int }

// readAll reads every offset as a consumer does: what it is served is what was appended there, or fails its check.
func (s *spoiled) readAll() (f found) {
	state := s.state()
	for offset := state.Start; offset < state.End; offset++ {
		p, _, err := s.read(offset, 1, state.End)
		if err != nil {
			require.ErrorIs(s.t, err, ErrDamaged)
			require.ErrorContains(s.t, err, ".log, position")
			f.refused++
			continue
		}
		b, _, err := record.Next(p)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			f.caught++
			continue
		}
		require.True(s.t, bytes.Equal(s.batches[b.BaseOffset], p), "offset %d: the batch that is served is valid and not what was appended", offset)
		if b.BaseOffset <= offset && offset < b.NextOffset() {
			f.good++
		} else {
			f.caught++ // a consumer sees that it is not what it asked for
		}
	}
	return f
}

func TestRotBelowTheRecoveryPointIsCaughtByTheReader(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		s := spoil(t, seed)
		s.flush()
		s.crash()
		require.NoError(t, s.open(false)) // all is below the recovery point now
		s.crash()
		s.inject(disk.Fault{ID: "rot", Kind: disk.Rot, Path: dir + "/*.log", Probability: 0.03, Count: 1})
		hits := s.c.Disk().Faults()[0].Hits
		err := s.open(seed%2 == 0)
		switch {
		case errors.Is(err, ErrDamaged):
			require.ErrorContains(t, err, dir+"/000")
			seen["refused to open"]++
		case hits == 0:
			require.NoError(t, err)
			require.Equal(t, found{good: int(s.end)}, s.readAll())
		default:
			require.NoError(t, err)
			require.Equal(t, s.end, s.state().End, "nothing is cut off there")
			f := s.readAll()
			require.Positive(t, f.caught+f.refused, "%v", s.c.Disk().Faults())
			require.Positive(t, f.good)
			seen["caught"]++
			// The rest goes on, and the truth is below.
			s.add(1, 10)
			s.flush()
			s.c.Disk().HealAll()
			s.crash()
			require.NoError(t, s.open(false))
			require.Equal(t, found{good: int(s.end)}, s.readAll())
		}
		s.w.Close()
	}
	require.Positive(t, seen["refused to open"])
	require.Positive(t, seen["caught"])
}

func TestRotInTheTailCutsTheLogThere(t *testing.T) {
	cut := 0
	for seed := range uint64(60) {
		s := spoil(t, seed)
		s.flush()
		recovery := s.log.recovery
		s.crash()
		tail := segmentName(recovery, logSuffix)
		s.inject(disk.Fault{ID: "rot", Kind: disk.Rot, Path: dir + "/" + tail, Probability: 0.2, Count: 1})
		require.NoError(t, s.open(false), "what lies above the recovery point may be torn, so a bad batch there is no reason to refuse")
		state := s.state()
		if s.c.Disk().Faults()[0].Hits > 0 {
			require.Less(t, state.End, s.end)
			cut++
		}
		require.Equal(t, found{good: int(state.End)}, s.readAll(), "what is left was checked")
		report, err := CheckDir(s.files())
		require.NoError(t, err)
		require.Equal(t, state.End, report.End)
		s.w.Close()
	}
	require.Positive(t, cut)
}

// Indexes are hints and the checkpoint carries a CRC: whatever they say, nothing is lost and nothing wrong is served.
func TestRotOfIndexesAndCheckpointLosesNothing(t *testing.T) {
	for seed := range uint64(60) {
		s := spoil(t, seed)
		s.flush()
		clean := seed%3 == 0
		if clean {
			require.NoError(t, s.do(func() error { return s.log.Close() }))
		}
		s.crash()
		for _, name := range []string{"*index", "checkpoint"} {
			s.inject(disk.Fault{ID: name, Kind: disk.Rot, Path: dir + "/" + name, Probability: 0.5, Count: 2})
		}
		require.NoError(t, s.open(clean), "%v", s.c.Disk().Faults())
		require.Equal(t, s.end, s.state().End)
		require.Equal(t, found{good: int(s.end)}, s.readAll(), "%v", s.c.Disk().Faults())
		s.w.Close()
	}
}

// A page of an append lands elsewhere in the file: its place keeps what was there, zeros in the end, and another page is overwritten.
func TestMisdirectedAppendIsCaught(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		s := spoil(t, seed)
		s.inject(disk.Fault{ID: "astray", Kind: disk.Misdirect, Path: dir + "/*.log", Count: 1})
		s.add(1, 5000) // of a file of one page nothing goes astray
		s.add(2, 300)
		s.add(1, 10)
		if seed%2 == 0 {
			s.flush()
		}
		if f := s.readAll(); f.caught+f.refused > 0 {
			seen["caught by a reader before the restart"]++
		}
		hit := s.c.Disk().Faults()[0]
		s.crash()
		err := s.open(false)
		if errors.Is(err, ErrDamaged) {
			require.ErrorContains(t, err, strings.TrimPrefix(hit.Last.Path, dir+"/"), "it names the file")
			seen["refused to open"]++
			s.w.Close()
			continue
		}
		require.NoError(t, err)
		if s.state().End < s.end {
			seen["cut"]++
		}
		s.readAll()
		s.w.Close()
	}
	t.Log(seen)
	require.Positive(t, seen["caught by a reader before the restart"])
	require.Positive(t, seen["cut"])
}

// A drive that lies about Sync breaks the promise below the log: after a power loss the log is shorter than what was visible, or refuses to open. What it serves is right all the same.
func TestLyingDriveShortensTheLogAndCorruptsNothing(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		s := spoil(t, seed)
		s.flush()
		before := s.end
		s.inject(disk.Fault{ID: "lie", Kind: disk.Lie, Probability: []float64{0, 0.5}[seed%2]})
		for range 8 {
			s.add(1, 800)
			s.flush()
		}
		s.powerLoss()
		s.c.Disk().HealAll()
		err := s.open(false)
		if errors.Is(err, ErrDamaged) {
			seen["refused to open"]++
			s.w.Close()
			continue
		}
		require.NoError(t, err)
		end := s.state().End
		if seed%2 == 0 {
			require.GreaterOrEqual(t, end, before, "what was flushed before the lies is there")
		}
		if end < s.end {
			seen["shorter"]++
		}
		require.Equal(t, found{good: int(end)}, s.readAll())
		s.w.Close()
	}
	t.Log(seen)
	require.Positive(t, seen["shorter"])
}

// Errors of entry operations, at the start and at a roll.
func TestErrorsOfEntryOperations(t *testing.T) {
	for _, c := range []struct {
		op   disk.Ops
		path string
		verb string
	}{
		{disk.OpReadDir, dir, "readdir " + dir},
		{disk.OpOpen, dir + "/*.log", "open " + dir + "/000"},
		{disk.OpOpen, dir + "/checkpoint", "open " + dir + "/checkpoint"},
		{disk.OpRename, dir + "/*", "rename " + dir + "/000"},
		{disk.OpRemove, dir + "/*", "remove " + dir + "/000"},
		{disk.OpMkdir, "**", "mkdir " + dir},
	} {
		t.Run(c.op.String(), func(t *testing.T) {
			s := spoil(t, 1)
			defer s.w.Close()
			s.flush()
			s.crash()
			require.NoError(t, s.do(func() error { // what a crash may leave, for the start to sweep up
				f, err := s.m.Disk().Open(dir+"/"+segmentName(0, timeSuffix)+temporary, machine.Create)
				if err == nil {
					err = f.Close()
				}
				return err
			}))
			s.inject(disk.Fault{ID: "eio", Kind: disk.Error, Ops: c.op, Path: c.path})
			err := s.open(false)
			require.ErrorIs(t, err, machine.ErrIO)
			require.ErrorContains(t, err, "log t/0: open: "+c.verb)
			s.c.Disk().HealAll()
			require.NoError(t, s.open(false))
			require.Equal(t, found{good: int(s.end)}, s.readAll())
		})
	}
	t.Run("create at a roll", func(t *testing.T) {
		s := spoil(t, 1)
		defer s.w.Close()
		s.inject(disk.Fault{ID: "eio", Kind: disk.Error, Ops: disk.OpCreate, Path: dir + "/*.log"})
		p := s.batch(1, 9000, 1000, record.None)
		_, err := s.append(p)
		require.ErrorIs(t, err, machine.ErrIO)
		require.NotErrorIs(t, err, ErrFenced, "nothing was written: the next append may succeed")
		require.ErrorContains(t, err, "log t/0: roll: open "+dir)
		s.c.Disk().HealAll()
		s.add(1, 9000)
		s.flush()
		require.Equal(t, found{good: int(s.end)}, s.readAll())
	})
}

// Neither base offset nor leader epoch of a batch is covered by its CRC. A copy whose place cannot be is refused, and recovery takes nothing from there on.
func TestACopyThatCannotBeIsRefused(t *testing.T) {
	r := newRig(t, 1, Config{})
	require.NoError(t, r.open(false))
	_, err := r.append(r.batch(2, 10, 1000, record.None))
	require.NoError(t, err)
	for _, c := range []struct {
		why         string
		base        int64
		epoch, lead int32
		ok          bool
	}{
		{"behind a gap", 3, 7, 9, false},
		{"at an offset that is taken", 1, 7, 9, false},
		{"of an epoch before that of the last batch", 2, 6, 9, false},
		{"of an epoch that its leader has not reached", 2, 10, 9, false},
		{"where it belongs", 2, 8, 9, true},
		{"of the epoch that is over by then", 4, 7, 9, false},
	} {
		b, _, err := record.Next(r.batch(2, 10, 2000, record.None))
		require.NoError(t, err)
		b.Place(c.base, c.epoch)
		before := r.state().End
		err = r.do(func() error {
			_, err := r.log.Append(b.Bytes, AppendOptions{LeaderEpoch: c.lead, Copy: true})
			return err
		})
		if c.ok {
			require.NoError(t, err, c.why)
			continue
		}
		require.ErrorIs(t, err, record.ErrInvalid, c.why)
		require.Equal(t, before, r.state().End, c.why)
	}
}

// No checksum covers a batch's leader epoch. Recovery keeps a batch of which only that is odd, and all behind it: to drop what was acknowledged would be worse.
func TestRecoveryKeepsABatchWhoseEpochIsOdd(t *testing.T) {
	r := newRig(t, 1, Config{})
	require.NoError(t, r.open(false))
	for range 3 {
		_, err := r.append(r.batch(2, 10, 1000, record.None))
		require.NoError(t, err)
	}
	require.NoError(t, r.do(func() error {
		f, err := r.m.Disk().Open(dir+"/"+segmentName(0, logSuffix), 0)
		if err != nil {
			return err
		}
		defer f.Close()
		size, err := f.Size()
		if err != nil {
			return err
		}
		_, err = machine.WriteFull(f, []byte{0, 0, 0, 6}, size/3*2+12) // of the third batch
		return err
	}))
	r.crash()
	require.NoError(t, r.open(false))
	require.EqualValues(t, 6, r.state().End)
}
