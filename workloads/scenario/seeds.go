package scenario

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxSeeds bounds how many seeds one range list may name.
const MaxSeeds = 100_000_000

// Seeds is a list of ranges of seeds.
type Seeds []SeedRange

// SeedRange is the seeds from First to Last, both included.
type SeedRange struct{ First, Last uint64 }

const seedForms = `a seed (7), a range (1..200) or several of these with commas between (1..10,20)`

// ParseSeeds reads a list of seeds such as "1..200", "7" or "1..10,20".
func ParseSeeds(text string) (Seeds, error) {
	var out Seeds
	total := uint64(0)
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
			return nil, fmt.Errorf("seeds: found %q, allowed is %s", part, seedForms)
		case last < first:
			return nil, fmt.Errorf("seeds: found %q, allowed is a range from the smaller to the larger seed: %d..%d", part, last, first)
		case last-first >= MaxSeeds || total+last-first+1 > MaxSeeds:
			return nil, fmt.Errorf("seeds: found %q, allowed are %d seeds in all", text, MaxSeeds)
		}
		for _, r := range out {
			if first <= r.Last && r.First <= last {
				return nil, fmt.Errorf("seeds: found %q, which repeats seeds of %v, allowed is each seed once", part, r)
			}
		}
		total += last - first + 1
		out = append(out, SeedRange{first, last})
	}
	return out, nil
}

// Len is the number of seeds.
func (s Seeds) Len() int {
	n := 0
	for _, r := range s {
		n += int(r.Last - r.First + 1)
	}
	return n
}

// At is the seed with the index, counted from 0 in the order of the list.
func (s Seeds) At(i int) uint64 {
	for _, r := range s {
		if n := int(r.Last - r.First + 1); i >= n {
			i -= n
			continue
		}
		return r.First + uint64(i)
	}
	panic(fmt.Sprintf("seeds: index %d of %d", i, s.Len()))
}

func (r SeedRange) String() string {
	if r.First == r.Last {
		return strconv.FormatUint(r.First, 10)
	}
	return fmt.Sprintf("%d..%d", r.First, r.Last)
}

// String is the text that [ParseSeeds] reads.
func (s Seeds) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}
