package history

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// HashRecord is the hash of a record's key and value that Sent and Processed carry. It hashes both apart, so that bytes cannot
// move from one to the other unseen. A nil and an empty part count the same.
func HashRecord(key, value []byte) uint64 {
	h := xxhash.Sum64(value)
	if len(key) == 0 {
		return h
	}
	// 0x9e37... is 2^64 divided by the golden ratio: an odd multiplier that spreads the key's bits.
	return h ^ (xxhash.Sum64(key)+1)*0x9e3779b97f4a7c15
}

// HashKey is the hash of a record's key that Sent carries; 0: it has none.
func HashKey(key []byte) uint64 {
	if key == nil {
		return 0
	}
	return max(xxhash.Sum64(key), 1)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
