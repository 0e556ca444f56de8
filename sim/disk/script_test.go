package disk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// TestPowerLossLeavesExactlyTheseDisks runs testdata/outcomes/*: what processes did to an empty disk, line by line, and the set of disks that a power loss
// may leave then. Draws of PowerLoss must reach every one of them and nothing else.
//
//	put F BYTES            a file with durable bytes and a durable name
//	create F | mkdir D | remove F | rename F G
//	write F BYTES at N | append F BYTES | truncate F N
//	sync F [fails|lies]    indented lines happen while it waits
//	syncdir D [fails|lies] D is . for the root
//	die                    in a wait: the process crashes then; what follows is done by the next one
//	lose                   the power fails here, not at the end
//
// BYTES is runs, as a600,b20 for 600 times a and 20 times b.
func TestPowerLossLeavesExactlyTheseDisks(t *testing.T) {
	datadriven.Walk(t, "testdata/outcomes", func(t *testing.T, file string) {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "outcomes", d.Cmd)
			r := newRig(t, 1, Config{})
			s := &script{rig: r, lines: strings.Split(strings.TrimRight(d.Input, "\n"), "\n")}
			for s.at < len(s.lines) && s.images == nil {
				if r.w.killable(func() { s.block(0) }) && s.images == nil {
					r.m.ProcessCrash()
					r.attach()
				}
			}
			if s.images == nil {
				s.lose()
			}
			var out []string
			for _, i := range s.images {
				out = append(out, i.String())
				if i == (Image{}) {
					out[len(out)-1] = "(nothing)"
				}
			}
			slices.Sort(out)
			return strings.Join(out, "\n") + "\n"
		})
	})
}

type script struct {
	*rig
	lines  []string
	at     int
	images []Image // what was left, when the power has failed
}

// indent is the depth of a line.
func (s *script) indent(at int) int {
	return len(s.lines[at]) - len(strings.TrimLeft(s.lines[at], " "))
}

// block runs lines of this depth.
func (s *script) block(depth int) {
	for s.at < len(s.lines) && s.indent(s.at) == depth {
		s.line(strings.Fields(s.lines[s.at]))
	}
}

func (s *script) line(words []string) {
	depth := s.indent(s.at)
	s.at++
	var f machine.File
	if slices.Contains([]string{"write", "append", "truncate", "sync"}, words[0]) {
		f = s.open(words[1], 0)
	}
	if s.at < len(s.lines) && s.indent(s.at) > depth {
		s.w.meanwhile = func() { s.block(s.indent(s.at)) }
	}
	fault := Fault{ID: "script", Kind: Lie}
	if last := words[len(words)-1]; last == "fails" {
		fault.Kind, fault.Ops = Error, OpSync|OpSyncDir
		s.inject(fault)
	} else if last == "lies" {
		s.inject(fault)
	}
	var err error
	switch words[0] {
	case "put":
		require.NoError(s.t, s.put(words[1], bytesOf(words[2])).Close())
	case "create":
		s.open(words[1], machine.Create|machine.Exclusive)
	case "mkdir":
		err = s.d.Mkdir(words[1])
	case "remove":
		err = s.d.Remove(words[1])
	case "rename":
		err = s.d.Rename(words[1], words[2])
	case "write", "append":
		at, e := f.Size()
		require.NoError(s.t, e)
		if words[0] == "write" {
			at, e = strconv.ParseInt(words[4], 10, 64)
			require.NoError(s.t, e)
		}
		s.write(f, bytesOf(words[2]), at)
	case "truncate":
		size, e := strconv.ParseInt(words[2], 10, 64)
		require.NoError(s.t, e)
		err = f.Truncate(size)
	case "sync":
		err = f.Sync()
	case "syncdir":
		err = s.d.SyncDir(words[1])
	case "die":
		s.w.dead = true
	case "lose":
		s.lose()
		s.w.dead = true
	default:
		require.Fail(s.t, "unknown verb", "%q", words)
	}
	if fault.Kind == Error {
		require.ErrorIs(s.t, err, machine.ErrIO)
	} else {
		require.NoError(s.t, err)
	}
	s.m.Heal(fault.ID)
}

// lose notes what may be left now, and compares it with draws.
func (s *script) lose() {
	before := s.m.Image()
	images, err := s.m.Outcomes(1000)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, images)
	require.Equal(s.t, before, s.m.Image(), "it changes nothing")
	again, err := s.m.Outcomes(len(images))
	require.NoError(s.t, err)
	require.Equal(s.t, images, again)
	_, err = s.m.Outcomes(len(images) - 1)
	require.ErrorIs(s.t, err, ErrTooMany)

	left := map[Image]int{}
	for _, i := range images {
		left[i] = 0
	}
	missing := len(left)
	for seed := 0; missing > 0; seed++ {
		require.Less(s.t, seed, 200_000, "%d of %d disks are never drawn", missing, len(left))
		i := s.m.drawn(newWorld(uint64(seed)))
		n, ok := left[i]
		require.True(s.t, ok, "seed %d leaves %s, which is not in the set", seed, i)
		if left[i]++; n == 0 {
			missing--
		}
	}
	// And once in earnest.
	copyOf := s.m.drawn(s.w)
	s.w.streams = map[string]*rand.Rand{}
	s.images = images
	s.t.(*testing.T).Cleanup(func() {
		s.m.PowerLoss(s.w.Stream)
		got := s.m.Image()
		require.Equal(s.t, copyOf, got)
		again, err := s.m.Outcomes(10)
		require.NoError(s.t, err)
		require.Equal(s.t, []Image{got}, again, "what is there after a power loss is durable")
		require.Equal(s.t, got, got.Mount("copy", Config{}).Image())
		checkPages(s.t, s.m)
	})
}

// drawn is what the next PowerLoss leaves in a world, without doing it.
func (m *Model) drawn(w *fakeWorld) Image {
	m.losses++
	defer func() { m.losses-- }()
	f, origin := m.forkEntries()
	f.settleEntries(f.entryDice(w.Stream))
	fates := m.fileDice(w.Stream)
	var img imageBuilder
	for _, b := range f.durableBranches(origin) {
		if b.node.dir {
			img.dir(b.path)
		} else {
			img.file(b.path, b.node.settled(fates(b.node)))
		}
	}
	return img.image()
}

// bytesOf reads runs.
func bytesOf(s string) (p []byte) {
	for run := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(run[1:])
		if err != nil {
			panic(fmt.Sprintf("bytes %q: %v", s, err))
		}
		p = append(p, strings.Repeat(run[:1], n)...)
	}
	return p
}
