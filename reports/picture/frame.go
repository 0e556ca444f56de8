package picture

import (
	"image/color"
	"strings"

	"golang.org/x/image/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// key is an entry of the legend: a sample of what is drawn, and what it is.
type key struct {
	sample func(c *draw.Canvas, box vg.Rectangle)
	name   string
}

const (
	margin = vg.Length(8)
	swatch = vg.Length(22) // width of a sample
	// slack is how much wider than ours the letters may be with which a reader's browser replaces them.
	slack = 1.15
)

// frame draws the heading and the legend, and returns the room that is left for the plot.
func frame(c draw.Canvas, h Head, keys []key) draw.Canvas {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	write := func(s draw.TextStyle, t string) {
		for _, line := range wrap(s, t, c.Max.X-c.Min.X) {
			c.FillText(s, vg.Point{X: c.Min.X, Y: c.Max.Y}, line)
			c.Max.Y -= s.Font.Size * 1.3
		}
	}
	title := letters(13, black)
	title.Font.Weight = font.WeightBold
	write(title, h.Title)
	write(letters(9.5, gray), h.Note)
	c.Max.Y -= 4
	s := letters(10, black)
	row := s.Font.Size * 1.45
	x := c.Min.X
	for i, k := range keys {
		lines := wrap(s, k.name, c.Max.X-c.Min.X-swatch-4)
		width := swatch + 4
		for _, l := range lines {
			width = max(width, swatch+4+slack*s.Width(l))
		}
		if i > 0 && (x+width > c.Max.X || len(lines) > 1) {
			x = c.Min.X
			c.Max.Y -= row
		}
		box := vg.Rectangle{Min: vg.Point{X: x, Y: c.Max.Y - s.Font.Size}, Max: vg.Point{X: x + swatch, Y: c.Max.Y}}
		k.sample(&c, box)
		for n, l := range lines {
			if n > 0 {
				c.Max.Y -= row
			}
			c.FillText(s, vg.Point{X: x + swatch + 4, Y: c.Max.Y}, l)
		}
		x += width + 14
	}
	if len(keys) > 0 {
		c.Max.Y -= row
	}
	c.Max.Y -= 6
	return c
}

// wrap breaks text at its spaces, so that the lines fit into a width.
func wrap(s draw.TextStyle, t string, width vg.Length) []string {
	var lines []string
	for _, word := range strings.Fields(t) {
		if n := len(lines); n > 0 && slack*s.Width(lines[n-1]+" "+word) <= width {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// center of a box.
func center(box vg.Rectangle) vg.Point {
	return vg.Point{X: (box.Min.X + box.Max.X) / 2, Y: (box.Min.Y + box.Max.Y) / 2}
}

// fill paints a rectangle.
func fill(c *draw.Canvas, of color.Color, box vg.Rectangle) {
	c.SetColor(of)
	c.Fill(box.Path())
}
