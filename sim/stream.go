package sim

import (
	"math/bits"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
)

// Stream returns the random stream of a purpose and an entity ("net/latency", "broker-1>broker-2"). Streams are
// independent: what one draws never shifts another, so a decision about one link or file stays when unrelated ones change.
// Each call starts the stream anew; the caller keeps it.
func (w *World) Stream(purpose, entity string) *rand.Rand {
	return NewStream(w.cfg.Seed, purpose, entity)
}

// NewStream is the stream of a seed outside any world, for decisions made before it exists (topology, fault plan).
func NewStream(seed uint64, purpose, entity string) *rand.Rand {
	s := keyedSeed(seed, purpose, entity)
	x := splitmix(s)
	return rand.New(rand.NewPCG(x.next(), x.next()))
}

func keyedSeed(seed uint64, purpose, entity string) uint64 {
	h := splitmix(seed ^ 0x5be0cd19137e2179)
	a := splitmix(h.next() ^ xxhash.Sum64String(purpose))
	b := splitmix(a.next() ^ xxhash.Sum64String(entity))
	return b.next()
}

// splitmix is the scheduler's own generator (Steele, Lea, Flood, OOPSLA 2014): one word of state, no call through an interface.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// intn is uniform over [0, n) but for a bias below n/2^64.
func (s *splitmix) intn(n int) int {
	hi, _ := bits.Mul64(s.next(), uint64(n))
	return int(hi)
}
