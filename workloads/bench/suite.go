package bench

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"faultline/faults"
	"faultline/faults/quantity"
	"faultline/faults/strict"
	"faultline/workloads/scenario"
)

//go:embed suites/*.yaml
var suites embed.FS

// Suite is a sweep: one setting after another value of it, for each of several series. The files under suites/ ship; a user's file has the same form.
type Suite struct {
	// Name of the suite: lower-case letters, digits and dashes.
	Name string `yaml:"name" need:"true"`
	// What it shows, in a sentence or two.
	About string `yaml:"about"`
	// Hardware profile that it is meant for; the command line may say another.
	Profile string `yaml:"profile" default:"virtio-2026"`
	// The machines and how they are configured, as in a scenario.
	Topology scenario.Topology `yaml:"topology"`
	// The messages: their message_bytes and visitors, as in a scenario. Rate and duration come from the load.
	Workload scenario.Workload `yaml:"workload"`
	// What goes wrong, as in a scenario, counted from the start of the load. On a real machine nothing does.
	Faults faults.Plan `yaml:"faults"`
	// How hard the clients drive, and for how long.
	Load Load `yaml:"load"`
	// The baseline queue, where a series drives it.
	Queue QueueSettings `yaml:"queue"`
	// What is swept.
	Sweep Sweep `yaml:"sweep" need:"true"`
	// The curves: each is the sweep with other settings. Default: one, named after the system.
	Series []Series `yaml:"series"`
	// What is drawn. Default: messages sent per second.
	Pictures []Picture `yaml:"pictures"`
	// What others published, for comparison.
	Published []Published `yaml:"published"`

	source []byte
}

// Load says how the clients drive.
type Load struct {
	// Messages per second of all producers together, each sent at its moment whether the system keeps up or not; 0/s: as fast as the system takes them.
	Rate quantity.Rates `yaml:"rate" default:"0/s" min:"0/s" max:"100000000/s"`
	// Time before anything is counted.
	WarmUp quantity.Durations `yaml:"warm_up" default:"50ms" min:"0s" max:"1h"`
	// Time in which it is.
	Measure quantity.Durations `yaml:"measure" default:"150ms" min:"1ms" max:"24h"`
	// The same on a real machine, whose figures need longer to be believed.
	RealWarmUp quantity.Durations `yaml:"real_warm_up" default:"1s" min:"0s" max:"1h"`
	// See real_warm_up.
	RealMeasure quantity.Durations `yaml:"real_measure" default:"3s" min:"1ms" max:"24h"`
	// Width of one step of a time line; 0s: there is none.
	Step quantity.Durations `yaml:"step" default:"0s" min:"0s" max:"1h"`
	// Bytes that each partition keeps from before the load: consumers that start at the beginning read them.
	Retained quantity.Sizes `yaml:"retained" default:"0B" min:"0B"`
	// How many groups like each of the topology's there are.
	FanOut quantity.Counts `yaml:"fan_out" default:"1" min:"1" max:"64"`
	// Whether retained bytes are in the brokers' page caches.
	Cached quantity.Choice `yaml:"cached" default:"no" oneof:"no|yes"`
}

// Sweep is one setting and its values.
type Sweep struct {
	// Path of the setting in this file, like topology.producers.0.batch_records. Several with the same value: separated by spaces.
	Setting string `yaml:"setting" need:"true"`
	// What people call it, for the axis.
	Label string `yaml:"label"`
	// Unit of the values.
	Unit string `yaml:"unit"`
	// The values, as the file would have them.
	Values []string `yaml:"values" need:"true"`
	// Whether the axis is logarithmic.
	Scale string `yaml:"scale" default:"log" oneof:"log|linear"`
}

// Series is one curve.
type Series struct {
	// Name in the legend.
	Name string `yaml:"name" need:"true"`
	// Which system: faultline, or queue, the baseline.
	System string `yaml:"system" default:"faultline"`
	// Settings that it has otherwise, each PATH=VALUE.
	Set []string `yaml:"set"`
}

// Picture is one plot of the suite.
type Picture struct {
	// What is drawn upwards. latency: its median, p99 and p99.9. time-line: messages received and the latency of step after step, with the faults as bands.
	Y string `yaml:"y" default:"sent" oneof:"sent|sent-bytes|received|received-bytes|latency|latency-p50|latency-p90|latency-p99|latency-p99.9|latency-max|recovery|time-line"`
	// Title. Default: made of what is drawn.
	Title string `yaml:"title"`
	// How: a curve for each series, or a group of bars for each value.
	As string `yaml:"as" default:"curves" oneof:"curves|bars"`
	// Scale of what is drawn upwards. auto: logarithmic for latencies.
	Scale string `yaml:"scale" default:"auto" oneof:"auto|linear|log"`
}

