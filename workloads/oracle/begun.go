package oracle

import "faultline/sim/machine"

// Begun are the offsets at which replicas of a partition began anew: what their leader had before was deleted, or could not be told to be the same. What a log knows of idempotent producers goes with its records then, as in
// Kafka, and the first batch of an epoch is taken for a new one by whoever knows nothing of the producer. So a batch that lies before such an offset may be there once more behind it, if it is sent again. A producer
// is promised that it is not only where records are kept for longer than it tries.
type Begun []int64

// Note follows what a broker traces of a log of the partition.
func (b *Begun) Note(t *machine.Event) {
	if t.Kind == machine.LogTruncated && t.C == 1 {
		*b = append(*b, t.B)
	}
}

// Between tells whether a replica began anew behind the lower of two offsets, and not behind the higher one.
func (b Begun) Between(x, y int64) bool {
	for _, at := range b {
		if min(x, y) < at && at <= max(x, y) {
			return true
		}
	}
	return false
}
