package measured

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"faultline/reports/picture"
	"faultline/workloads/bench"
)

// drawn is a picture and how its files are called after the suite's name.
type drawn struct {
	picture.Picture
	suffix string
}

// words are what metrics are called in pictures and pages.
var words = map[string]string{
	"sent": "messages sent", "sent-bytes": "bytes sent", "received": "messages received", "received-bytes": "bytes received",
	"latency": "end-to-end latency", "latency-p50": "latency, median", "latency-p90": "latency, p90", "latency-p99": "latency, p99", "latency-p99.9": "latency, p99.9", "latency-max": "latency, longest",
	"recovery": "time to recover", "refused": "messages refused", "time-line": "throughput and latency over time",
}

// called is a metric in words.
func called(metric string) string {
	if w := words[metric]; w != "" {
		return w
	}
	return metric
}

// scaled is the unit in which a metric is drawn, and what its figures are to be multiplied with.
func scaled(metric string) (string, float64) {
	switch u := Unit(metric); u {
	case "us":
		return "s", 1e-6
	default:
		return u, 1
	}
}

// latencies are drawn together.
var latencies = []string{"latency-p50", "latency-p99", "latency-p99.9"}

// pictures draws what the suite asks for; beside is a prediction that is drawn into it, nil: none.
func (r *Run) pictures(beside *Run) []drawn {
	var out []drawn
	add := func(p picture.Picture, suffix string) {
		taken := func(s string) bool { return slices.ContainsFunc(out, func(d drawn) bool { return d.suffix == s }) }
		name := suffix
		for n := 2; taken(name); n++ {
			name = suffix + "-" + strconv.Itoa(n)
		}
		out = append(out, drawn{p, name})
	}
	for i, d := range r.Pictures {
		suffix := ""
		if i > 0 {
			suffix = "-" + d.Y
		}
		switch {
		case d.Y == "time-line":
			for _, value := range r.Sweep.Values {
				end := suffix
				if len(r.Sweep.Values) > 1 {
					end += "-" + strings.ReplaceAll(word(value), "_", "-")
				}
				if line := r.timeLine(d, value); line != nil {
					add(line, end)
				}
			}
		case d.As == "bars":
			add(r.bars(d, beside), suffix)
		default:
			add(r.curve(d, beside), suffix)
		}
	}
	return out
}

// head is the heading of a picture.
func (r *Run) head(d Drawing) picture.Head {
	title := d.Title
	if title == "" {
		title = strings.ToUpper(called(d.Y)[:1]) + called(d.Y)[1:]
		if d.Y != "time-line" {
			title += " against " + r.Sweep.Label
		}
	}
	return picture.Head{Title: title, Note: fmt.Sprintf("%s: %s, profile %s, %s", r.Suite, r.Arm, r.Profile, r.repeated())}
}

// repeated says how often points were measured.
func (r *Run) repeated() string {
	what, n := "seed", len(r.Seeds)
	if r.Arm == Real {
		what = "repetition"
	}
	switch {
	case n == 1 && r.Arm == Simulated:
		return fmt.Sprintf("seed %d", r.Seeds[0])
	case n == 1:
		return "one repetition"
	}
	return fmt.Sprintf("median of %d %ss, lowest and highest as bars", n, what)
}

// legend is a series in a legend: with its system's delivery guarantee where systems are compared.
func (r *Run) legend(s *Series) string {
	if s.Guarantee != "" && slices.ContainsFunc(r.Series, func(o Series) bool { return o.System != s.System }) {
		return fmt.Sprintf("%s (%s)", s.Name, s.Guarantee)
	}
	return s.Name
}

// metrics are those of a drawing.
func (d Drawing) metrics() []string {
	if d.Y == "latency" {
		return latencies
	}
	return []string{d.Y}
}

// part is a series and one metric of it: what one curve shows.
type part struct {
	name   string
	metric string
	series *Series
	look   int
}

func (r *Run) parts(d Drawing) []part {
	var out []part
	metrics := d.metrics()
	for i := range r.Series {
		for k, m := range metrics {
			p := part{r.legend(&r.Series[i]), m, &r.Series[i], i*len(metrics) + k}
			if len(metrics) > 1 {
				p.name += ", " + strings.TrimPrefix(m, "latency-")
				if len(r.Series) == 1 {
					p.name = strings.TrimPrefix(m, "latency-")
				}
			}
			out = append(out, p)
		}
	}
	return out
}

// foreign are the published figures of a metric, by series in their order, with their looks: a series that was measured, too, has its own.
func (r *Run) foreign(d Drawing) []part {
	parts := r.parts(d)
	next := len(parts)
	var out []part
	for _, m := range d.metrics() {
		for _, f := range r.Published {
			if f.Metric != m || slices.ContainsFunc(out, func(p part) bool { return p.series.Name == f.Series && p.metric == m }) {
				continue
			}
			p := part{name: f.Series, metric: m, series: &Series{Name: f.Series}, look: -1}
			for _, own := range parts {
				if own.series.Name == f.Series && own.metric == m {
					p.look, p.name = own.look, own.name
				}
			}
			if p.look < 0 {
				p.look = next
				next++
			}
			p.name += ", published"
			out = append(out, p)
		}
	}
	return out
}

