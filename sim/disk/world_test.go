package disk

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// fakeWorld is a world of one task. meanwhile, when set, is what other tasks do during the next wait.
type fakeWorld struct {
	seed      uint64
	now       time.Duration
	dead      bool
	meanwhile func()
	streams   map[string]*rand.Rand
	ops       int
	woken     bool
}

type killed struct{}

func newWorld(seed uint64) *fakeWorld {
	return &fakeWorld{seed: seed, now: time.Second, streams: map[string]*rand.Rand{}}
}

func (w *fakeWorld) alive() {
	if w.dead {
		panic(killed{})
	}
}

func (w *fakeWorld) Now() time.Duration {
	w.alive()
	return w.now
}

func (w *fakeWorld) Wait(until time.Duration) {
	w.alive()
	if fn := w.meanwhile; fn != nil {
		w.meanwhile = nil
		fn()
	}
	w.now = max(w.now, until)
	w.alive()
}

func (w *fakeWorld) Waker() func() {
	w.alive()
	w.woken = false
	return func() { w.woken = true }
}

// Park lets meanwhile happen until it wakes the task.
func (w *fakeWorld) Park() {
	w.alive()
	for !w.woken {
		fn := w.meanwhile
		if fn == nil {
			panic("parked for ever")
		}
		w.meanwhile = nil
		fn()
		w.alive()
	}
}

func (w *fakeWorld) Record(op, file string, a, b int64) {
	w.alive()
	w.ops++
}

func (w *fakeWorld) Stream(purpose, entity string) *rand.Rand {
	key := purpose + "\x00" + entity
	if w.streams[key] == nil {
		h := fnv.New64a()
		h.Write([]byte(key))
		w.streams[key] = rand.New(rand.NewPCG(w.seed, h.Sum64()))
	}
	return w.streams[key]
}

func (w *fakeWorld) wall() time.Time { return time.Unix(1700000000, 0).Add(w.now).UTC() }

// killable runs fn as a task that may be killed and reports whether it was.
func (w *fakeWorld) killable(fn func()) (dead bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			dead, w.dead = true, false
		}
	}()
	fn()
	return false
}

// rig is a disk with a process on it.
type rig struct {
	t require.TestingT
	w *fakeWorld
	m *Model
	d machine.Disk
}

func newRig(t require.TestingT, seed uint64, cfg Config) *rig {
	r := &rig{t: t, w: newWorld(seed), m: New("disk", cfg)}
	r.attach()
	return r
}

func (r *rig) attach() { r.d = r.m.Attach(r.w, r.w.wall) }

func (r *rig) powerLoss() {
	r.m.PowerLoss(r.w.Stream)
	r.attach()
}

func (r *rig) open(name string, mode machine.Mode) machine.File {
	f, err := r.d.Open(name, mode)
	require.NoError(r.t, err)
	return f
}

// put makes a file with durable bytes and a durable name.
func (r *rig) put(name string, content []byte) machine.File {
	f := r.open(name, machine.Create|machine.Truncate)
	r.write(f, content, 0)
	require.NoError(r.t, f.Sync())
	require.NoError(r.t, r.d.SyncDir(""))
	return f
}

func (r *rig) write(f machine.File, p []byte, offset int64) {
	_, err := machine.WriteFull(f, p, offset)
	require.NoError(r.t, err)
}

// content reads a whole file as a process does.
func (r *rig) content(f machine.File) []byte {
	size, err := f.Size()
	require.NoError(r.t, err)
	p := make([]byte, size)
	if size > 0 {
		_, err = machine.ReadFull(f, p, 0)
		require.NoError(r.t, err)
	}
	return p
}

// state is the content of every file by path.
func (r *rig) state() map[string]string {
	files := map[string]string{}
	for _, v := range r.m.Files() {
		files[v.Path] = string(r.content(r.open(v.Path, 0)))
	}
	return files
}
