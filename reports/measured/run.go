// Package measured keeps what benches measured, draws it, tells it in a page, and compares it. A Run is the document of all that: whatever is written is made of it alone, so that it can be made
// again from what was kept, of several runs together. Nothing here reads a clock: the same measurement gives the same bytes.
package measured

import (
	"net/url"
	"slices"

	"faultline/workloads/bench"
)

// Run is all that is kept of one run of a suite on one arm.
type Run struct {
	Kind      string      `json:"kind"`   // always kind
	Format    int         `json:"format"` // of this document
	Suite     string      `json:"suite"`
	About     string      `json:"about,omitempty"`
	Arm       string      `json:"arm"`     // simulated or real
	Profile   string      `json:"profile"` // of the hardware; of a real run the machine itself
	Build     string      `json:"build"`
	Command   string      `json:"command"`           // the line to paste that does it again
	Began     string      `json:"began,omitempty"`   // of a real run, RFC 3339
	Machine   []string    `json:"machine,omitempty"` // on which a real run ran, a fact a line
	Seeds     []uint64    `json:"seeds"`             // of a real run: the numbers of the repetitions
	Sweep     Sweep       `json:"sweep"`
	Pictures  []Drawing   `json:"pictures"`
	Published []Published `json:"published,omitempty"`
	Series    []Series    `json:"series"`

	SuiteFile   string `json:"suite_file"`             // as it was given
	ProfileFile string `json:"profile_file,omitempty"` // with the sources of its figures
}

const (
	kind   = "faultline bench"
	format = 1
)

// Arms.
const (
	Simulated = "simulated"
	Real      = "real"
)

// Sweep is the suite's: see bench.Sweep.
type Sweep struct {
	Setting string   `json:"setting"`
	Label   string   `json:"label"`
	Unit    string   `json:"unit,omitempty"`
	Values  []string `json:"values"`
	Scale   string   `json:"scale"`
}

// Drawing is a picture that the suite asks for: see bench.Picture.
type Drawing struct {
	Y     string `json:"y"`
	Title string `json:"title,omitempty"`
	As    string `json:"as"`
	Scale string `json:"scale"`
}

// Published is a figure of others: see bench.Published.
type Published struct {
	Series string  `json:"series"`
	Value  string  `json:"value"`
	Metric string  `json:"metric"`
	Figure float64 `json:"figure"`
	Source string  `json:"source"`
}

// Series is one curve.
type Series struct {
	Name      string  `json:"name"`
	System    string  `json:"system"`
	Guarantee string  `json:"guarantee,omitempty"`
	Reads     bool    `json:"reads,omitempty"` // it has consumers
	Points    []Point `json:"points"`
}

// Point is one value of a series.
type Point struct {
	Value       string       `json:"value"`
	Repetitions []Repetition `json:"repetitions"`
}

// Repetition is one measurement of a point.
type Repetition struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"` // in which it was measured
	// How fast the processor was in a real run, as a share of what the profile of its prediction says; absent: unknown.
	Speed   float64            `json:"speed,omitempty"`
	Figures map[string]float64 `json:"figures"` // by the names and in the units of bench.Metrics
	// The time line: rates of messages a second and latencies in microseconds, an entry a step, a step as long as Step says, in seconds. A latency of 0: nothing came.
	Step     float64   `json:"step,omitempty"`
	Sent     []float64 `json:"sent,omitempty"`
	Received []float64 `json:"received,omitempty"`
	P50      []int64   `json:"p50,omitempty"`
	P99      []int64   `json:"p99,omitempty"`
	Faults   []Fault   `json:"faults,omitempty"`
	// How busy the resources of a simulated run's machines were, the busiest first.
	Usage []Usage `json:"usage,omitempty"`
}

// Usage is how busy one kind of resource was on the machines of a role: see bench.Usage.
type Usage struct {
	Role     string  `json:"role"`
	Resource string  `json:"resource"`
	Mean     float64 `json:"mean"` // shares of the time: on average over the machines,
	Peak     float64 `json:"peak"` // and of the busiest,
	Machine  string  `json:"machine"`
}

// Fault is what went wrong. Times are in seconds from the start of the load.
type Fault struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
	// Recovered is how long after its begin the rate was back for good; absent: it was not while it was measured.
	Recovered *float64 `json:"recovered,omitempty"`
}

// Origin is where an outcome comes from.
type Origin struct {
	Build, Command string
	ProfileFile    string
	Began          string
	Machine        []string
}