// axis is the vertical one.
func (d Drawing) axis() picture.Axis {
	metric := d.metrics()[0]
	u, _ := scaled(metric)
	name := called(d.Y)
	return picture.Axis{Name: name, Unit: u, Log: d.Scale == "log" || d.Scale == "auto" && Unit(metric) == "us"}
}

// sweepUnit is the unit of the swept values; none when they have theirs themselves.
func (r *Run) sweepUnit() string {
	for _, v := range r.Sweep.Values {
		if _, err := strconv.ParseFloat(v, 64); err != nil {
			return ""
		}
	}
	return r.Sweep.Unit
}

func (r *Run) curve(d Drawing, beside *Run) *picture.Curve {
	c := &picture.Curve{Head: r.head(d), X: picture.Axis{Name: r.Sweep.Label, Unit: r.sweepUnit(), Log: r.Sweep.Scale == "log"}, Y: d.axis()}
	place := map[string]float64{}
	for i, v := range r.Sweep.Values {
		x, ok := bench.Number(v)
		if !ok {
			c.Named = true
		}
		place[v] = x
		c.Ticks = append(c.Ticks, picture.Tick{X: x, Text: r.Sweep.Values[i]})
	}
	if c.Named {
		for i, v := range r.Sweep.Values {
			place[v], c.Ticks[i].X = float64(i), float64(i)
		}
	}
	line := func(p part, from *Series) []picture.Point {
		_, times := scaled(p.metric)
		var points []picture.Point
		for _, v := range r.Sweep.Values {
			if f, ok := from.point(v).figure(p.metric); ok {
				points = append(points, picture.Point{X: place[v], Y: f.Median * times, Low: f.Low * times, High: f.High * times})
			}
		}
		return points
	}
	for _, p := range r.parts(d) {
		s := picture.Series{Name: p.name, Look: p.look, Points: line(p, p.series)}
		if beside == nil {
			c.Series = append(c.Series, s)
			continue
		}
		s.Name += ", measured"
		c.Series = append(c.Series, s)
		if other := beside.series(p.series.Name); other != nil {
			c.Series = append(c.Series, picture.Series{Name: p.name + ", predicted", Look: p.look, Faint: true, Points: line(p, other)})
		}
	}
	for _, p := range r.foreign(d) {
		s := picture.Series{Name: p.name, Look: p.look, Loose: true}
		_, times := scaled(p.metric)
		for _, f := range r.Published {
			if f.Series == p.series.Name && f.Metric == p.metric {
				y := f.Figure * times
				s.Points = append(s.Points, picture.Point{X: place[f.Value], Y: y, Low: y, High: y})
			}
		}
		c.Series = append(c.Series, s)
	}
	return c
}

func (r *Run) bars(d Drawing, beside *Run) *picture.Bars {
	b := &picture.Bars{Head: r.head(d), X: picture.Axis{Name: r.Sweep.Label, Unit: r.sweepUnit()}, Y: d.axis(), Cases: r.Sweep.Values}
	bars := func(p part, from *Series) []picture.Bar {
		_, times := scaled(p.metric)
		var out []picture.Bar
		for _, v := range r.Sweep.Values {
			f, ok := from.point(v).figure(p.metric)
			out = append(out, picture.Bar{Y: f.Median * times, Low: f.Low * times, High: f.High * times, Known: ok})
		}
		return out
	}
	foreign := r.foreign(d)
	published := func(p part) picture.BarSeries {
		s := picture.BarSeries{Name: p.name, Look: p.look, Faint: true, Values: make([]picture.Bar, len(r.Sweep.Values))}
		_, times := scaled(p.metric)
		for _, f := range r.Published {
			if i := slices.Index(r.Sweep.Values, f.Value); f.Series == p.series.Name && f.Metric == p.metric && i >= 0 {
				y := f.Figure * times
				s.Values[i] = picture.Bar{Y: y, Low: y, High: y, Known: true}
			}
		}
		return s
	}
	for _, p := range r.parts(d) {
		s := picture.BarSeries{Name: p.name, Look: p.look, Values: bars(p, p.series)}
		if beside != nil {
			s.Name += ", measured"
		}
		b.Series = append(b.Series, s)
		if beside != nil {
			if other := beside.series(p.series.Name); other != nil {
				b.Series = append(b.Series, picture.BarSeries{Name: p.name + ", predicted", Look: p.look, Faint: true, Values: bars(p, other)})
			}
		}
		for _, f := range foreign { // next to what it compares with
			if f.series.Name == p.series.Name && f.metric == p.metric {
				b.Series = append(b.Series, published(f))
			}
		}
	}
	for _, f := range foreign {
		if r.series(f.series.Name) == nil {
			b.Series = append(b.Series, published(f))
		}
	}
	return b
}
