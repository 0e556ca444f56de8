package history

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// hashParts hashes both parts apart, so that bytes cannot move from one to the other unseen.
func hashParts(key, value []byte) uint64 {
	h := xxhash.Sum64(value)
	if len(key) == 0 {
		return h
	}
	// 0x9e37... is 2^64 divided by the golden ratio: an odd multiplier that spreads the key's bits.
	return h ^ (xxhash.Sum64(key)+1)*0x9e3779b97f4a7c15
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
