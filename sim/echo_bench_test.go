package sim_test

import (
	"encoding/binary"
	"fmt"
	"io"
	stdnet "net"
	"testing"

	"faultline/sim"
	"faultline/sim/net"
)

// echo runs hosts that serve and call each other: each makes calls RPCs of 64 bytes, to a random peer over a connection that stays open.
func echo(w *sim.World, hosts, calls int) {
	n := net.New(w, net.Config{})
	var hs []*net.Host
	for i := range hosts {
		hs = append(hs, n.AddHost(fmt.Sprint("n", i), new(sim.Clock)))
	}
	done := 0
	var listeners []stdnet.Listener
	for i, h := range hs {
		w.Go(nil, "accept", func() {
			l, err := h.Listen(1)
			if err != nil {
				panic(err)
			}
			listeners = append(listeners, l)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				w.Go(nil, "serve", func() {
					b := make([]byte, 64)
					for {
						if _, err := io.ReadFull(c, b); err != nil {
							c.Close()
							return
						}
						c.Write(b)
					}
				})
			}
		})
		w.Go(nil, "call", func() {
			w.ParkUntil("start", "", 1000)
			peers := make([]stdnet.Conn, hosts)
			for j := range peers {
				if j != i {
					c, err := h.Dial(fmt.Sprintf("n%d:1", j), 0)
					if err != nil {
						panic(err)
					}
					peers[j] = c
				}
			}
			rng := w.Stream("echo/peer", fmt.Sprint(i))
			b := make([]byte, 64)
			for k := range calls {
				j := rng.IntN(hosts - 1)
				if j >= i {
					j++
				}
				binary.LittleEndian.PutUint64(b, uint64(k)<<8|uint64(i))
				peers[j].Write(b)
				if _, err := io.ReadFull(peers[j], b); err != nil {
					panic(err)
				}
				if binary.LittleEndian.Uint64(b) != uint64(k)<<8|uint64(i) {
					panic("wrong echo")
				}
			}
			for _, c := range peers {
				if c != nil {
					c.Close()
				}
			}
			if done++; done == hosts {
				for _, l := range listeners {
					l.Close()
				}
			}
		})
	}
	if o := w.Run(1 << 62); o.Kind != sim.Done {
		panic(o.String())
	}
}

// BenchmarkEchoRPC is the speed of the kernel: a 64-byte echo RPC between ten machines over the virtual network, hash and ring trace on.
func BenchmarkEchoRPC(b *testing.B) {
	for _, p := range []sim.Policy{sim.Random, sim.FIFO, sim.PCT} {
		b.Run(p.String(), func(b *testing.B) {
			b.ReportAllocs()
			w := sim.New(sim.Config{Seed: 1, Policy: p})
			defer w.Close()
			echo(w, 10, b.N/10+1)
			b.ReportMetric(float64(w.Events())/float64(b.N), "events/op")
			b.ReportMetric(w.Now().Seconds()/b.Elapsed().Seconds(), "virtual-s/s")
		})
	}
}

func TestEchoIsDeterministic(t *testing.T) {
	for _, p := range []sim.Policy{sim.Random, sim.FIFO, sim.PCT} {
		hashes := map[uint64]uint64{}
		for seed := range uint64(50) {
			var first uint64
			for range 2 {
				w := sim.New(sim.Config{Seed: seed, Policy: p})
				echo(w, 5, 50)
				w.Close()
				if first == 0 {
					first = w.Hash()
				} else if first != w.Hash() {
					t.Fatalf("%v seed %d: hash %016x, again %016x", p, seed, first, w.Hash())
				}
			}
			if other, ok := hashes[first]; ok {
				t.Fatalf("%v: seeds %d and %d have the same hash", p, seed, other)
			}
			hashes[first] = seed
		}
	}
}
