package quantity

import "fmt"

// Within tells whether the whole range lies between min and max, which are texts of the quantity or "" for no bound. "never" and
// "unlimited" must be allowed by max.
func (r Range[T]) Within(min, max string) error {
	low, high := T(-Endless), T(Endless-1)
	if min != "" {
		low = must[T](min)
	}
	if max != "" {
		high = must[T](max)
	}
	if r.Min >= low && r.Max <= high {
		return nil
	}
	switch {
	case r.Max == Endless && max == "":
		return fmt.Errorf("found %v, allowed is a value with a limit", r)
	case max == "":
		return fmt.Errorf("found %v, allowed is %v or more", r, low)
	case min == "":
		return fmt.Errorf("found %v, allowed is %v or less", r, high)
	}
	if low == high {
		return fmt.Errorf("found %v, allowed is %v", r, low)
	}
	return fmt.Errorf("found %v, allowed is %v to %v", r, low, high)
}

func must[T Value[T]](text string) T {
	var zero T
	v, err := zero.Parse(text)
	if err != nil {
		panic(err)
	}
	return v
}
