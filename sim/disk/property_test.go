package disk

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/sim/machine"
)

// plain is the simplest thing that a file could be.
type plain struct {
	cached, durable []byte
	versions        [][]byte // captured since the durable one
	cut             int      // smallest length since the durable state
}

func (p *plain) write(b []byte, offset int) {
	if grow := offset + len(b) - len(p.cached); grow > 0 {
		p.cached = append(p.cached, make([]byte, grow)...)
	}
	copy(p.cached[offset:], b)
}

func (p *plain) truncate(size int) {
	if size > len(p.cached) {
		p.cached = append(p.cached, make([]byte, size-len(p.cached))...)
	}
	p.cached = p.cached[:size:size]
	p.cut = min(p.cut, size)
}

// sync makes the captured bytes durable; cut is the smallest length since the capture.
func (p *plain) sync(captured []byte, cut int) {
	p.durable, p.cut = slices.Clone(captured), cut
}

// survivor tells why got cannot be what a power loss left; "" when it can.
func (p *plain) survivor(got []byte) string {
	if len(got) < min(p.cut, len(p.durable)) || len(got) > max(len(p.durable), len(p.cached)) {
		return fmt.Sprintf("length %d; durable %d, cached %d, cut %d", len(got), len(p.durable), len(p.cached), p.cut)
	}
	for at := 0; at < len(got); at += SectorBytes {
		sector := got[at:min(at+SectorBytes, len(got))]
		ok := false
		for _, version := range append([][]byte{p.durable, p.cached}, p.versions...) {
			for _, cut := range []int{len(version), p.cut} {
				want := make([]byte, SectorBytes)
				copy(want, version[min(at, len(version), cut):min(at+SectorBytes, len(version), cut)])
				ok = ok || bytes.Equal(sector, want[:len(sector)])
				if end := len(got) - at; end < SectorBytes { // the length cuts the sector
					ok = ok || bytes.Equal(sector, want[:end])
				}
			}
		}
		if !ok {
			return fmt.Sprintf("the sector at %d is of no version", at)
		}
	}
	return ""
}

func TestDiskAgainstAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &rig{t: t, w: newWorld(rapid.Uint64().Draw(t, "seed")), m: New("disk", Config{Cache: 4 * extentBytes})}
		r.attach()
		names := []string{"a", "b", "c"}
		cached := map[string]*plain{}            // by name
		possible := map[string]map[*plain]bool{} // what a name may hold after a power loss; nil: nothing
		handles := map[string][]machine.File{}   // open by name
		strays := map[machine.File]*plain{}      // open files without a name
		touch := func(name string, now *plain) { possible[name][now] = true }
		for _, name := range names {
			possible[name] = map[*plain]bool{nil: true}
		}
		lose := func(name string) {
			for _, h := range handles[name] {
				strays[h] = cached[name]
			}
			delete(handles, name)
		}
		set := func(name string, p *plain) {
			if p == nil {
				delete(cached, name)
			} else {
				cached[name] = p
			}
			touch(name, p)
		}
		pick := func(t *rapid.T) (string, *plain, machine.File) {
			name := rapid.SampledFrom(names).Draw(t, "name")
			if cached[name] == nil {
				t.Skip("no such file")
			}
			if len(handles[name]) == 0 || rapid.Bool().Draw(t, "open") {
				f, err := r.d.Open(name, 0)
				require.NoError(t, err)
				handles[name] = append(handles[name], f)
			}
			return name, cached[name], rapid.SampledFrom(handles[name]).Draw(t, "handle")
		}
		write := func(t *rapid.T, p *plain, f machine.File) {
			b := fill(rapid.Byte().Draw(t, "byte"), rapid.IntRange(1, 3*PageBytes).Draw(t, "len"))
			offset := rapid.IntRange(0, len(p.cached)+PageBytes).Draw(t, "offset")
			if rapid.Bool().Draw(t, "append") {
				offset = len(p.cached)
			}
			r.write(f, b, int64(offset))
			p.write(b, offset)
		}
		truncate := func(t *rapid.T, p *plain, f machine.File) {
			size := rapid.IntRange(0, len(p.cached)+PageBytes).Draw(t, "size")
			require.NoError(t, f.Truncate(int64(size)))
			p.truncate(size)
		}
		fresh := func(t *rapid.T) {
			r.attach()
			clear(handles)
			clear(strays)
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "name")
				f, err := r.d.Open(name, machine.Create|machine.Exclusive)
				if cached[name] != nil {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				handles[name] = append(handles[name], f)
				set(name, &plain{})
			},
			"write":    func(t *rapid.T) { _, p, f := pick(t); write(t, p, f) },
			"truncate": func(t *rapid.T) { _, p, f := pick(t); truncate(t, p, f) },
			"sync": func(t *rapid.T) {
				_, p, f := pick(t)
				captured, cut := slices.Clone(p.cached), len(p.cached)
				if rapid.Bool().Draw(t, "meanwhile") {
					before := p.cut
					p.cut = len(captured)
					r.w.meanwhile = func() {
						if rapid.Bool().Draw(t, "truncate") {
							truncate(t, p, f)
						}
						write(t, p, f)
					}
					require.NoError(t, f.Sync())
					r.w.meanwhile = nil
					cut = p.cut
					p.cut = min(before, cut)
				} else {
					require.NoError(t, f.Sync())
				}
				p.sync(captured, cut)
			},
			"failed sync": func(t *rapid.T) {
				_, p, f := pick(t)
				require.NoError(t, r.m.Inject(Fault{ID: "eio", Kind: Error, Ops: OpSync}))
				require.ErrorIs(t, f.Sync(), machine.ErrIO)
				require.True(t, r.m.Heal("eio"))
				// The cache may drop the bytes at any time; write them again so that the plain model needs no third state.
				if len(p.cached) > 0 {
					r.write(f, p.cached, 0)
				}
			},
			"lies": func(t *rapid.T) {
				_, _, f := pick(t)
				require.NoError(t, r.m.Inject(Fault{ID: "lie", Kind: Lie}))
				require.NoError(t, f.Sync())
				require.NoError(t, r.d.SyncDir(""))
				require.True(t, r.m.Heal("lie"))
			},
			"short counts, slow answers": func(t *rapid.T) {
				if !r.m.Heal("short") {
					require.NoError(t, r.m.Inject(Fault{ID: "short", Kind: Short, Probability: 0.5}))
				}
				if !r.m.Heal("slow") {
					require.NoError(t, r.m.Inject(Fault{ID: "slow", Kind: Slow, Delay: time.Millisecond, Probability: 0.5}))
				}
			},
			"an operation fails": func(t *rapid.T) {
				name, _, f := pick(t)
				require.NoError(t, r.m.Inject(Fault{ID: "eio", Kind: Error, Ops: ^OpSync}))
				for _, err := range []error{
					r.d.Remove(name), r.d.Rename(name, "c"), f.Truncate(0), r.d.SyncDir(""),
					second(f.Pwrite([]byte("x"), 0)), second(f.Pread(make([]byte, 1), 0)),
					second(r.d.Open(name, machine.Truncate)), second(r.d.Open("d", machine.Create)), second(r.d.ReadDir("")), second(r.d.Stat(name)),
				} {
					require.ErrorIs(t, err, machine.ErrIO)
				}
				require.True(t, r.m.Heal("eio"))
			},
			"the disk is full": func(t *rapid.T) {
				_, p, f := pick(t)
				require.NoError(t, r.m.Inject(Fault{ID: "full", Kind: Full}))
				k, err := machine.WriteFull(f, fill('x', 2*PageBytes), int64(len(p.cached)))
				require.ErrorIs(t, err, machine.ErrNoSpace)
				require.LessOrEqual(t, k, PageBytes, "no more than the rest of the page that is there")
				if k > 0 {
					p.write(fill('x', k), len(p.cached))
				}
				require.True(t, r.m.Heal("full"))
			},
			"bits rot, writes go astray": func(t *rapid.T) {
				_, p, f := pick(t)
				require.NoError(t, r.m.Inject(Fault{ID: "rot", Kind: Rot, Probability: 0.5}))
				require.NoError(t, r.m.Inject(Fault{ID: "misdirect", Kind: Misdirect}))
				write(t, p, f)
				_ = r.content(f)
				require.True(t, r.m.Heal("rot"))
				require.True(t, r.m.Heal("misdirect"))
				require.True(t, bytes.Equal(p.cached, r.content(f)), "the truth is below")
			},
			"remove": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "name")
				err := r.d.Remove(name)
				if cached[name] == nil {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				lose(name)
				set(name, nil)
			},
			"rename": func(t *rapid.T) {
				from := rapid.SampledFrom(names).Draw(t, "from")
				to := rapid.SampledFrom(names).Draw(t, "to")
				err := r.d.Rename(from, to)
				if cached[from] == nil {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				if from == to {
					return
				}
				lose(to)
				handles[to] = handles[from]
				delete(handles, from)
				set(to, cached[from])
				set(from, nil)
			},
			"close a stray": func(t *rapid.T) {
				for _, name := range names {
					for _, h := range handles[name] {
						if rapid.Bool().Draw(t, "close") {
							require.NoError(t, h.Close())
							handles[name] = slices.DeleteFunc(slices.Clone(handles[name]), func(o machine.File) bool { return o == h })
						}
					}
				}
				for h, p := range strays {
					require.True(t, bytes.Equal(p.cached, r.content(h)), "a removed file stays readable")
					require.NoError(t, h.Close())
				}
				clear(strays)
			},
			"sync directory": func(t *rapid.T) {
				require.NoError(t, r.d.SyncDir(""))
				for _, name := range names {
					possible[name] = map[*plain]bool{cached[name]: true}
				}
			},
			"process crash": func(t *rapid.T) {
				r.m.ProcessCrash()
				fresh(t)
			},
			"power loss": func(t *rapid.T) {
				r.m.PowerLoss(r.w.Stream)
				fresh(t)
				left := map[string]*plain{}
				clear(cached)
				for name, got := range r.state() {
					why := "it never existed"
					for p := range possible[name] {
						if p == nil {
							continue
						}
						if why = p.survivor([]byte(got)); why == "" {
							break
						}
					}
					require.Empty(t, why, "file %s", name)
					left[name] = &plain{cached: []byte(got), durable: []byte(got), cut: len(got)}
				}
				for _, name := range names {
					if left[name] == nil {
						require.True(t, possible[name][nil], "file %s is lost", name)
					}
					set(name, left[name])
					possible[name] = map[*plain]bool{left[name]: true}
				}
				r.m.ProcessCrash() // closes what state opened
				fresh(t)
			},
			"": func(t *rapid.T) {
				var have []string
				for _, v := range r.m.Files() {
					p := cached[v.Path]
					require.NotNil(t, p, "%s exists", v.Path)
					require.EqualValues(t, len(p.cached), v.Size)
					require.EqualValues(t, len(p.durable), v.Synced)
					got := make([]byte, v.Size)
					_, _ = v.ReadAt(got, 0)
					require.True(t, bytes.Equal(p.cached, got), "cached bytes of %s", v.Path)
					got = make([]byte, v.Synced)
					_, _ = v.ReadSyncedAt(got, 0)
					require.True(t, bytes.Equal(p.durable, got), "durable bytes of %s", v.Path)
					if v.EntryDurable() {
						require.Contains(t, possible[v.Path], p)
					}
					have = append(have, v.Path)
				}
				require.Len(t, have, len(cached))
				checkPages(t, r.m)
			},
		})
	})
}

