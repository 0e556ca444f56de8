package producer

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The vectors of the Java client's own test.
func TestMurmur2IsTheJavaClients(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, want, int32(murmur2([]byte(key))), key)
	}
}

func TestKeyPartitionOfNegativeHash(t *testing.T) {
	// The Java client masks the sign away; it does not negate.
	require.Equal(t, int32((-973932308&0x7fffffff)%7), keyPartition([]byte("21"), 7))
}

func TestPartitionersStayInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int32Range(1, 40).Draw(t, "count")
		available := rapid.SliceOfNDistinct(rapid.Int32Range(0, count-1), 1, int(count), rapid.ID[int32]).Draw(t, "available")
		offer := Partitions{Count: count, Available: available}
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		for _, p := range []Partitioner{Random, RoundRobin, Sticky, KeyHash} {
			pick := p(rand.New(rand.NewPCG(1, 2)), 100)
			for range 20 {
				require.Contains(t, available, pick(&Record{Topic: "t", Value: make([]byte, 30)}, offer))
			}
		}
		pick := KeyHash(rand.New(rand.NewPCG(1, 2)), 100)
		require.Equal(t, keyPartition(key, count), pick(&Record{Topic: "t", Key: key}, offer))
	})
}

func TestRoundRobinTakesTurnsForEachTopic(t *testing.T) {
	pick := RoundRobin(nil, 0)
	offer := Partitions{Count: 5, Available: []int32{1, 3}}
	var got []int32
	for range 4 {
		got = append(got, pick(&Record{Topic: "a"}, offer))
	}
	require.Equal(t, []int32{1, 3, 1, 3}, got)
	require.Equal(t, int32(1), pick(&Record{Topic: "b"}, offer))
}

func TestStickyStaysForABatch(t *testing.T) {
	pick := Sticky(rand.New(rand.NewPCG(1, 2)), 100)
	offer := Partitions{Count: 100, Available: seq(100)}
	first := pick(&Record{Topic: "a", Value: make([]byte, 50)}, offer)
	require.Equal(t, first, pick(&Record{Topic: "a", Value: make([]byte, 50)}, offer))
	moved := 0
	for range 10 {
		at := pick(&Record{Topic: "a", Value: make([]byte, 100)}, offer)
		if at != first {
			moved++
		}
	}
	require.GreaterOrEqual(t, moved, 8)
}

func seq(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}
