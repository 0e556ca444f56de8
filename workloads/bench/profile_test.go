package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShippedProfilesAreValid(t *testing.T) {
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		require.NoError(t, err)
		require.Equal(t, name, p.Name)
	}
}

func TestProfileOfAFileIsChecked(t *testing.T) {
	good := `
name: mine
cpu: {cores: 2, request: 8us, record: 90ns, syscall: 900ns, copy: 1GiB/s, sum: 1GiB/s}
disk: {read: 1GiB/s, write: 1GiB/s, seek: 20us, flush: 89us}
network: {latency: 5us..7us, bandwidth: 1GiB/s}
`
	file := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(text string) error {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := LoadProfile(file)
		return err
	}
	require.NoError(t, write(good))
	for _, wrong := range []struct{ old, new, want string }{
		{"name: mine", "nam: mine", "nam"},
		{"cores: 2", "cores: 0", "cpu.cores: found 0, allowed is 1 to 4096"},
		{"copy: 1GiB/s, ", "", `mine.yaml:3:6: cpu: the field "copy" is missing`},
		{"request: 8us, ", "", `the field "request" is missing`},
		{"copy: 1GiB/s", "copy: 0B/s", "cpu.copy: found 0B/s, allowed is 1KiB/s or more"},
		{"copy: 1GiB/s", "copy: &a 1GiB/s", "allowed are plain values only"},
		{good, "", "found an empty file"},
		{good, "a: " + strings.Repeat("[", 100_000), "found brackets 65 deep"},
		{"sum: 1GiB/s", "sum: 1GiB/s, queue: {take: 1us..2us}", "cpu.queue.take: found 1us..2us, allowed is one value"},
		{"sum: 1GiB/s", "sum: 1GiB/s, interrupt: {takes: 50us}", `the field "every" is missing`},
		{"sum: 1GiB/s", "sum: 1GiB/s, interrupt: {every: 0s, takes: 50us}", "cpu.interrupt.every: found 0s, allowed is 1us to 1h"},
		{"sum: 1GiB/s", "sum: 1GiB/s, interrupt: {every: 1ms, takes: 50us..60us}", "cpu.interrupt.takes: found 50us..60us, allowed is one value"},
		{"sum: 1GiB/s", "sum: 1GiB/s..2GiB/s", "cpu.sum: found 1GiB/s..2GiB/s, allowed is one value"},
		{"request: 8us", "request: 8us..9us", "cpu.request: found 8us..9us, allowed is one value"},
		{"flush: 89us", "flush: 2m", "disk.flush: found 2m, allowed is 0s to 1m"},
		{"seek: 20us", "seek: 20us, dirty_limit: 1MiB, dirty_background: 2MiB", "disk.dirty_background: found 2MiB, allowed is disk.dirty_limit, 1MiB, or less"},
		{"latency: 5us..7us", "latency: 5us..7us, mtu: 10B", "network.mtu: found 10B"},
	} {
		text := strings.Replace(good, wrong.old, wrong.new, 1)
		require.NotEqual(t, good, text)
		require.ErrorContains(t, write(text), wrong.want)
	}
	_, err := LoadProfile("paper")
	require.ErrorContains(t, err, "these ship: ")
}
