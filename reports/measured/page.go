package measured

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"faultline/reports/picture"
	"faultline/workloads/bench"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page writes one HTML page of some runs. It holds all it needs: it loads nothing and runs no script. Runs of one suite stand together; a simulated one beside a real one is its prediction.
func Page(w io.Writer, runs ...*Run) error {
	p := page{}
	var names []string
	for _, r := range runs {
		if !slices.Contains(names, r.Suite) {
			names = append(names, r.Suite)
		}
	}
	for _, name := range names {
		var of []*Run
		for _, r := range runs {
			if r.Suite == name {
				of = append(of, r)
			}
		}
		s, err := newSection(of)
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, s)
	}
	p.Title = "faultline bench: " + strings.Join(names, ", ")
	return pageTemplate.Execute(w, p)
}

// page, section and the rest are what the template fills in.
type page struct {
	Title    string
	Sections []section
}

type section struct {
	Suite, About string
	Runs         []runView
}

type runView struct {
	Title      string
	Facts      []fact
	Pictures   []pictureView
	Figures    tableView
	Compared   []comparison
	Recoveries tableView
	Counted    bool // whether figures tell of resources
	Files      []file
}

type fact struct {
	Name string
	Text string
	Code bool
}

type pictureView struct {
	Wide, Narrow template.HTML // made by package picture, which escapes what comes from files
}

type tableView struct {
	Head []string
	Rows [][]cell
}

type cell struct {
	Text, Spread string
	Number       bool
}

type comparison struct {
	Title, Note string
	Table       tableView
}

type file struct{ Name, Text string }

func text(s string) cell { return cell{Text: s} }

func number(s string) cell { return cell{Text: s, Number: true} }

func newSection(runs []*Run) (section, error) {
	s := section{Suite: runs[0].Suite, About: runs[0].About}
	predicted := map[*Run]bool{}
	for _, r := range runs {
		if r.Arm == Real {
			predicted[prediction(runs, r)] = true
		}
	}
	for _, r := range runs {
		v := runView{Title: fmt.Sprintf("%s, profile %s", r.Arm, r.Profile), Facts: r.facts(), Figures: r.figures(), Recoveries: r.recoveries(), Counted: r.counted()}
		var beside *Run
		if r.Arm == Real {
			beside = prediction(runs, r)
		}
		if !predicted[r] { // it is in the pictures of the real one
			for _, d := range r.pictures(beside) {
				wide, err := picture.Inline(d.Picture, picture.Wide)
				if err != nil {
					return s, err
				}
				narrow, err := picture.Inline(d.Picture, picture.Narrow)
				if err != nil {
					return s, err
				}
				v.Pictures = append(v.Pictures, pictureView{template.HTML(wide), template.HTML(narrow)})
			}
		}
		if beside != nil {
			v.Compared = append(v.Compared, predictedTable(r, beside))
		}
		if len(r.Published) > 0 {
			v.Compared = append(v.Compared, r.publishedTable())
		}
		v.Files = append(v.Files, file{"Suite", r.SuiteFile})
		if r.ProfileFile != "" {
			v.Files = append(v.Files, file{"Hardware profile " + r.Profile + ", with the sources of its figures", r.ProfileFile})
		}
		s.Runs = append(s.Runs, v)
	}
	return s, nil
}

// facts say where the figures come from.
func (r *Run) facts() []fact {
	var systems []string
	for i := range r.Series {
		if g := r.Series[i].Guarantee; g != "" {
			if line := r.Series[i].System + ": " + g; !slices.Contains(systems, line) {
				systems = append(systems, line)
			}
		}
	}
	seeds := "seeds"
	if r.Arm == Real {
		seeds = "repetitions"
	}
	facts := []fact{
		{"arm", r.Arm, false}, {"profile", r.Profile, false}, {seeds, strings.Trim(fmt.Sprint(r.Seeds), "[]"), false},
		{"swept", strings.TrimSpace(fmt.Sprintf("%s (%s)", r.Sweep.Label, r.Sweep.Setting)), false},
		{"promise of an acknowledged message", strings.Join(systems, "; "), false}, {"began", r.Began, false}, {"machine", strings.Join(r.Machine, "; "), false},
		{"build", r.Build, true}, {"again", r.Command, true},
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Text == "" })
}

// Shown is a figure for people.
func Shown(metric string, v float64) string {
	u, times := scaled(metric)
	return picture.Short(v*times, u)
}

// headed is a metric at the head of a column: with its unit where the figures do not carry it.
func headed(metric string) string {
	switch u, _ := scaled(metric); u {
	case "s", "B/s", "messages":
		return called(metric)
	default:
		return fmt.Sprintf("%s (%s)", called(metric), u)
	}
}

func figureCell(metric string, f bench.Figure, ok bool) cell {
	if !ok {
		return cell{Text: "–", Number: true}
	}
	c := cell{Text: Shown(metric, f.Median), Number: true}
	if f.High > f.Low {
		c.Spread = Shown(metric, f.Low) + " … " + Shown(metric, f.High)
	}
	return c
}

