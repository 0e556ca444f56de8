package picture

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars are figures side by side, a group for each of a few cases. They start at zero, always.
type Bars struct {
	Head
	X, Y   Axis
	Cases  []string
	Series []BarSeries
}

// BarSeries is one bar in every group.
type BarSeries struct {
	Name   string
	Look   int  // colour; series that belong together have the same
	Faint  bool // hatched: not measured in this run
	Values []Bar
}

// Bar is a figure and its spread. One that is not Known is left out.
type Bar struct {
	Y, Low, High float64
	Known        bool
}

func (b *Bars) rows() [][]string {
	rows := [][]string{{"series", b.X.column(), b.Y.column(), "low", "high"}}
	for _, s := range b.Series {
		for i, v := range s.Values {
			if v.Known {
				rows = append(rows, []string{s.Name, b.Cases[i], decimal(v.Y), decimal(v.Low), decimal(v.High)})
			}
		}
	}
	return rows
}

func (b *Bars) panels() int { return 1 }

func (b *Bars) above() (Head, []key) {
	var keys []key
	for _, s := range b.Series {
		keys = append(keys, key{name: s.Name, sample: func(c *draw.Canvas, box vg.Rectangle) {
			box.Min.X += 4
			s.fill(c, box)
		}})
	}
	return b.Head, keys
}

func (b *Bars) draw(room draw.Canvas) error {
	top := 0.0
	for _, s := range b.Series {
		for _, v := range s.Values {
			if v.Known {
				top = max(top, v.High)
			}
		}
	}
	y := b.Y
	y.Log = false
	p := newPlot(b.X, y)
	p.Add(horizontals{}, b)
	upwards(p, y, 0, top*1.06)
	ticks := at{width: room.Max.X - room.Min.X - 60}
	for i, name := range b.Cases {
		ticks.values, ticks.labels = append(ticks.values, float64(i)), append(ticks.labels, name)
	}
	p.X.Tick.Marker = ticks
	p.X.Tick.LineStyle.Width = 0
	p.X.Min, p.X.Max = -0.5, float64(len(b.Cases))-0.5
	room = draw.Crop(room, 0, -4, 0, -caption)
	over(room, y)
	p.Draw(room)
	return nil
}

// Plot implements plot.Plotter.
func (b *Bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	wide := 0.84 / float64(max(1, len(b.Series)))
	s := letters(8.5, black)
	s.XAlign, s.YAlign = text.XCenter, text.YBottom
	for n := range b.Series {
		series := &b.Series[n]
		for i, v := range series.Values {
			if !v.Known {
				continue
			}
			left := float64(i) - 0.42 + wide*float64(n)
			box := vg.Rectangle{Min: vg.Point{X: x(left + wide*0.05), Y: y(0)}, Max: vg.Point{X: x(left + wide*0.95), Y: y(v.Y)}}
			series.fill(&c, box)
			mid := center(box).X
			if v.High > v.Low {
				whisker := draw.LineStyle{Color: black, Width: 0.8}
				c.StrokeLine2(whisker, mid, y(v.Low), mid, y(v.High))
				c.StrokeLine2(whisker, mid-2.5, y(v.Low), mid+2.5, y(v.Low))
				c.StrokeLine2(whisker, mid-2.5, y(v.High), mid+2.5, y(v.High))
			}
			label := Short(v.Y, b.Y.Unit)
			if s.Width(label) <= x(wide*1.1)-x(0) {
				c.FillText(s, vg.Point{X: mid, Y: max(y(v.High), y(v.Y)) + 2}, label)
			}
		}
	}
}

// fill paints a bar, hatched when it is faint.
func (s *BarSeries) fill(c *draw.Canvas, box vg.Rectangle) {
	l := lookOf(s.Look)
	if !s.Faint {
		fill(c, l.color, box)
		return
	}
	fill(c, l.pale(), box)
	inside := draw.Canvas{Canvas: c.Canvas, Rectangle: box}
	stroke := draw.LineStyle{Color: l.color, Width: 0.7}
	height := box.Max.Y - box.Min.Y
	for at := box.Min.X - height; at < box.Max.X; at += 5 {
		c.StrokeLines(stroke, inside.ClipLinesXY([]vg.Point{{X: at, Y: box.Min.Y}, {X: at + height, Y: box.Max.Y}})...)
	}
	c.StrokeLines(stroke, []vg.Point{box.Min, {X: box.Min.X, Y: box.Max.Y}, box.Max, {X: box.Max.X, Y: box.Min.Y}, box.Min})
}

// horizontals are the grid's lines across.
type horizontals struct{}

// Plot implements plot.Plotter.
func (horizontals) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if t.Label != "" {
			c.StrokeLine2(draw.LineStyle{Color: color.Color(rule), Width: 0.5}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
		}
	}
}
