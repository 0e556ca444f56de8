// Package quantity holds the quantities of scenario files as people write them: durations (10s), sizes (64KiB),
// rates (2000/s), bandwidths (1MiB/s), shares (5%), counts, choices, and ranges of them (2s..6s) from which a seed draws.
//
// Every type prints as exactly the text that it parses from. Values are whole numbers, so that no rounding of the
// computer at hand can change a run.
package quantity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Endless is the value of a quantity without a limit: a Duration prints it as "never", a Count or Bytes as "unlimited".
const Endless = math.MaxInt64

// Duration is a span of virtual time in nanoseconds.
type Duration time.Duration

// D is the duration as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

var durationUnits = []unit{{"h", int64(time.Hour), true}, {"m", int64(time.Minute), true}, {"s", int64(time.Second), false},
	{"ms", int64(time.Millisecond), false}, {"us", int64(time.Microsecond), false}, {"ns", 1, true}}

func (d Duration) String() string {
	if d == Endless {
		return "never"
	}
	return print(int64(d), durationUnits, "0s")
}

// Parse reads a duration: a number and one unit of ns, us, ms, s, m, h; or "never".
func (Duration) Parse(s string) (Duration, error) {
	if s == "never" {
		return Endless, nil
	}
	n, err := parse(s, durationUnits)
	if err != nil {
		return 0, wrong(s, "a duration such as 500ms, 10s or 2m", err)
	}
	return Duration(n), nil
}

// Bytes is a size in bytes.
type Bytes int64

var byteUnits = []unit{{"TiB", 1 << 40, false}, {"GiB", 1 << 30, false}, {"MiB", 1 << 20, false}, {"KiB", 1 << 10, false}, {"B", 1, true}}

func (b Bytes) String() string {
	if b == Endless {
		return "unlimited"
	}
	return print(int64(b), byteUnits, "0B")
}

// Parse reads a size: a number and one unit of B, KiB, MiB, GiB, TiB; or "unlimited".
func (Bytes) Parse(s string) (Bytes, error) {
	if s == "unlimited" {
		return Endless, nil
	}
	n, err := parse(s, byteUnits)
	if err != nil {
		return 0, wrong(s, "a size such as 200B, 64KiB or 1GiB", err)
	}
	return Bytes(n), nil
}

// Bandwidth is bytes per second.
type Bandwidth int64

func (b Bandwidth) String() string {
	if b == Endless {
		return "unlimited"
	}
	return print(int64(b), byteUnits, "0B") + "/s"
}

// Parse reads a bandwidth: a size followed by "/s"; or "unlimited".
func (Bandwidth) Parse(s string) (Bandwidth, error) {
	if s == "unlimited" {
		return Endless, nil
	}
	body, ok := strings.CutSuffix(s, "/s")
	n, err := parse(body, byteUnits)
	if !ok {
		err = errors.New(`it does not end with "/s"`)
	}
	if err != nil {
		return 0, wrong(s, "a bandwidth such as 64KiB/s or 10MiB/s", err)
	}
	return Bandwidth(n), nil
}

// Rate is events per second.
type Rate int64

func (r Rate) String() string {
	if r == Endless {
		return "unlimited"
	}
	return strconv.FormatInt(int64(r), 10) + "/s"
}

// Parse reads a rate: a whole number followed by "/s"; or "unlimited".
func (Rate) Parse(s string) (Rate, error) {
	if s == "unlimited" {
		return Endless, nil
	}
	body, ok := strings.CutSuffix(s, "/s")
	if !ok {
		return 0, wrong(s, "a rate such as 2000/s", errors.New(`it does not end with "/s"`))
	}
	n, err := whole(body)
	if err != nil {
		return 0, wrong(s, "a rate such as 2000/s", err)
	}
	return Rate(n), nil
}

// Percent is a share in millionths: 5% is 50000.
type Percent int64

var percentUnits = []unit{{"%", 10_000, false}}