func (r *Run) figures() tableView {
	metrics := r.measured()
	t := tableView{Head: []string{"series", r.Sweep.Label}}
	if u := r.sweepUnit(); u != "" {
		t.Head[1] += " (" + u + ")"
	}
	for _, m := range metrics {
		t.Head = append(t.Head, headed(m))
	}
	counted := r.counted()
	if counted {
		t.Head = append(t.Head, "busiest resources")
	}
	for i := range r.Series {
		for k := range r.Series[i].Points {
			p := &r.Series[i].Points[k]
			row := []cell{text(r.Series[i].Name), number(p.Value)}
			for _, m := range metrics {
				f, ok := p.figure(m)
				row = append(row, figureCell(m, f, ok))
			}
			if counted {
				row = append(row, p.busy())
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// WriteTable prints the figures for people, a line a point, with the spread of the repetitions where there is one.
func (r *Run) WriteTable(w io.Writer) error {
	t := r.figures()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, strings.Join(t.Head, "\t")+"\t")
	for _, row := range t.Rows {
		for _, c := range row {
			fmt.Fprint(tw, c.Text)
			if c.Spread != "" {
				fmt.Fprintf(tw, " (%s)", c.Spread)
			}
			fmt.Fprint(tw, "\t")
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range r.Series {
		for k := range r.Series[i].Points {
			p, nothing := &r.Series[i].Points[k], ""
			switch silent := p.silent("received"); {
			case silent && p.silent("sent"):
				nothing = "sent and received nothing"
			case silent && r.Series[i].Reads:
				nothing = "received nothing"
			default:
				continue
			}
			if _, err := fmt.Fprintf(w, "note: %s at %s %s in the measured time; a longer one (%s, of load), or less load, may tell more\n", r.Series[i].Name, p.Value, nothing, measureSetting(r.Arm)); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureSetting is the field of a suite's load that says how long an arm measures.
func measureSetting(arm string) string {
	if arm == Real {
		return "real_measure"
	}
	return "measure"
}

func percent(share float64) string { return fmt.Sprintf("%+.1f %%", share*100) }

func predictedTable(real, sim *Run) comparison {
	all := Predicted(real, sim)
	c := comparison{Title: "Prediction beside measurement", Table: tableView{Head: []string{"series", real.Sweep.Label, "figure", "predicted", "measured", "error"}}}
	speeds := timed(all)
	if speeds {
		c.Table.Head = append(c.Table.Head, "processor's speed", "predicted × speed", "error")
	}
	for _, b := range all {
		row := []cell{text(b.Series), number(b.Value), text(headed(b.Metric)), number(Shown(b.Metric, b.Other)), figureCell(b.Metric, b.Ours, true), number(percent(b.Error))}
		switch {
		case b.Speed > 0:
			row = append(row, number(fmt.Sprintf("%.2f", b.Speed)), number(Shown(b.Metric, b.Scaled)), number(percent(b.ScaledError)))
		case speeds:
			row = append(row, number("–"), number("–"), number("–"))
		}
		c.Table.Rows = append(c.Table.Rows, row)
	}
	c.Note = Summary(all) + ". Profile of the prediction: " + sim.Profile + "."
	if note := SpeedNote(real, sim); note != "" {
		c.Note += " " + note
	}
	return c
}

func (r *Run) publishedTable() comparison {
	c := comparison{Title: "Published figures beside these", Note: "What others measured on hardware like the profile's. The last column tells how far ours is from theirs.", Table: tableView{Head: []string{"series", r.Sweep.Label, "figure", "published", "ours", "difference", "source"}}}
	for _, b := range r.FromOthers() {
		off := number("–")
		if b.Known {
			off = number(percent(b.Error))
		}
		c.Table.Rows = append(c.Table.Rows, []cell{text(b.Series), number(b.Value), text(headed(b.Metric)), number(Shown(b.Metric, b.Other)), figureCell(b.Metric, b.Ours, b.Known), off, text(b.Source)})
	}
	return c
}

// recoveries lists the faults of time lines, and how long each series felt them.
func (r *Run) recoveries() tableView {
	t := tableView{Head: []string{"series", r.Sweep.Label, "seed", "fault", "from", "to", "rate back after"}}
	for i := range r.Series {
		for _, p := range r.Series[i].Points {
			for _, rep := range p.Repetitions {
				if rep.Step == 0 {
					continue
				}
				for _, f := range rep.Faults {
					took := "not while measured"
					if f.Recovered != nil {
						took = picture.Short(*f.Recovered, "s")
					}
					t.Rows = append(t.Rows, []cell{text(r.Series[i].Name), number(p.Value), number(fmt.Sprint(rep.Seed)), text(f.Name), number(picture.Short(f.From, "s")), number(picture.Short(f.To, "s")), number(took)})
				}
			}
		}
	}
	return t
}