func second[T any](_ T, err error) error { return err }

// checkPages holds the bookkeeping together: each page has one owner, the accounts are right.
func checkPages(t require.TestingT, m *Model) {
	owner := map[*page]string{}
	own := func(p *page, who string) {
		if p == nil {
			return
		}
		require.Empty(t, owner[p], "a page belongs to two; one is %s", who)
		owner[p] = who
	}
	for _, p := range m.free {
		own(p, "the free list")
	}
	nodes := map[*node]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		if nodes[n] {
			return
		}
		nodes[n] = true
		for _, c := range n.entries {
			walk(c)
		}
		for _, c := range n.durable {
			walk(c)
		}
	}
	walk(m.root)
	for _, c := range m.pending {
		walk(c.node)
	}
	for _, f := range m.handles {
		walk(f.n)
	}
	var used, dirty int64
	for n := range nodes {
		var blocks, listedPages int64
		for _, e := range n.extents {
			for i := range e.slots {
				s := &e.slots[i]
				own(s.cur, n.key+" cached")
				if s.flags&unsynced != 0 {
					own(s.old, n.key+" durable")
				} else {
					require.Nil(t, s.old)
					require.Nil(t, s.flight)
					require.Zero(t, s.flags)
				}
				if s.cur != nil {
					blocks++
				}
				if s.flags&listed != 0 {
					listedPages++
				}
			}
		}
		require.EqualValues(t, len(n.dirty), listedPages, n.key)
		require.Equal(t, blocks, n.blocks, n.key)
		if n.live {
			used += blocks
			dirty += int64(len(n.dirty) - n.written)
		}
	}
	require.Equal(t, used, m.used)
	require.Equal(t, dirty, m.dirtyPages)
}
