package producer

import "math/rand/v2"

// Partitions is what a topic offers to a partitioner.
type Partitions struct {
	Count     int32   // they are numbered from 0
	Available []int32 // those whose broker is up, ascending; all of them when none is
}

// Pick chooses the partition of a record. It is called under the producer's lock, by one task at a time: it must not block, nor keep what the record refers to.
type Pick func(r *Record, t Partitions) int32

// Partitioner makes the Pick of a producer, with state of its own. rnd is a stream for it alone; batchBytes is Config.BatchBytes.
//
// A record with a Partition of 0 or more goes there, whatever the partitioner.
type Partitioner func(rnd *rand.Rand, batchBytes int) Pick

// KeyHash sends equal keys to equal partitions (murmur2, as the Java client), and records without a key as Sticky does.
func KeyHash(rnd *rand.Rand, batchBytes int) Pick {
	keyless := Sticky(rnd, batchBytes)
	return func(r *Record, t Partitions) int32 {
		if r.Key != nil {
			return keyPartition(r.Key, t.Count)
		}
		return keyless(r, t)
	}
}

// Sticky fills a batch for one partition before it moves on to another available one, at random: larger batches, fewer requests (KIP-480, KIP-794).
func Sticky(rnd *rand.Rand, batchBytes int) Pick {
	type place struct {
		partition int32
		left      int // bytes until it moves on
	}
	places := map[string]*place{}
	return func(r *Record, t Partitions) int32 {
		p := places[r.Topic]
		if p == nil {
			p = &place{}
			places[r.Topic] = p
		}
		if p.left <= 0 || p.partition >= t.Count {
			p.partition, p.left = t.Available[rnd.IntN(len(t.Available))], batchBytes
		}
		p.left -= len(r.Key) + len(r.Value)
		return p.partition
	}
}

// Random picks among the available partitions, each record anew: the paper's default.
func Random(rnd *rand.Rand, _ int) Pick {
	return func(_ *Record, t Partitions) int32 { return t.Available[rnd.IntN(len(t.Available))] }
}

// RoundRobin takes the available partitions in turn.
func RoundRobin(*rand.Rand, int) Pick {
	turn := map[string]uint64{}
	return func(r *Record, t Partitions) int32 {
		n := turn[r.Topic]
		turn[r.Topic] = n + 1
		return t.Available[n%uint64(len(t.Available))]
	}
}

// Custom wraps a function that needs no state.
func Custom(pick Pick) Partitioner {
	return func(*rand.Rand, int) Pick { return pick }
}
