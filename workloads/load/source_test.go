package load

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func lines(t require.TestingT, s Source) []string {
	var out []string
	for {
		key, value, ok := s.Next()
		if !ok {
			return out
		}
		require.Nil(t, key)
		require.NotNil(t, value)
		out = append(out, string(value))
	}
}

func TestLinesKeepEveryByte(t *testing.T) {
	for text, want := range map[string][]string{
		"":                        nil,
		"\n":                      {""},
		"a":                       {"a"},
		"a\n":                     {"a"},
		"a\n\n\nb":                {"a", "", "", "b"},
		"crlf\r\nkept\r\n":        {"crlf\r", "kept\r"},
		"nul\x00inside\n\x00":     {"nul\x00inside", "\x00"},
		"\xff\xfe not utf-8\nä\n": {"\xff\xfe not utf-8", "ä"},
		"\r":                      {"\r"},
	} {
		l := NewLines("x", strings.NewReader(text), 100)
		require.Equal(t, want, lines(t, l), "%q", text)
		require.NoError(t, l.Err())
		require.EqualValues(t, len(want), l.Count())
	}
}

func TestLinesJoinToTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]byte("ab\n\r\x00\xff"))).Draw(t, "text")
		var r io.Reader = bytes.NewReader(text)
		if rapid.Bool().Draw(t, "slow") {
			r = iotest.OneByteReader(r)
		}
		l := NewLines("x", r, 1<<20)
		got := strings.Join(lines(t, l), "\n")
		require.Equal(t, strings.TrimSuffix(string(text), "\n"), got)
		require.NoError(t, l.Err())
	})
}

func TestLinesLargerThanTheBuffer(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000) // 1 MB
	l := NewLines("x", strings.NewReader("a\n"+long+"\nb\n"+long), len(long))
	require.Equal(t, []string{"a", long, "b", long}, lines(t, l))
	require.NoError(t, l.Err())
}

func TestLineTooLongNamesFileAndLine(t *testing.T) {
	for _, n := range []int{11, 300 << 10, 3 << 20} {
		l := NewLines("big.log", strings.NewReader("ok\n\n"+strings.Repeat("x", n)+"\nnever\n"), 10)
		require.Equal(t, []string{"ok", ""}, lines(t, l))
		require.ErrorIs(t, l.Err(), ErrLineTooLong)
		require.ErrorContains(t, l.Err(), "input big.log line 3: ")
		_, _, ok := l.Next()
		require.False(t, ok, "nothing after an error")
	}
}

func TestLinesTellReadErrors(t *testing.T) {
	bad := errors.New("bad sector")
	l := NewLines("x.log", io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(bad)), 10)
	require.Equal(t, []string{"a"}, lines(t, l))
	require.ErrorIs(t, l.Err(), bad)
	require.ErrorContains(t, l.Err(), "input x.log: after line 1")

	_, err := OpenLines(filepath.Join(t.TempDir(), "none"), 10)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = OpenLines(t.TempDir(), 10)
	require.ErrorContains(t, err, "is a directory")
}

func TestOpenLinesStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.log")
	f, err := os.Create(path)
	require.NoError(t, err)
	line := bytes.Repeat([]byte("x"), 999)
	line = append(line, '\n')
	for range 20_000 { // 20 MB
		f.Write(line)
	}
	require.NoError(t, f.Close())
	l, err := OpenLines(path, 1000)
	require.NoError(t, err)
	defer l.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	for {
		_, v, ok := l.Next()
		if !ok {
			break
		}
		n += len(v) + 1
	}
	runtime.ReadMemStats(&after)
	require.NoError(t, l.Err())
	require.Equal(t, 20_000_000, n)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "memory does not grow with the file")
}

func visits(seed uint64, cfg VisitsConfig) *Visits {
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return time.Date(2011, 6, 12, 8, 30, 0, 7e6, time.UTC) }
	}
	return NewVisits(rand.New(rand.NewPCG(seed, 1)), cfg)
}

func TestVisitsLookLikeVisits(t *testing.T) {
	v := visits(1, VisitsConfig{Count: 1, MinBytes: 200, MaxBytes: 200})
	key, value, ok := v.Next()
	require.True(t, ok)
	fields := strings.Split(string(value), "\t")
	require.Len(t, fields, 6)
	require.Equal(t, "2011-06-12T08:30:00.007Z", fields[0])
	require.Equal(t, string(key), fields[2], "keyed by address")
	require.True(t, strings.HasPrefix(fields[3], "/in/"))
	require.Len(t, value, 200)
	_, _, ok = v.Next()
	require.False(t, ok)
}

func TestVisitsFollowTheSeed(t *testing.T) {
	draw := func(seed uint64) string {
		var b strings.Builder
		for v := visits(seed, VisitsConfig{Count: 50}); ; {
			k, val, ok := v.Next()
			if !ok {
				return b.String()
			}
			b.Write(k)
			b.Write(val)
		}
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}

func TestVisitsSizesAndPopularity(t *testing.T) {
	v := visits(3, VisitsConfig{Count: 20_000, Visitors: 500, MinBytes: 16, MaxBytes: 64})
	keys, smallest, largest := map[string]int{}, 1000, 0
	for {
		k, val, ok := v.Next()
		if !ok {
			break
		}
		keys[string(k)]++
		smallest, largest = min(smallest, len(val)), max(largest, len(val))
	}
	require.Equal(t, 16, smallest)
	require.Equal(t, 64, largest)
	require.Greater(t, len(keys), 300)
	require.LessOrEqual(t, len(keys), 500)
	most := 0
	for _, n := range keys {
		most = max(most, n)
	}
	require.Greater(t, most, 1000, "the most popular visitor is much more popular")
}

func TestVisitorsHaveDifferentAddresses(t *testing.T) {
	seen := map[string]bool{}
	for i := range uint64(100_000) {
		a := string(appendAddress(nil, i))
		require.False(t, seen[a], a)
		seen[a] = true
	}
}

func TestVisitsAllocateNothing(t *testing.T) {
	v := visits(1, VisitsConfig{Count: -1})
	v.Next()
	require.Less(t, testing.AllocsPerRun(1000, func() { v.Next() }), 0.1)
}

func BenchmarkVisits(b *testing.B) {
	v := visits(1, VisitsConfig{Count: -1})
	b.ReportAllocs()
	for b.Loop() {
		v.Next()
	}
}
