// Package picture draws measurements: curves, bars, and time lines with faults, each with its data as CSV. What holds for all of them: axes have units and SI prefixes; a linear axis starts
// at zero or carries a break mark, a logarithmic one says that it is one; the legend stands beside the data, never over it; series differ in colour and in marker, and the colours are told apart by
// people with any colour vision. The same data gives the same bytes.
package picture

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// Picture is one of the kinds of this package.
type Picture interface {
	// Heading is the picture's title.
	Heading() string
	// rows are its data, the first row names the columns.
	rows() [][]string
	// above is what stands above the plot.
	above() (Head, []key)
	// panels is how many plots are on top of each other.
	panels() int
	// draw draws the plots into the room below the heading.
	draw(room draw.Canvas) error
}

// Head is what stands above every picture.
type Head struct {
	Title string
	Note  string // what was held fixed, on which hardware; wrapped
}

// Heading implements Picture.
func (h Head) Heading() string { return h.Title }

// Axis is a quantity with its unit.
type Axis struct {
	Name string // "batch size"
	Unit string // "messages"; none: ""
	Log  bool
}

func (a Axis) label() string {
	l := a.column()
	if a.Log {
		l += ", logarithmic"
	}
	return l
}

// column is the axis's name in a table.
func (a Axis) column() string {
	if a.Unit == "" {
		return a.Name
	}
	return fmt.Sprintf("%s (%s)", a.Name, a.Unit)
}

// Size of a picture: its width, and the height of a plot, to which that of heading and legend comes.
type Size struct{ width, height vg.Length }

// Wide is 800 pixels at 96 dots an inch, for files and screens. Narrow is the same with room for half, so that its letters stay legible on a phone.
var (
	Wide   = Size{600, 300}
	Narrow = Size{300, 220}
)

// Write draws the picture; format is "png" or "svg".
func Write(w io.Writer, p Picture, format string, size Size) error {
	head, keys := p.above()
	height := size.height * (1 + 0.6*vg.Length(p.panels()-1))
	trial := draw.NewCanvas(&recorder.Canvas{}, size.width, height)
	height += trial.Max.Y - frame(trial, head, keys).Max.Y
	canvas, err := draw.NewFormattedCanvas(size.width, height, format)
	if err != nil {
		return err
	}
	if err := p.draw(frame(draw.New(canvas), head, keys)); err != nil {
		return fmt.Errorf("draw %q: %w", p.Heading(), err)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	data := out.Bytes()
	if format == "svg" { // Arial and Helvetica have the measures of Liberation Sans, so that a reader without it sees the same
		data = bytes.ReplaceAll(data, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	}
	_, err = w.Write(data)
	return err
}

// Inline is the picture as an svg element to stand in a page, as wide as there is room.
func Inline(p Picture, size Size) (string, error) {
	var out bytes.Buffer
	if err := Write(&out, p, "svg", size); err != nil {
		return "", err
	}
	text := out.String()
	begin, end := strings.Index(text, "<svg "), strings.Index(text, "viewBox=")
	if begin < 0 || end < begin {
		return "", fmt.Errorf("draw %q: the SVG has no svg element with a viewBox", p.Heading())
	}
	return fmt.Sprintf(`<svg role="img" aria-label="%s" `, attribute.Replace(p.Heading())) + text[end:], nil
}

var attribute = strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;")

// WriteCSV writes the picture's data.
func WriteCSV(w io.Writer, p Picture) error {
	out := csv.NewWriter(w)
	if err := out.WriteAll(p.rows()); err != nil {
		return err
	}
	return out.Error()
}

// decimal is a figure in a table of data.
func decimal(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if math.Abs(v) < 1 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}
