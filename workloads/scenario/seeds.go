package scenario

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxSeeds bounds how many seeds one list may name.
const MaxSeeds = 10_000_000

// ParseSeeds reads a list of seeds: a seed (7), a range with both ends (1..200), or several of these with commas between (1..10,20).
// The result is in the order of the list.
func ParseSeeds(text string) ([]uint64, error) {
	type span struct{ first, last uint64 }
	var spans []span
	var out []uint64
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		low, high, isRange := strings.Cut(part, "..")
		if !isRange {
			high = low
		}
		first, err1 := strconv.ParseUint(low, 10, 64)
		last, err2 := strconv.ParseUint(high, 10, 64)
		switch {
		case err1 != nil || err2 != nil:
			return nil, fmt.Errorf("seeds: found %q, allowed is a seed (7), a range (1..200) or several of these with commas between (1..10,20)", part)
		case last < first:
			return nil, fmt.Errorf("seeds: found %q, allowed is a range from the smaller to the larger seed: %d..%d", part, last, first)
		case last-first >= MaxSeeds-uint64(len(out)):
			return nil, fmt.Errorf("seeds: found %q, allowed are %d seeds in all", text, MaxSeeds)
		}
		for _, s := range spans {
			if first <= s.last && s.first <= last {
				return nil, fmt.Errorf("seeds: found %q after %d..%d, allowed is each seed once", part, s.first, s.last)
			}
		}
		spans = append(spans, span{first, last})
		for i := range last - first + 1 {
			out = append(out, first+i)
		}
	}
	return out, nil
}