// Published is a figure that somebody published.
type Published struct {
	// Series that it belongs to; with another name it is drawn by itself.
	Series string `yaml:"series" need:"true"`
	// Value of the sweep.
	Value string `yaml:"value" need:"true"`
	// What was measured.
	Metric string `yaml:"metric" default:"sent" oneof:"sent|sent-bytes|received|received-bytes|latency-p50|latency-p90|latency-p99|latency-p99.9|latency-max|recovery"`
	// The figure, in the unit of the metric: messages/s, B/s, us for latencies, s for the recovery.
	Figure Decimal `yaml:"figure" need:"true"`
	// Where it was published.
	Source string `yaml:"source" need:"true"`
}

// Decimal is a decimal number, which says at a wrong one what it found.
type Decimal float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Decimal) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || v < 0 {
		return fmt.Errorf("found %q, allowed is a number from 0, like 821557", text)
	}
	*d = Decimal(v)
	return nil
}

// Source is the suite's file.
func (s *Suite) Source() []byte { return s.source }

// Suites lists the suites that ship, sorted.
func Suites() []string { return shipped(suites, "suites") }

func shipped(files fs.FS, dir string) []string {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		panic(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// LoadSuite reads a suite that ships, or a user's file: a name with a slash or a dot in it.
func LoadSuite(name string) (*Suite, error) {
	if strings.ContainsAny(name, "./"+string(filepath.Separator)) {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("suite: %w", err)
		}
		return ParseSuite(name, data)
	}
	data, err := suites.ReadFile("suites/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no suite is named %q%s; these ship: %s. A file of your own is given by its path, like ./%s.yaml", name, quantity.DidYouMean(name, Suites()), strings.Join(Suites(), ", "), name)
	}
	return ParseSuite(name+".yaml", data)
}

