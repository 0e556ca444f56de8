package log

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/host"
	"faultline/sim/machine"
)

// TestOnTheRealMachine lets tasks append, read and retain in parallel on real files; the race detector is the judge.
func TestOnTheRealMachine(t *testing.T) {
	root := t.TempDir()
	m, err := host.New(host.Options{Root: root})
	require.NoError(t, err)
	defer m.Shutdown()
	cfg := Config{SegmentBytes: 20_000, IndexInterval: 500, FlushInterval: time.Millisecond, RetentionTime: -1, RetentionBytes: 200_000}
	log, err := Open(m, dir, "t", 0, cfg, false)
	require.NoError(t, err)
	moved := make(chan struct{}, 1)
	log.OnVisible(func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})

	const tasks, appends = 4, 200
	var wg sync.WaitGroup
	task := func(fn func() error) {
		wg.Add(1)
		m.Go("task", func() {
			defer wg.Done()
			if err := fn(); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range tasks {
		task(func() error {
			var b record.Builder
			for n := range appends {
				b.Reset(record.None)
				b.Add(int64(n), nil, bytes.Repeat([]byte{byte(i)}, 300), nil)
				p, err := b.Finish()
				if err != nil {
					return err
				}
				a, err := log.Append(p, AppendOptions{})
				if err != nil {
					return err
				}
				if n%20 == 0 {
					if err := log.WaitVisible(a.Next, time.Minute); err != nil {
						return err
					}
				}
			}
			return nil
		})
		task(func() error {
			for offset := log.Start(); offset < tasks*appends; {
				s := log.State()
				if offset = max(offset, s.Start); offset >= s.Visible {
					m.Sleep(100 * time.Microsecond)
					continue
				}
				span, err := log.Read(offset, 4000, s.Visible)
				if start := log.Start(); start > offset {
					offset = start
					span.Release()
					continue
				}
				if err != nil {
					return err
				}
				p := make([]byte, span.Len)
				if _, err := machine.ReadFull(span.File, p, span.Pos); err != nil {
					return err
				}
				for rest := p; len(rest) > 0; {
					var b record.Batch
					if b, rest, err = record.Next(rest); err == nil {
						err = b.Check()
					}
					if err != nil {
						return err
					}
				}
				offset = span.Next
				span.Release()
			}
			return nil
		})
	}
	task(func() error {
		for log.End() < tasks*appends {
			if err := log.Retain(math.MaxInt64); err != nil {
				return err
			}
			if _, _, err := log.OffsetForTime(appends/2, log.Visible()); err != nil {
				return err
			}
			m.Sleep(time.Millisecond)
		}
		return nil
	})
	wg.Wait()
	require.NotEmpty(t, moved)
	require.NoError(t, log.Close())
	require.ErrorIs(t, log.Close(), ErrClosed)

	for _, clean := range []bool{true, false} {
		report := checkReal(t, filepath.Join(root, dir))
		require.EqualValues(t, tasks*appends, report.End)
		log, err = Open(m, dir, "t", 0, cfg, clean)
		require.NoError(t, err)
		require.Equal(t, State{Start: report.Start, Visible: report.End, End: report.End}, log.State())
		require.NoError(t, log.Close())
	}
	log, err = Open(m, dir, "t", 0, cfg, true)
	require.NoError(t, err)
	require.NoError(t, log.Delete())
	list, err := os.ReadDir(filepath.Join(root, filepath.Dir(dir)))
	require.NoError(t, err)
	require.Empty(t, list)
}

func checkReal(t *testing.T, dir string) Report {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var files []DirFile
	for _, entry := range list {
		p, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		files = append(files, DirFile{Name: entry.Name(), Size: int64(len(p)), Data: bytes.NewReader(p)})
	}
	report, err := CheckDir(files)
	require.NoError(t, err)
	return report
}
