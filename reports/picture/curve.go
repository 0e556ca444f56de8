package picture

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curve is one or more measured series over a swept setting.
type Curve struct {
	Head
	X, Y   Axis
	Ticks  []Tick // of the horizontal axis, in order: the values that were measured
	Named  bool   // the values are names: their places on the axis mean nothing
	Series []Series
}

// Tick is a swept value: its place on the axis and what it is called there.
type Tick struct {
	X    float64
	Text string
}

// Series is one line of a picture.
type Series struct {
	Name   string
	Look   int  // colour and marker; series that belong together have the same
	Faint  bool // dashed, with hollow markers: a prediction beside a measurement
	Loose  bool // hollow markers without a line: figures that others published
	Points []Point
}

// Point is a measurement. Low and High are the spread of its repetitions; both equal to Y when there is none.
type Point struct{ X, Y, Low, High float64 }

func (c *Curve) rows() [][]string {
	names := map[float64]string{}
	for _, t := range c.Ticks {
		names[t.X] = t.Text
	}
	rows := [][]string{{"series", c.X.column(), c.Y.column(), "low", "high"}}
	for _, s := range c.Series {
		for _, p := range s.Points {
			rows = append(rows, []string{s.Name, names[p.X], decimal(p.Y), decimal(p.Low), decimal(p.High)})
		}
	}
	return rows
}

func (c *Curve) panels() int { return 1 }

func (c *Curve) above() (Head, []key) {
	var keys []key
	for i := range c.Series {
		keys = append(keys, c.Series[i].key())
	}
	return c.Head, keys
}

func (c *Curve) draw(room draw.Canvas) error {
	low, top := math.Inf(1), 0.0
	for _, s := range c.Series {
		for _, p := range s.Points {
			low, top = min(low, p.Low), max(top, p.High)
		}
	}
	y := c.Y
	y.Log = y.Log && low > 0 && top > 0
	x := c.X
	x.Log = x.Log && !c.Named && len(c.Ticks) > 0 && c.Ticks[0].X > 0
	p := newPlot(x, y)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = rule, rule
	p.Add(grid)
	for _, s := range c.Series {
		if err := s.add(p); err != nil {
			return err
		}
	}
	upwards(p, y, low, top)
	c.across(p, x, room.Max.X-room.Min.X-60)
	room = draw.Crop(room, 0, -12, 0, -caption)
	over(room, y)
	p.Draw(room)
	return nil
}

// across sets the horizontal axis. A linear one starts at zero unless that would waste half of the picture: then it is broken.
func (c *Curve) across(p *plot.Plot, x Axis, width vg.Length) {
	ticks := at{log: x.Log, width: width}
	first, last := math.Inf(1), math.Inf(-1)
	for _, t := range c.Ticks {
		ticks.values, ticks.labels = append(ticks.values, t.X), append(ticks.labels, t.Text)
		first, last = min(first, t.X), max(last, t.X)
	}
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max = first, last
	switch {
	case len(c.Ticks) == 0:
		p.X.Min, p.X.Max = 0, 1
	case c.Named:
		p.X.Min, p.X.Max = first-0.3, last+0.3
	case x.Log && first == last:
		p.X.Min, p.X.Max = first/2, last*2
	case x.Log:
	case first > last/2:
		p.X.Min -= max(last-first, last/10) / 8
		p.Add(broken{})
	default:
		p.X.Min = min(0, first)
	}
}

func (s *Series) key() key {
	l := lookOf(s.Look)
	return key{name: s.Name, sample: func(c *draw.Canvas, box vg.Rectangle) {
		y := center(box).Y
		if !s.Loose {
			c.StrokeLine2(l.line(s.Faint), box.Min.X, y, box.Max.X, y)
		}
		c.DrawGlyphNoClip(l.glyph(s.Faint || s.Loose), center(box))
	}}
}

func (s *Series) add(p *plot.Plot) error {
	if len(s.Points) == 0 {
		return nil
	}
	l := lookOf(s.Look)
	pts := make(plotter.XYs, len(s.Points))
	spread := spreads{pts, make(plotter.YErrors, len(s.Points))}
	varies := false
	for i, pt := range s.Points {
		pts[i] = plotter.XY{X: pt.X, Y: pt.Y}
		spread.YErrors[i].Low, spread.YErrors[i].High = pt.Y-pt.Low, pt.High-pt.Y
		varies = varies || pt.High > pt.Low
	}
	line, marks, err := plotter.NewLinePoints(pts)
	if err != nil {
		return err
	}
	line.LineStyle, marks.GlyphStyle = l.line(s.Faint), l.glyph(s.Faint || s.Loose)
	if !s.Loose {
		p.Add(line)
	}
	if varies {
		bars, err := plotter.NewYErrorBars(spread)
		if err != nil {
			return err
		}
		bars.Color = color.RGBA(l.color)
		p.Add(bars)
	}
	p.Add(marks)
	return nil
}

type spreads struct {
	plotter.XYs
	plotter.YErrors
}