// New makes the document of an outcome.
func New(o *bench.Outcome, from Origin) *Run {
	s := o.Suite
	r := &Run{
		Kind: kind, Format: format, Suite: s.Name, About: s.About, Arm: o.Arm, Profile: o.Profile, Build: from.Build, Command: from.Command, Began: from.Began, Machine: from.Machine,
		Seeds: slices.Clone(o.Seeds), Sweep: Sweep(s.Sweep), SuiteFile: string(s.Source()), ProfileFile: from.ProfileFile,
	}
	for _, p := range s.Pictures {
		r.Pictures = append(r.Pictures, Drawing(p))
	}
	for _, p := range s.Published {
		r.Published = append(r.Published, Published{p.Series, p.Value, p.Metric, float64(p.Figure), p.Source})
	}
	for i := range o.Curves {
		c := &o.Curves[i]
		cell, err := s.Cell(&s.Series[i], s.Sweep.Values[0])
		series := Series{Reads: err == nil && len(cell.Scenario.Topology.Groups) > 0, Name: c.Name, System: c.System, Guarantee: c.Guarantee, Points: []Point{}}
		if u, err := url.Parse(c.System); err == nil && u.Host != "" { // a system elsewhere is an address, which may have a password
			series.System = u.Redacted()
		}
		for k := range c.Points {
			p := Point{Value: c.Points[k].Value}
			for n, result := range c.Points[k].Runs {
				p.Repetitions = append(p.Repetitions, newRepetition(o.Seeds[n], result))
			}
			series.Points = append(series.Points, p)
		}
		r.Series = append(r.Series, series)
	}
	return r
}

func newRepetition(seed uint64, r *bench.Result) Repetition {
	out := Repetition{Seed: seed, Seconds: r.Window.Seconds(), Speed: r.Speed, Figures: map[string]float64{}}
	for _, m := range bench.Metrics {
		if v, ok := r.Metric(m.Name); ok {
			out.Figures[m.Name] = v
		}
	}
	if len(r.TimeLine) > 1 {
		out.Step = (r.TimeLine[1].At - r.TimeLine[0].At).Seconds()
		for _, s := range r.TimeLine {
			p50, p99 := int64(0), int64(0)
			if s.Latency.TotalCount() > 0 {
				p50, p99 = s.Latency.ValueAtQuantile(50), s.Latency.ValueAtQuantile(99)
			}
			out.Sent, out.Received = append(out.Sent, float64(s.Sent)/out.Step), append(out.Received, float64(s.Received)/out.Step)
			out.P50, out.P99 = append(out.P50, p50), append(out.P99, p99)
		}
	}
	for _, u := range r.Usage {
		out.Usage = append(out.Usage, Usage(u))
	}
	for _, b := range r.Bands {
		f := Fault{Name: b.Name, From: b.From.Seconds(), To: b.To.Seconds()}
		if took, ok := r.Recovery(b, bench.RecoveredShare); ok {
			seconds := took.Seconds()
			f.Recovered = &seconds
		}
		out.Faults = append(out.Faults, f)
	}
	return out
}

// series finds one by its name.
func (r *Run) series(name string) *Series {
	for i := range r.Series {
		if r.Series[i].Name == name {
			return &r.Series[i]
		}
	}
	return nil
}

// point finds one by its value; nil on a nil series, too.
func (s *Series) point(value string) *Point {
	if s == nil {
		return nil
	}
	for i := range s.Points {
		if s.Points[i].Value == value {
			return &s.Points[i]
		}
	}
	return nil
}

// values are what the repetitions measured; nil when one of them did not measure it, or on a nil point.
func (p *Point) values(metric string) []float64 {
	if p == nil {
		return nil
	}
	var all []float64
	for _, r := range p.Repetitions {
		v, ok := r.Figures[metric]
		if !ok {
			return nil
		}
		all = append(all, v)
	}
	return all
}

// figure is the median and the spread of the repetitions; false: it was not measured.
func (p *Point) figure(metric string) (bench.Figure, bool) {
	all := p.values(metric)
	if len(all) == 0 {
		return bench.Figure{}, false
	}
	return bench.FigureOf(all), true
}

// speed is how fast the processor was, by the median and the spread of the repetitions; false: it is unknown.
func (p *Point) speed() (bench.Figure, bool) {
	var all []float64
	for _, r := range p.Repetitions {
		if r.Speed > 0 {
			all = append(all, r.Speed)
		}
	}
	if len(all) == 0 {
		return bench.Figure{}, false
	}
	return bench.FigureOf(all), true
}

// Speed is how fast the processor was in all runs, as a share of what the profile of the prediction says; false: it is unknown.
func (r *Run) Speed() (bench.Figure, bool) {
	all := Point{}
	for i := range r.Series {
		for _, p := range r.Series[i].Points {
			all.Repetitions = append(all.Repetitions, p.Repetitions...)
		}
	}
	return all.speed()
}

// measured lists the metrics that some point has, without those that are zero everywhere.
func (r *Run) measured() []string {
	var names []string
	for _, m := range bench.Metrics {
		if slices.ContainsFunc(r.Series, func(s Series) bool {
			return slices.ContainsFunc(s.Points, func(p Point) bool {
				f, ok := p.figure(m.Name)
				return ok && f.High > 0
			})
		}) {
			names = append(names, m.Name)
		}
	}
	return names
}

// Unit is that of a metric.
func Unit(metric string) string {
	for _, m := range bench.Metrics {
		if m.Name == metric {
			return m.Unit
		}
	}
	return ""
}
