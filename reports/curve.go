package reports

import (
	"encoding/csv"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curve is a picture of one or more measured series over one axis, and the same as data.
type Curve struct {
	Title  string
	Note   string // under the title: profile, seed, what was held fixed
	X, Y   Axis
	Series []Series
}

// Axis is a quantity with its unit.
type Axis struct {
	Name string // "batch size"
	Unit string // "records"
	Log  bool   // logarithmic: the measured values become the ticks
}

func (a Axis) label() string { return fmt.Sprintf("%s (%s)", a.Name, a.Unit) }

// Series is one line of a picture.
type Series struct {
	Name   string
	Points []Point
}

// Point is a measurement. Low and High are the spread of its repetitions; both equal to Y when there is none.
type Point struct{ X, Y, Low, High float64 }

// The colours of Okabe and Ito, which people with any colour vision tell apart; shapes differ too.
var palette = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {230, 159, 0, 255}}

var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.SquareGlyph{}, draw.RingGlyph{}}

// Draw makes the plot. The vertical axis starts at zero, so that heights compare as values do.
func (c *Curve) Draw() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = c.Title
	if c.Note != "" {
		p.Title.Text += "\n" + c.Note
	}
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = 8
	for _, a := range []struct {
		axis *plot.Axis
		text string
	}{{&p.X, c.X.label()}, {&p.Y, c.Y.label()}} {
		a.axis.Label.Text = a.text
		a.axis.Label.TextStyle.Font.Size = 12
		a.axis.Tick.Label.Font.Size = 11
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{235}
	p.Add(grid)
	var xs []float64
	top := 0.0
	for i, s := range c.Series {
		pts := make(plotter.XYs, len(s.Points))
		spread := spreads{pts, make(plotter.YErrors, len(s.Points))}
		varies := false
		for k, pt := range s.Points {
			pts[k] = plotter.XY{X: pt.X, Y: pt.Y}
			spread.YErrors[k].Low, spread.YErrors[k].High = pt.Y-pt.Low, pt.High-pt.Y
			varies = varies || pt.High > pt.Low
			top = max(top, pt.High, pt.Y)
			xs = append(xs, pt.X)
		}
		line, marks, err := plotter.NewLinePoints(pts)
		if err != nil {
			return nil, fmt.Errorf("draw %q: %w", s.Name, err)
		}
		line.Width, line.Color = vg.Points(1.6), palette[i%len(palette)]
		marks.Shape, marks.Radius, marks.Color = shapes[i%len(shapes)], vg.Points(3.2), palette[i%len(palette)]
		p.Add(line, marks)
		if varies {
			bars, err := plotter.NewYErrorBars(spread)
			if err != nil {
				return nil, fmt.Errorf("draw %q: %w", s.Name, err)
			}
			bars.Color = palette[i%len(palette)]
			p.Add(bars)
		}
		p.Legend.Add(s.Name, line, marks)
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), vg.Points(-4)
	p.Legend.TextStyle.Font.Size = 11
	p.Y.Min, p.Y.Max = 0, top*1.08
	p.Y.Tick.Marker = counted{}
	if c.X.Log {
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = at(xs)
	} else {
		p.X.Tick.Marker = counted{}
	}
	return p, nil
}

type spreads struct {
	plotter.XYs
	plotter.YErrors
}

// counted labels ticks with SI prefixes: 400 k.
type counted struct{}

func (counted) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = short(ticks[i].Value)
		}
	}
	return ticks
}

func short(v float64) string {
	if v == 0 {
		return "0"
	}
	n, prefix := humanize.ComputeSI(v)
	return strconv.FormatFloat(n, 'g', 4, 64) + prefix
}

// at puts a tick at each measured value.
type at []float64

func (a at) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	seen := map[float64]bool{}
	for _, v := range a {
		if !seen[v] && v >= low && v <= high {
			seen[v] = true
			ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
		}
	}
	return ticks
}

// Size of pictures: 800 pixels wide at 96 dots an inch.
const (
	pictureWidth  = 600 * vg.Length(1)
	pictureHeight = 380 * vg.Length(1)
)

// WritePicture writes the plot; format is "png" or "svg".
func (c *Curve) WritePicture(w io.Writer, format string) error {
	p, err := c.Draw()
	if err != nil {
		return err
	}
	to, err := p.WriterTo(pictureWidth, pictureHeight, format)
	if err != nil {
		return err
	}
	_, err = to.WriteTo(w)
	return err
}

// WriteCSV writes the data: a row a point.
func (c *Curve) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"series", c.X.label(), c.Y.label(), "low", "high"})
	num := func(v float64) string {
		if v == math.Trunc(v) {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	for _, s := range c.Series {
		for _, p := range s.Points {
			out.Write([]string{s.Name, num(p.X), num(p.Y), num(p.Low), num(p.High)})
		}
	}
	out.Flush()
	return out.Error()
}
