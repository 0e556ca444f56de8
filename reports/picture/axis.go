package picture

import (
	"image/color"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Short is a figure with an SI prefix and at most four digits: 821.6k. With a unit that takes prefixes itself (s, B, B/s) it follows: 14 ms.
func Short(v float64, unit string) string {
	if v == 0 {
		return "0"
	}
	n, prefix := humanize.ComputeSI(v)
	digits := strconv.FormatFloat(n, 'g', 4, 64)
	switch unit {
	case "s", "B", "B/s":
		return digits + " " + prefix + unit
	}
	return digits + prefix
}

// linear marks an axis in steps of 1, 2 or 5 times a power of ten.
type linear struct{ unit string }

// step is about a fifth of a stretch.
func step(stretch float64) float64 {
	if stretch <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(stretch/5)))
	for _, k := range []float64{1, 2, 5} {
		if stretch/(k*power) <= 7 {
			return k * power
		}
	}
	return 10 * power
}

// Ticks implements plot.Ticker.
func (l linear) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	s := step(high - low)
	for i := math.Ceil(low / s); i*s <= high*(1+1e-9); i++ {
		ticks = append(ticks, plot.Tick{Value: i * s, Label: Short(i*s, l.unit)})
	}
	return ticks
}

// decades marks a logarithmic axis at powers of ten, and, where there are few of them, at their double and fivefold.
type decades struct{ unit string }

// Ticks implements plot.Ticker.
func (d decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	few := high/low < 300
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, power)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if k == 1 || few && (k == 2 || k == 5) {
				t.Label = Short(v, d.unit)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// at puts a tick at each given value, and leaves labels out that would run into the one before.
type at struct {
	values []float64
	labels []string
	log    bool
	width  vg.Length // of the axis
}

// Ticks implements plot.Ticker.
func (a at) Ticks(low, high float64) []plot.Tick {
	s := letters(10, black)
	place := func(v float64) vg.Length {
		if a.log {
			return a.width * vg.Length(math.Log(v/low)/math.Log(high/low))
		}
		return a.width * vg.Length((v-low)/(high-low))
	}
	var ticks []plot.Tick
	free := vg.Length(math.Inf(-1))
	for i, v := range a.values {
		t := plot.Tick{Value: v, Label: a.labels[i]}
		if high > low {
			half := s.Width(t.Label) / 2
			if place(v)-half < free {
				t.Label = ""
			} else {
				free = place(v) + half + 5
			}
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// broken is the mark on a linear axis that does not start at zero: two strokes through its begin.
type broken struct{}

// Plot implements plot.Plotter.
func (broken) Plot(c draw.Canvas, p *plot.Plot) {
	x := c.Min.X + 9
	gap := []vg.Point{{X: x - 2, Y: c.Min.Y - 5}, {X: x + 3, Y: c.Min.Y + 5}, {X: x + 6, Y: c.Min.Y + 5}, {X: x + 1, Y: c.Min.Y - 5}}
	c.FillPolygon(color.White, gap)
	stroke := draw.LineStyle{Color: black, Width: 1}
	c.StrokeLines(stroke, gap[:2], gap[2:])
}

// upwards sets the vertical axis to hold values up to top, from zero, or from the power of ten below low.
func upwards(p *plot.Plot, a Axis, low, top float64) {
	if a.Log && low > 0 {
		p.Y.Min = math.Pow(10, math.Floor(math.Log10(low)+1e-9))
		p.Y.Max = top * 1.15
		p.Y.Tick.Marker = decades{a.Unit}
		return
	}
	p.Y.Scale = plot.LinearScale{}
	if top <= 0 {
		top = 1
	}
	s := step(top)
	p.Y.Min, p.Y.Max = 0, math.Ceil(top/s*0.999)*s
	p.Y.Tick.Marker = linear{a.Unit}
}
