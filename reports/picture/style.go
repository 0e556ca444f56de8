package picture

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours of Okabe and Ito without black and yellow, which people with any colour vision tell apart.
var palette = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {230, 159, 0, 255}}

// Markers by their corners, on a circle of one; nil is the circle itself.
var markers = [][]float64{nil, {45, 135, 225, 315}, {90, 210, 330}, {0, 90, 180, 270}, {270, 30, 150}, {90, 162, 234, 306, 18}}

var dashes = [][]vg.Length{nil, {6, 2}, {2, 2}}

var (
	black = color.Gray{30}
	gray  = color.Gray{95}
	rule  = color.Gray{225}
)

// look is how the series of a number is drawn: after one round of colours they come back with other markers and dashes.
type look struct {
	color  color.RGBA
	marker []float64
	dashes []vg.Length
}

func lookOf(i int) look {
	round := i / len(palette)
	return look{palette[i%len(palette)], markers[(i+round)%len(markers)], dashes[round%len(dashes)]}
}

// line is the look as a line; a faint one is dashed.
func (l look) line(faint bool) draw.LineStyle {
	s := draw.LineStyle{Color: l.color, Width: 1.6, Dashes: l.dashes}
	if faint {
		s.Dashes = []vg.Length{4, 3}
	}
	return s
}

// thin is the look as a line that stands behind others.
func (l look) thin() draw.LineStyle {
	return draw.LineStyle{Color: l.veiled(), Width: 0.7, Dashes: l.dashes}
}

// veiled is the colour, half transparent.
func (l look) veiled() color.NRGBA { return color.NRGBA{l.color.R, l.color.G, l.color.B, 140} }

// glyph is the look as a marker; a faint one is hollow.
func (l look) glyph(faint bool) draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.color, Radius: 3.4, Shape: polygon{l.marker, faint}}
}

// pale is the colour mixed with white.
func (l look) pale() color.RGBA {
	mix := func(v uint8) uint8 { return uint8(255 - (255-int(v))*3/10) }
	return color.RGBA{mix(l.color.R), mix(l.color.G), mix(l.color.B), 255}
}

// polygon is a marker.
type polygon struct {
	corners []float64 // degrees; nil: a circle
	hollow  bool
}

// DrawGlyph implements draw.GlyphDrawer.
func (p polygon) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	var path vg.Path
	if p.corners == nil {
		path.Move(vg.Point{X: at.X + s.Radius, Y: at.Y})
		path.Arc(at, s.Radius, 0, 2*math.Pi)
	}
	for i, degrees := range p.corners {
		sin, cos := math.Sincos(degrees * math.Pi / 180)
		corner := vg.Point{X: at.X + s.Radius*1.2*vg.Length(cos), Y: at.Y + s.Radius*1.2*vg.Length(sin)}
		if i == 0 {
			path.Move(corner)
		} else {
			path.Line(corner)
		}
	}
	path.Close()
	c.SetColor(s.Color)
	if p.hollow {
		c.SetColor(color.White)
	}
	c.Fill(path)
	c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: 1.2})
	c.Stroke(path)
}

// letters is text of a size.
func letters(size vg.Length, of color.Color) draw.TextStyle {
	return draw.TextStyle{Color: of, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler, YAlign: text.YTop}
}

// newPlot is a plot with this package's letters and axes, without title and legend. What stands upwards is not written beside its axis but above it, where it is read without turning one's head.
func newPlot(x, y Axis) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text = x.label()
	p.X.Label.TextStyle.Font = letters(11, black).Font
	p.X.Label.TextStyle.Color = black
	p.X.Label.Padding = 4
	for axis, of := range map[*plot.Axis]Axis{&p.X: x, &p.Y: y} {
		axis.Tick.Label.Font = letters(10, black).Font
		axis.Tick.Label.Color = black
		axis.Padding = 0
		if of.Log {
			axis.Scale = plot.LogScale{}
		}
	}
	return p
}

// caption is the room for what stands above a vertical axis.
const caption = vg.Length(18)

// over writes what stands upwards above the plot.
func over(c draw.Canvas, y Axis) {
	c.FillText(letters(11, black), vg.Point{X: c.Min.X, Y: c.Max.Y + caption}, y.label())
}