// ParseSuite reads a suite and checks every cell of it.
func ParseSuite(file string, data []byte) (*Suite, error) {
	s := &Suite{}
	_, problems := strict.Decode(file, data, s)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	s.About = strings.Join(strings.Fields(s.About), " ")
	s.source = data
	if len(s.Series) == 0 {
		s.Series = []Series{{Name: "faultline", System: "faultline"}}
	}
	if len(s.Pictures) == 0 {
		s.Pictures = []Picture{{Y: "sent"}}
	}
	if s.Sweep.Label == "" {
		s.Sweep.Label = s.Sweep.Setting
	}
	var wrong []error
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s: %w", file, fmt.Errorf(format, args...)))
	}
	// What is found by its name or value later must be one thing.
	for i, v := range s.Sweep.Values {
		if slices.Contains(s.Sweep.Values[:i], v) {
			say("sweep.values: found %q a second time, allowed is once", v)
		}
	}
	for i := range s.Series {
		if name := s.Series[i].Name; slices.ContainsFunc(s.Series[:i], func(other Series) bool { return other.Name == name }) {
			say("series[%d].name: found %q a second time, allowed is once", i, name)
		} else if strings.TrimSpace(name) == "" {
			say("series[%d].name: found %q, allowed is a name for the legend", i, name)
		}
	}
	for _, path := range strings.Fields(s.Sweep.Setting) {
		if err := settable(path); err != nil {
			say("sweep.setting: %w", err)
		}
	}
	if strings.TrimSpace(s.Sweep.Setting) == "" {
		say("sweep.setting: found nothing, allowed is the path of a setting, like topology.brokers")
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	var cells []*Cell
	for i := range s.Series {
		for _, v := range s.Sweep.Values {
			c, err := s.Cell(&s.Series[i], v)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
				continue
			}
			cells = append(cells, c)
		}
	}
	if len(wrong) == 0 {
		for i, p := range s.Pictures {
			if err := p.drawable(cells); err != nil {
				say("pictures[%d]: %w", i, err)
			}
		}
	}
	for i, p := range s.Published {
		if !slices.Contains(s.Sweep.Values, p.Value) {
			wrong = append(wrong, fmt.Errorf("%s: published[%d].value: found %q, allowed is a value of the sweep: %s", file, i, p.Value, strings.Join(s.Sweep.Values, ", ")))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return s, nil
}

// settable says what is wrong with the path of a setting of a cell. What the suite itself is made of, such as its profile, is the same for all cells.
func settable(path string) error {
	roots := []string{"topology", "workload", "faults", "load", "queue"}
	root, _, _ := strings.Cut(path, ".")
	if !slices.Contains(roots, root) {
		return fmt.Errorf("found %q, allowed is a path that begins with one of %s, like topology.brokers%s", path, strings.Join(roots, ", "), quantity.DidYouMean(root, roots))
	}
	return nil
}

// drawable says what a picture lacks that no cell has: its figures would be missing everywhere.
func (p *Picture) drawable(cells []*Cell) error {
	some := func(has func(c *Cell) bool) bool { return slices.ContainsFunc(cells, has) }
	switch {
	case p.Y == "time-line" || p.Y == "recovery":
		if !some(func(c *Cell) bool { return c.Load.Step.V() > 0 && 2*c.Load.Step.V().D() <= c.Load.length() }) {
			return fmt.Errorf("%s: allowed is a suite with a load.step, of which two or more fit into warm_up and measure", p.Y)
		}
		if p.Y == "recovery" && !some(func(c *Cell) bool { return len(c.Scenario.Faults) > 0 }) {
			return fmt.Errorf("%s: allowed is a suite with faults", p.Y)
		}
	case !strings.HasPrefix(p.Y, "sent") && !some(func(c *Cell) bool { return len(c.Scenario.Topology.Groups) > 0 }):
		return fmt.Errorf("%s: allowed is a suite with topology.groups, which receive", p.Y)
	}
	return nil
}

// Cell is one value of one series: what is run, several times perhaps.
type Cell struct {
	Series *Series
	Value  string
	Load   Load
	Queue  QueueSettings
	// Scenario is the deployment; its workload lasts as long as the load, in virtual time.
	Scenario *scenario.Scenario

	suite *Suite
}

// Cell works out one value of one series.
func (s *Suite) Cell(series *Series, value string) (*Cell, error) {
	var set []string
	for _, path := range strings.Fields(s.Sweep.Setting) {
		set = append(set, path+"="+value)
	}
	where := fmt.Sprintf("series %q at %s %s", series.Name, s.Sweep.Label, value)
	for _, one := range series.Set {
		path, _, ok := strings.Cut(one, "=")
		if err := settable(strings.TrimSpace(path)); ok && err != nil {
			return nil, fmt.Errorf("%s: set: %w", where, err)
		}
	}
	data, err := override(s.source, append(slices.Clone(series.Set), set...))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	cell := &Suite{}
	doc, problems := strict.Decode(where, data, cell)
	for i := range problems {
		problems[i].Line = 0 // which is not the user's file's
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	for _, path := range []string{"workload.rate", "workload.duration", "workload.kind", "workload.input", "workload.tombstones", "workload.max_lag"} {
		if doc.Given(path) {
			return nil, fmt.Errorf("%s: %s: allowed is nothing in a suite, where load says how hard clients drive and for how long, and messages are page visits", where, path)
		}
	}
	if step := cell.Load.Step.V().D(); step > 0 && cell.Load.length()/step > mostSteps {
		return nil, fmt.Errorf("%s: load.step: found %v of %v, allowed is %v or more: a time line has %d steps at most", where, cell.Load.Step, cell.Load.length(), quantity.Duration(cell.Load.length()/mostSteps), mostSteps)
	}
	sc := scenario.New(s.Name)
	topology := cell.Topology
	if topology.Topics == nil {
		topology.Topics = sc.Topology.Topics
	}
	if topology.Producers == nil {
		topology.Producers = sc.Topology.Producers
	}
	topology.Groups = fanOut(topology.Groups, int(cell.Load.FanOut.V()))
	sc.Topology, sc.Workload, sc.Faults = topology, cell.Workload, cell.Faults
	sc.Workload.Duration = quantity.Just(quantity.Duration(cell.Load.length()))
	sc.Workload.Rate = quantity.Just(quantity.Rate(1)) // the load has its own
	if err := sc.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	for i := range sc.Topology.Topics {
		if t := &sc.Topology.Topics[i]; series.System == "queue" && t.Replicas.V() > 1 {
			return nil, fmt.Errorf("%s: found %v replicas of topic %s, allowed is 1: the queue does not replicate", where, t.Replicas.V(), t.Name)
		}
	}
	return &Cell{Series: series, Value: value, Load: cell.Load, Queue: cell.Queue, Scenario: sc, suite: s}, nil
}

// fanOut is the groups n times, each copy with a name of its own.
func fanOut(groups []scenario.Group, n int) []scenario.Group {
	var out []scenario.Group
	for i := range n {
		for _, g := range groups {
			if i > 0 {
				g.Name += fmt.Sprintf("-%d", i+1)
			}
			out = append(out, g)
		}
	}
	return out
}

// mostSteps bounds what a time line keeps: each step has a histogram.
const mostSteps = 10_000

func (l *Load) length() time.Duration { return l.WarmUp.V().D() + l.Measure.V().D() }
