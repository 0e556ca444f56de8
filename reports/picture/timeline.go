package picture

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TimeLine is what systems did step after step, a panel for the rate and, when there are latencies, one for them, through faults that stand behind as numbered bands.
// A bar in a series' colour tells how long its rate was down. A series that was measured several times is drawn as its median, with each repetition as a thin line behind it.
type TimeLine struct {
	Head
	Rate, Latency Axis // upwards; across are seconds since the load began
	Series        []Stretch
	Bands         []Band
}

// Stretch is a series of steps.
type Stretch struct {
	Name  string
	Look  int
	Steps []Step   // of several repetitions the median
	Each  [][]Step // the repetitions, if they are several
}

// Step is one step, from its begin. A latency of zero: nothing came.
type Step struct{ At, Rate, Latency float64 }

// Band is a fault. Times are in seconds.
type Band struct {
	Name       string
	From, To   float64
	Recoveries []Recovery
}

// Recovery tells when a series' rate was back after a fault.
type Recovery struct {
	Look int
	Took float64 // seconds after the fault's begin; negative: not while it was watched
}

func (t *TimeLine) rows() [][]string {
	rows := [][]string{{"series", "time (s)", t.Rate.column(), "low", "high", t.Latency.column(), "low", "high"}}
	latency := func(v float64) string {
		if v == 0 {
			return ""
		}
		return decimal(v)
	}
	for _, s := range t.Series {
		for i, step := range s.Steps {
			low, high := s.spread(i)
			rows = append(rows, []string{s.Name, decimal(step.At), decimal(step.Rate), decimal(low.Rate), decimal(high.Rate), latency(step.Latency), latency(low.Latency), latency(high.Latency)})
		}
	}
	return rows
}

// spread is the lowest and the highest of the repetitions at a step; of latencies only where something came.
func (s *Stretch) spread(i int) (low, high Step) {
	low, high = s.Steps[i], s.Steps[i]
	for _, steps := range s.Each {
		if i >= len(steps) {
			continue
		}
		step := steps[i]
		low.Rate, high.Rate, high.Latency = min(low.Rate, step.Rate), max(high.Rate, step.Rate), max(high.Latency, step.Latency)
		if step.Latency > 0 && (low.Latency == 0 || step.Latency < low.Latency) {
			low.Latency = step.Latency
		}
	}
	return low, high
}

var bandColors = []color.RGBA{{255, 228, 181, 255}, {221, 221, 221, 255}}

func (t *TimeLine) above() (Head, []key) {
	var keys []key
	for _, s := range t.Series {
		keys = append(keys, key{name: s.Name, sample: func(c *draw.Canvas, box vg.Rectangle) {
			c.StrokeLine2(lookOf(s.Look).line(false), box.Min.X, center(box).Y, box.Max.X, center(box).Y)
		}})
	}
	for i, b := range t.Bands {
		keys = append(keys, key{name: strconv.Itoa(i+1) + ": " + b.Name, sample: func(c *draw.Canvas, box vg.Rectangle) {
			box.Min.X += 8
			fill(c, bandColors[i%2], box)
		}})
	}
	return t.Head, keys
}

// panels counts the one of latencies only when there are some.
func (t *TimeLine) panels() int {
	for _, s := range t.Series {
		for i := range s.Steps {
			if _, high := s.spread(i); high.Latency > 0 {
				return 2
			}
		}
	}
	return 1
}

func (t *TimeLine) draw(room draw.Canvas) error {
	end, top, low, high := 0.0, 0.0, math.Inf(1), 0.0
	for _, s := range t.Series {
		for i, step := range s.Steps {
			end = max(end, step.At)
			if i > 0 {
				end = max(end, 2*step.At-s.Steps[i-1].At)
			}
			least, most := s.spread(i)
			top = max(top, most.Rate)
			if most.Latency > 0 {
				low, high = min(low, least.Latency), max(high, most.Latency)
			}
		}
	}
	lengths, rows := t.recoveries(end)
	across := Axis{Name: "time since the load began", Unit: "s"}
	latency := t.Latency
	latency.Log = latency.Log && high > 0
	panels := []*plot.Plot{newPlot(Axis{}, t.Rate)}
	upwards(panels[0], t.Rate, 0, top)
	if high > 0 {
		panels = append(panels, newPlot(across, latency))
		upwards(panels[1], latency, low, high)
	} else {
		panels[0].X.Label.Text = across.label()
	}
	for i, p := range panels {
		p.Add(bands{t.Bands, lengths, i == 0}, horizontals{})
		for _, s := range t.Series { // behind all medians
			for _, steps := range s.Each {
				if err := add(p, steps, lookOf(s.Look).thin(), i == 1); err != nil {
					return err
				}
			}
		}
		for _, s := range t.Series {
			if err := add(p, s.Steps, lookOf(s.Look).line(false), i == 1); err != nil {
				return err
			}
		}
		p.X.Min, p.X.Max = 0, max(end, 1e-9)
		p.X.Tick.Marker = linear{}
	}
	room = draw.Crop(room, 0, -12, 0, 0)
	tiles := draw.Tiles{Cols: 1, Rows: len(panels), PadTop: caption, PadY: caption + 4}
	if top > 0 && len(t.Bands) > 0 { // the numbers and the bars of recovery stand above the lines
		height := (room.Max.Y-room.Min.Y)/vg.Length(len(panels)) - 45
		share := (bandHead + bandRow*vg.Length(rows)) / height
		panels[0].Y.Max = max(panels[0].Y.Max, top/float64(1-min(share, 0.7)))
	}
	var grid [][]*plot.Plot
	for _, p := range panels {
		grid = append(grid, []*plot.Plot{p})
	}
	for i, c := range plot.Align(grid, tiles, room) {
		over(draw.Canvas{Canvas: c[0].Canvas, Rectangle: vg.Rectangle{Min: room.Min, Max: c[0].Max}}, []Axis{t.Rate, latency}[i])
		panels[i].Draw(c[0])
	}
	return nil
}

