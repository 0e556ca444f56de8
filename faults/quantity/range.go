package quantity

import (
	"encoding"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
)

// Value is one quantity: it prints and parses, and counts in whole basic units.
type Value[T any] interface {
	~int64
	String() string
	Parse(string) (T, error)
}

// Range is a quantity that a seed draws uniformly from Min to Max, both included. It is written "2s..6s", or "2s" when
// both ends are equal. The zero Range means that the field was not given.
type Range[T Value[T]] struct{ Min, Max T }

// The ranges that scenario files use.
type (
	Durations  = Range[Duration]
	Sizes      = Range[Bytes]
	Bandwidths = Range[Bandwidth]
	Rates      = Range[Rate]
	Percents   = Range[Percent]
	Counts     = Range[Count]
)

// Just is the range that holds one value.
func Just[T Value[T]](v T) Range[T] { return Range[T]{v, v} }

// Between is the range from min to max.
func Between[T Value[T]](min, max T) Range[T] { return Range[T]{min, max} }

// Fixed tells whether the range holds one value only.
func (r Range[T]) Fixed() bool { return r.Min == r.Max }

// Given tells whether it is not the zero Range.
func (r Range[T]) Given() bool { return r != Range[T]{} }

// V is the value of a fixed range. On one that was not drawn yet it panics: that is a bug of the caller.
func (r Range[T]) V() T {
	if r.Min != r.Max {
		panic(fmt.Sprintf("quantity: %v used before a seed drew its value", r))
	}
	return r.Min
}

// Draw picks a value. Where both ends are multiples of a coarse step (a millisecond, a KiB, ...) so is the result:
// drawn scenarios are read by people.
func (r Range[T]) Draw(rng *rand.Rand) T {
	if r.Max <= r.Min {
		return r.Min
	}
	min, width := int64(r.Min), uint64(r.Max)-uint64(r.Min)
	step := uint64(1)
	for _, s := range steps(r.Min) {
		if min%int64(s) == 0 && width%s == 0 && width/s >= 100 {
			step = s
			break
		}
	}
	return T(min + int64(rng.Uint64N(width/step+1)*step))
}

func steps(kind any) []uint64 {
	switch kind.(type) {
	case Duration:
		return []uint64{1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3}
	case Bytes, Bandwidth:
		return []uint64{1 << 30, 1 << 20, 1 << 10}
	case Percent:
		return []uint64{10_000, 1_000, 100}
	}
	return nil
}

// Fix replaces the range by a value drawn from it.
func (r *Range[T]) Fix(rng *rand.Rand) { *r = Just(r.Draw(rng)) }

func (r Range[T]) String() string {
	if r.Fixed() {
		return r.Min.String()
	}
	return r.Min.String() + ".." + r.Max.String()
}

// MarshalText implements [encoding.TextMarshaler].
func (r Range[T]) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a value or a range; the error says what was found and what is allowed.
func (r *Range[T]) UnmarshalText(text []byte) error {
	var zero T
	low, high, isRange := strings.Cut(string(text), "..")
	min, err := zero.Parse(low)
	if err != nil {
		return err
	}
	max := min
	if isRange {
		if max, err = zero.Parse(high); err != nil {
			return err
		}
		if max == Endless {
			return fmt.Errorf("found %q, allowed is a range with an end: there is no uniform draw up to %v", text, max)
		}
		if max < min {
			return fmt.Errorf("found %q, allowed is a range from the smaller to the larger value, such as %v..%v", text, max, min)
		}
	}
	*r = Range[T]{min, max}
	return nil
}

var _ encoding.TextUnmarshaler = (*Durations)(nil)

// Choice is one word of a few, or several of them from which a seed draws: [all, 1]. Empty means that the field was not given.
type Choice struct{ Options []string }

// Choose is the choice of the given words.
func Choose(options ...string) Choice { return Choice{options} }

// Fixed tells whether one word at most is left.
func (c Choice) Fixed() bool { return len(c.Options) <= 1 }

// V is the one word, "" when not given. Like [Range.V] it panics before the draw.
func (c Choice) V() string {
	switch len(c.Options) {
	case 0:
		return ""
	case 1:
		return c.Options[0]
	}
	panic(fmt.Sprintf("quantity: %v used before a seed drew its value", c.Options))
}

// Fix replaces the choice by one of its words.
func (c *Choice) Fix(rng *rand.Rand) {
	if !c.Fixed() {
		*c = Choose(c.Options[rng.IntN(len(c.Options))])
	}
}

// Equal compares word by word.
func (c Choice) Equal(d Choice) bool { return slices.Equal(c.Options, d.Options) }

func (c Choice) String() string {
	if c.Fixed() {
		return c.V()
	}
	return "[" + strings.Join(c.Options, ", ") + "]"
}

// mulDiv returns a*b/c and the rest, without overflow in between; a < c.
func mulDiv(a, b, c int64) (int64, uint64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	quo, rem := bits.Div64(high, low, uint64(c))
	return int64(quo), rem
}
