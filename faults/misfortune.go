package faults

import (
	"slices"
	"strings"

	"faultline/faults/quantity"
)

// PlacesOf are the failpoints that a fault's place names: one, or several with commas between.
func PlacesOf(place string) []string {
	list := strings.Split(place, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func (f Fault) checkPlace(wrong complain) {
	if f.Place == "" {
		return
	}
	list := PlacesOf(f.Place)
	for i, place := range list {
		if !slices.Contains(Places, place) {
			wrong("place", "found %q, allowed are the failpoints that the programs have, one or several with commas between%s", place, quantity.DidYouMean(place, Places))
		} else if slices.Contains(list[:i], place) {
			wrong("place", "found %q a second time, allowed is once", place)
		}
	}
}

// misfortune is an active misfortune at one place.
type misfortune struct {
	ppm     int64
	latency quantity.Duration
}

func (in *Injection) misfortune(f Fault, _ int, _ []string) (Heal, bool) {
	m := &misfortune{f.Probability.V().PPM(), f.Latency.V()}
	list := PlacesOf(f.Place)
	for _, place := range list {
		in.places[place] = append(in.places[place], m)
		in.target.Misfortune(place, m.ppm, m.latency.D())
	}
	return untold(func() {
		for _, place := range list {
			left := slices.DeleteFunc(in.places[place], func(o *misfortune) bool { return o == m })
			in.places[place] = left
			if len(left) == 0 {
				in.target.Misfortune(place, 0, 0)
				continue
			}
			last := left[len(left)-1]
			in.target.Misfortune(place, last.ppm, last.latency.D())
		}
	}), true
}

// drawMisfortune is the first level of two: which places are active, for how long, and how often they fire then. Active is a part of one room's
// places, or a smaller part of all, so that seeds differ in which of them meet. The chance is small as often as large: a place
// that fires all the time hides what comes after it.
func drawMisfortune(d *drawer) Fault {
	f := Fault{Kind: Misfortune, Place: d.places(), For: d.span(1*sc, 8*sc)}
	f.Probability = quantity.Just(quantity.Percent(4000 << d.rng.IntN(8))) // 0.4% to 51.2%
	if d.rng.IntN(2) == 0 {
		f.Latency = d.span(1*ms, 2*sc)
	}
	return f
}

func (d *drawer) places() string {
	pool, oneIn := Places, 4
	if d.rng.IntN(3) > 0 {
		all := rooms()
		room := all[d.rng.IntN(len(all))]
		pool, oneIn = nil, 2
		for _, place := range Places {
			if roomOf(place) == room {
				pool = append(pool, place)
			}
		}
	}
	var active []string
	for _, place := range pool {
		if d.rng.IntN(oneIn) == 0 {
			active = append(active, place)
		}
	}
	if len(active) == 0 {
		active = append(active, pool[d.rng.IntN(len(pool))])
	}
	return strings.Join(active, ", ")
}

// rooms are those of Places, in their order.
func rooms() []string {
	var out []string
	for _, place := range Places {
		if r := roomOf(place); !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// roomOf is the middle of "fault/<room>/<place>".
func roomOf(place string) string {
	_, rest, _ := strings.Cut(place, "/")
	room, _, _ := strings.Cut(rest, "/")
	return room
}