// add draws steps as a line; of latencies only those of steps in which something came, so that a line breaks where nothing did.
func add(p *plot.Plot, steps []Step, style draw.LineStyle, latency bool) error {
	var run plotter.XYs
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		line, err := plotter.NewLine(run)
		if err != nil {
			return err
		}
		line.LineStyle = style
		line.StepStyle = plotter.PostStep
		p.Add(line)
		run = nil
		return nil
	}
	for i, step := range steps {
		v := step.Rate
		if latency {
			v = step.Latency
		}
		if latency && v == 0 {
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		run = append(run, plotter.XY{X: step.At, Y: v})
		if i > 0 && (i+1 == len(steps) || latency && steps[i+1].Latency == 0) { // the last one lasts as long as the others
			run = append(run, plotter.XY{X: 2*step.At - steps[i-1].At, Y: v})
		}
	}
	return flush()
}

// Heights at the top of the upper panel: of a band's number, and of a bar of recovery.
const bandHead, bandRow = vg.Length(17), vg.Length(12)

// length is a bar that tells how long a rate was down, in one of the rows that are above the lines.
type length struct {
	look     int
	from, to float64
	over     bool // before the end
	row      int
}

// recoveries places the bars so that none runs into another, each in the first row that is free; it also tells how many rows there are.
func (t *TimeLine) recoveries(end float64) (out []length, rows int) {
	label := end / 8 // room for the text beside a bar
	for _, b := range t.Bands {
		for _, r := range b.Recoveries {
			if r.Took == 0 {
				continue
			}
			l := length{look: r.Look, from: b.From, to: end, over: r.Took > 0}
			if l.over {
				l.to = b.From + r.Took
			}
			for taken := true; taken; {
				taken = false
				for _, o := range out {
					if o.row == l.row && o.from-label < l.to && l.from-label < o.to {
						taken = true
					}
				}
				if taken {
					l.row++
				}
			}
			rows = max(rows, l.row+1)
			out = append(out, l)
		}
	}
	return out, rows
}

// bands draws faults, and in the upper panel their numbers and how long recovery took.
type bands struct {
	of      []Band
	lengths []length
	named   bool
}

// Plot implements plot.Plotter.
func (b bands) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	inside := func(v float64) vg.Length { return min(max(x(v), c.Min.X), c.Max.X) }
	for i, band := range b.of {
		box := vg.Rectangle{Min: vg.Point{X: inside(band.From), Y: c.Min.Y}, Max: vg.Point{X: max(inside(band.To), inside(band.From)+1.5), Y: c.Max.Y}}
		fill(&c, bandColors[i%2], box)
	}
	if !b.named {
		return
	}
	number, small := letters(10, black), letters(8.5, black)
	number.XAlign = text.XCenter
	small.YAlign = text.YCenter
	for i, band := range b.of {
		c.FillText(number, vg.Point{X: (inside(band.From) + inside(band.To)) / 2, Y: c.Max.Y - 2}, strconv.Itoa(i+1))
	}
	for _, l := range b.lengths {
		y := c.Max.Y - bandHead - bandRow*(vg.Length(l.row)+0.3)
		stroke := draw.LineStyle{Color: lookOf(l.look).color, Width: 1.4}
		from, to, told := inside(l.from), inside(l.to), "not over"
		c.StrokeLine2(stroke, from, y, to, y)
		c.StrokeLine2(stroke, from, y-3, from, y+3)
		if l.over {
			told = Short(l.to-l.from, "s")
			c.StrokeLine2(stroke, to, y-3, to, y+3)
		}
		if width := slack * small.Width(told); to+4+width <= c.Max.X {
			c.FillText(small, vg.Point{X: to + 4, Y: y}, told)
		} else {
			c.FillText(small, vg.Point{X: from - 4 - width, Y: y}, told)
		}
	}
}
