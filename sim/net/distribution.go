package net

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Kind is the shape of a distribution.
type Kind uint8

const (
	Uniform   Kind = iota // from Min to Max, both included
	Constant              // Min
	HeavyTail             // bounded Pareto of shape 1: one draw in x is x times as long as Min, none is longer than Max
)

func (k Kind) String() string { return [...]string{"uniform", "constant", "heavy-tail"}[k] }

// Distribution is how long something takes. All arithmetic is on integers, so that a draw is the same on every machine. Zero takes no time and
// draws nothing.
type Distribution struct {
	Kind     Kind
	Min, Max time.Duration // Max below Min counts as Min
}

func (d Distribution) String() string {
	if d.Kind == Constant || d.Max <= d.Min {
		return d.Min.String()
	}
	return fmt.Sprintf("%s %v..%v", d.Kind, d.Min, d.Max)
}

// draw takes at most one number from the stream, none when there is nothing to choose.
func (d Distribution) draw(rng *rand.Rand) time.Duration {
	if d.Kind == Constant || d.Max <= d.Min {
		return d.Min
	}
	k := rng.Int64N(int64(d.Max-d.Min) + 1)
	if d.Kind == Uniform {
		return d.Min + time.Duration(k)
	}
	return d.quantile(k)
}

// quantile is the inverse of the bounded Pareto distribution function (shape 1) at k/(Max-Min): Min*Max/(Max-k). A Min of 0 counts as 1 ns.
func (d Distribution) quantile(k int64) time.Duration {
	low := max(1, int64(d.Min))
	k = min(k, int64(d.Max)-low)
	hi, lo := bits.Mul64(uint64(low), uint64(d.Max))
	q, _ := bits.Div64(hi, lo, uint64(int64(d.Max)-k))
	return time.Duration(q)
}

// typical is the median, for estimates that must not draw.
func (d Distribution) typical() time.Duration {
	switch {
	case d.Kind == Constant || d.Max <= d.Min:
		return d.Min
	case d.Kind == Uniform:
		return d.Min + (d.Max-d.Min)/2
	default:
		return d.quantile(int64(d.Max-d.Min) / 2)
	}
}