// PPM is the share in parts per million.
func (p Percent) PPM() int64 { return int64(p) }

// Hit decides by a number drawn uniformly from [0, 1000000) whether an event with this probability happens.
func (p Percent) Hit(draw int64) bool { return draw < int64(p) }

func (p Percent) String() string { return print(int64(p), percentUnits, "0%") }

// Parse reads a share in percent, to four digits after the point.
func (Percent) Parse(s string) (Percent, error) {
	n, err := parse(s, percentUnits)
	if err != nil {
		return 0, wrong(s, "a share such as 5% or 0.1%", err)
	}
	return Percent(n), nil
}

// Count is a whole number of things.
type Count int64

func (c Count) String() string {
	if c == Endless {
		return "unlimited"
	}
	return strconv.FormatInt(int64(c), 10)
}

// Parse reads a whole number; or "unlimited".
func (Count) Parse(s string) (Count, error) {
	if s == "unlimited" {
		return Endless, nil
	}
	n, err := whole(s)
	if err != nil {
		return 0, wrong(s, "a whole number such as 3", err)
	}
	return Count(n), nil
}

// unit is a suffix and how many basic units it stands for.
type unit struct {
	name  string
	size  int64
	whole bool // never printed with a point: 90s, not 1.5m
}

func wrong(found, allowed string, err error) error {
	return fmt.Errorf("found %q, allowed is %s (%w)", found, allowed, err)
}

func whole(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errors.New("it is not a whole number")
	}
	if n == Endless {
		return 0, errors.New("it is too large")
	}
	return n, nil
}

// print writes n in the largest unit that needs at most four digits after the point, else in a smaller one.
func print(n int64, units []unit, zero string) string {
	if n == 0 {
		return zero
	}
	sign, abs := "", uint64(n)
	if n < 0 {
		sign, abs = "-", -uint64(n)
	}
	for _, u := range units {
		size := uint64(u.size)
		if abs < size && size > 1 && len(units) > 1 {
			continue
		}
		rest := abs % size
		if rest != 0 && (u.whole || rest*10_000%size != 0) {
			continue
		}
		text := strconv.FormatUint(abs/size, 10)
		if rest != 0 {
			text += "." + strings.TrimRight(fmt.Sprintf("%04d", rest*10_000/size), "0")
		}
		return sign + text + u.name
	}
	return sign + strconv.FormatUint(abs, 10) + units[len(units)-1].name
}

// parse reads a decimal number followed by one of the units. The value must be whole in basic units.
func parse(s string, units []unit) (int64, error) {
	for _, u := range units {
		body, ok := strings.CutSuffix(s, u.name)
		if !ok || body == "" || !strings.Contains("0123456789.", body[len(body)-1:]) {
			continue
		}
		return decimal(body, u.size)
	}
	names := make([]string, len(units))
	for i, u := range units {
		names[len(units)-1-i] = u.name
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("the unit is missing: %s", strings.Join(names, ", "))
	}
	return 0, fmt.Errorf("it is not a number with a unit: %s", strings.Join(names, ", "))
}

func decimal(s string, size int64) (int64, error) {
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(digits, "+")
	}
	before, after, point := strings.Cut(digits, ".")
	if before == "" || point && after == "" || strings.Trim(before+after, "0123456789") != "" || len(after) > 9 {
		return 0, errors.New("it is not a decimal number")
	}
	n, err := strconv.ParseInt(before, 10, 64)
	if err != nil || n > (Endless-1)/size {
		return 0, errors.New("it is too large")
	}
	n *= size
	if after != "" {
		part, _ := strconv.ParseInt(after, 10, 64)
		scale := int64(1)
		for range after {
			scale *= 10
		}
		whole, rest := mulDiv(part, size, scale)
		if rest != 0 {
			return 0, errors.New("it is finer than the smallest unit")
		}
		if n > Endless-1-whole {
			return 0, errors.New("it is too large")
		}
		n += whole
	}
	if negative {
		n = -n
	}
	return n, nil
}
