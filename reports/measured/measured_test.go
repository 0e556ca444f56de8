package measured

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"

	"faultline/reports/picture"
	"faultline/workloads/bench"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const suite = `
name: two-systems
about: Two systems, and what others found.
topology:
  producers: [{acks: 1}]
  groups: [{name: readers}]
load: {step: 50ms}
sweep: {setting: topology.producers.0.batch_records, label: batch size, unit: messages, values: [1, 50]}
series:
  - name: faultline
  - {name: queue <script>, system: queue}
pictures:
  - {y: sent, title: Producer throughput}
  - y: latency
  - {y: received, as: bars}
  - y: time-line
published:
  - {series: faultline, value: 1, figure: 50000, source: "A paper, figure 4"}
  - {series: others, value: 50, metric: received, figure: 22000, source: "A paper, figure 5"}
`

// outcome is as if the suite had been measured, times as fast as it goes.
func outcome(t *testing.T, arm string, times float64, seeds ...uint64) *bench.Outcome {
	s, err := bench.ParseSuite("two-systems.yaml", []byte(suite))
	require.NoError(t, err)
	o := &bench.Outcome{Suite: s, Profile: "nvme-2024", Arm: arm, Seeds: seeds}
	for i, series := range s.Series {
		c := bench.Curve{Name: series.Name, System: series.System, Guarantee: []string{"at least once", "at most once"}[i]}
		for k, v := range s.Sweep.Values {
			p := bench.Point{Value: v}
			for _, seed := range seeds {
				r := bench.NewMeter(0, 2*time.Second, 0).Result()
				r.Sent = int64(times * float64((100_000+1000*int(seed))*(1+8*k)/(1+i)))
				r.SentBytes, r.Received, r.ReceivedBytes = r.Sent*200, r.Sent, r.Sent*200
				require.NoError(t, r.Latency.RecordValues(1000*int64(1+k), 990))
				require.NoError(t, r.Latency.RecordValues(40_000, 10))
				for n := range 6 {
					step := bench.NewMeter(0, 1, 0).Result().Latency
					got := r.Received / 6
					if n == 2 {
						got = 0
					} else {
						require.NoError(t, step.RecordValue(2000))
					}
					r.TimeLine = append(r.TimeLine, bench.Step{At: time.Duration(n) * time.Second / 3, Sent: got, Received: got, Latency: step})
				}
				r.Bands = []bench.Band{{Name: "{fault: crash, target: broker-0}", From: time.Second * 2 / 3, To: time.Second}, {Name: "{fault: slow-disk}", From: 1900 * time.Millisecond, To: 2 * time.Second}}
				if arm == Simulated {
					r.Usage = []bench.Usage{{Role: "broker", Resource: "disk", Mean: 0.5, Peak: 0.99 - float64(k)/2, Machine: "broker-1"}, {Role: "producer", Resource: "task", Mean: 0.85, Peak: 0.85, Machine: "producer-1"}, {Role: "producer", Resource: "CPU", Mean: 0.1, Peak: 0.2, Machine: "producer-1"}}
				}
				p.Runs = append(p.Runs, r)
			}
			c.Points = append(c.Points, p)
		}
		o.Curves = append(o.Curves, c)
	}
	return o
}

func sample(t *testing.T, arm string, times float64, seeds ...uint64) *Run {
	from := Origin{Build: "v1.2.3 go1.26", Command: "faultline bench two-systems --seeds 1..3", ProfileFile: "name: nvme-2024\ncpu: {cores: 8} # a data sheet\n"}
	if arm == Real {
		from = Origin{Build: from.Build, Command: from.Command + " --real", Began: "2026-01-02T03:04:05Z", Machine: []string{"two cores", "Linux"}}
	}
	return New(outcome(t, arm, times, seeds...), from)
}

// The goldens are what a reader of files and pages gets; two runs of this test are two runs of a bench.
func TestFilesAreTheSameBytesAgain(t *testing.T) {
	dir := t.TempDir()
	names, err := SaveFiles(dir, sample(t, Simulated, 1, 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, strings.Fields(`two-systems.json two-systems.figures.csv two-systems.bench.txt two-systems.png two-systems.svg two-systems.csv
		two-systems-latency.png two-systems-latency.svg two-systems-latency.csv two-systems-received.png two-systems-received.svg two-systems-received.csv
		two-systems-time-line-1.png two-systems-time-line-1.svg two-systems-time-line-1.csv two-systems-time-line-50.png two-systems-time-line-50.svg two-systems-time-line-50.csv two-systems.html`), names)
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		if strings.HasSuffix(name, ".png") { // package picture watches them
			continue
		}
		golden := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(golden, got, 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s; run: go test ./reports/measured -update", name)
	}
	again, runs := t.TempDir(), loaded(t, dir)
	_, err = SaveFiles(again, runs...)
	require.NoError(t, err)
	for _, name := range names {
		one, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		two, err := os.ReadFile(filepath.Join(again, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(one, two), "%s made again from %s.json", name, "two-systems")
	}
}

func loaded(t *testing.T, paths ...string) []*Run {
	runs, err := Load(paths...)
	require.NoError(t, err)
	return runs
}

// save writes the document alone.
func save(t *testing.T, r *Run) string {
	dir := t.TempDir()
	var out bytes.Buffer
	require.NoError(t, r.Write(&out))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), out.Bytes(), 0o644))
	return dir
}

func TestShardsOfSeedsBecomeOneRun(t *testing.T) {
	whole := sample(t, Simulated, 1, 1, 2, 3)
	got := loaded(t, save(t, sample(t, Simulated, 1, 3)), save(t, sample(t, Simulated, 1, 1, 2)), save(t, sample(t, Simulated, 1, 2)))
	require.Equal(t, []*Run{whole}, got)
	_, err := Load(save(t, sample(t, Simulated, 1, 1)), save(t, sample(t, Simulated, 1.01, 1)))
	require.ErrorContains(t, err, "two outcomes")
	require.Len(t, loaded(t, save(t, sample(t, Real, 1, 1)), save(t, sample(t, Real, 1.01, 1))), 2, "two real measurements")
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.json")
	for data, want := range map[string]string{
		`{"kind": "other"}`: "no run of a bench",
		`[1]`:               "no run of a bench",
		`{"kind": "faultline bench", "format": 9, "build": "v9"}`: "found format 9, this program reads 1: read it with the build that wrote it, v9",
	} {
		require.NoError(t, os.WriteFile(file, []byte(data), 0o644))
		_, err := Load(file)
		require.ErrorContains(t, err, want)
		_, err = Load(dir)
		require.Error(t, err)
	}
	_, err := Load(filepath.Join(dir, "nosuch"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPageHoldsAllItNeedsAndRunsNoScript(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, Page(&page, sample(t, Simulated, 1, 1, 2), sample(t, Real, 1.1, 1, 2)))
	text := page.String()
	for _, bad := range []string{"<script", "http-equiv=\"refresh", "src=", "url(", "@import", "ZgotmplZ", "NaN", "Inf"} {
		require.NotContains(t, text, bad)
	}
	require.Equal(t, 1, strings.Count(text, "href="), "the empty icon")
	require.Contains(t, text, "queue &lt;script&gt;")
	require.Contains(t, text, "Prediction beside measurement")
	require.Contains(t, text, "median error 9.1 %, worst 9.1 %")
	require.Contains(t, text, "A paper, figure 5")
	require.Contains(t, text, "{fault: slow-disk}")
	require.Contains(t, text, "cpu: {cores: 8} # a data sheet")
	require.Contains(t, text, "queue &lt;script&gt; (at most once), measured")
}

func TestPredictionIsComparedFigureByFigure(t *testing.T) {
	all := Predicted(sample(t, Real, 1, 1), sample(t, Simulated, 0.9, 1, 2, 3))
	require.Len(t, all, 2*2*6, "sent, received, three latencies and the recovery")
	require.Equal(t, "faultline", all[0].Series)
	require.InDelta(t, 0.9*102/101-1, all[0].Error, 1e-4)
	median, worst, n := Errors(all, "latency-p99")
	require.Equal(t, []any{0.0, 0.0, 4}, []any{median, worst, n})
	_, _, n = Errors(all, "refused")
	require.Zero(t, n)
}

// How fast the processor was in the runs stands beside the prediction, which stays as it is; latencies are not scaled.
func TestPredictionAtTheProcessorsSpeed(t *testing.T) {
	real, sim := sample(t, Real, 1, 1, 2, 3), sample(t, Simulated, 1, 2)
	require.Empty(t, SpeedNote(real, sim), "nobody measured it")
	for i := range real.Series {
		for k := range real.Series[i].Points {
			for n, speed := range []float64{0.8, 0.5, 0.9} {
				real.Series[i].Points[k].Repetitions[n].Speed = speed
			}
		}
	}
	all := Predicted(real, sim)
	require.InDelta(t, 0, all[0].Error, 1e-9)
	require.Equal(t, 0.8, all[0].Speed)
	require.InDelta(t, 0.8*all[0].Other, all[0].Scaled, 1e-6)
	require.InDelta(t, -0.2, all[0].ScaledError, 1e-9)
	for _, b := range all {
		require.Equal(t, b.Metric == "sent" || b.Metric == "received", b.Speed > 0, b.Metric)
	}
	require.Contains(t, Summary(all), "median error 0.0 %, worst 0.0 % of 4 figures (the prediction times the processor's speed in the runs: median 20.0 %, worst 20.0 %)")
	require.Contains(t, SpeedNote(real, sim), "0.80 times as fast (0.50 to 0.90)")
	require.Contains(t, SpeedNote(real, sim), "WARNING")
	var page, csv bytes.Buffer
	require.NoError(t, Page(&page, real, sim))
	require.Contains(t, page.String(), "WARNING")
	s, err := bench.ParseSuite("two-systems.yaml", []byte(suite))
	require.NoError(t, err)
	require.NoError(t, WriteComparison(&csv, s, all))
	require.Contains(t, csv.String(), ",0.800,")
}

func TestPublishedFiguresStandBesideOurs(t *testing.T) {
	got := sample(t, Simulated, 1, 1).FromOthers()
	require.Len(t, got, 2)
	require.True(t, got[0].Known)
	require.InDelta(t, 50500.0/50000-1, got[0].Error, 1e-9)
	require.False(t, got[1].Known, "no series is named others")
}

func TestBenchmarkFormatIsReadByItsLibrary(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sample(t, Simulated, 1, 1, 2).WriteBenchmarks(&out))
	read := benchfmt.NewReader(&out, "x")
	lines := 0
	for read.Scan() {
		switch line := read.Result().(type) {
		case *benchfmt.Result:
			lines++
			require.Equal(t, "nvme-2024", line.GetConfig("profile"))
			sent, ok := line.Value("sent/s")
			require.True(t, ok)
			require.Positive(t, sent)
			_, ok = line.Value("p99-sec")
			require.True(t, ok)
		case *benchfmt.SyntaxError:
			t.Fatal(line)
		}
	}
	require.NoError(t, read.Err())
	require.Equal(t, 8, lines, "two series, two values, two seeds")
}

func TestEveryFigureIsInTheCSV(t *testing.T) {
	var out bytes.Buffer
	r := sample(t, Simulated, 1, 1, 2)
	require.NoError(t, r.WriteCSV(&out))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+2*2*2*len(r.measured()))
	require.Equal(t, strings.Fields("two-systems simulated nvme-2024 faultline faultline at_least_once 1 1 sent messages/s 50500"), strings.Fields(strings.ReplaceAll(strings.Join(rows[1], " "), "at least once", "at_least_once")))
}

func TestTableIsForPeople(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sample(t, Simulated, 1, 1, 2, 3).WriteTable(&out))
	first, _, _ := strings.Cut(out.String(), "\n")
	require.Equal(t, "series batch size (messages) messages sent (messages/s) bytes sent messages received (messages/s)", strings.Join(strings.Fields(first)[:12], " "))
	require.Contains(t, out.String(), "51k (50.5k … 51.5k)")
	require.NotContains(t, out.String(), "refused", "nothing was")
}

// A time line of several repetitions is their median; a fault that hits whom the seed draws is one band.
func TestTimeLineOfSeveralRepetitions(t *testing.T) {
	o := outcome(t, Simulated, 1, 1, 2, 3)
	runs := o.Curves[0].Points[0].Runs
	runs[1].Bands[0].Name = "{fault: crash, target: broker-2}"
	for i := range runs[2].TimeLine {
		runs[2].TimeLine[i].Received = 10 // never a dip
	}
	line := New(o, Origin{}).timeLine(Drawing{Y: "time-line"}, "1").(*picture.TimeLine)
	require.Len(t, line.Series, 2)
	s := line.Series[0]
	require.Len(t, s.Each, 3)
	require.Equal(t, s.Each[0][0].Rate, s.Steps[0].Rate, "between those of seeds 2 and 3")
	require.Zero(t, s.Steps[2].Rate)
	require.Zero(t, s.Steps[2].Latency)
	require.Contains(t, line.Note, "seeds 1 2 3: medians")
	require.Len(t, line.Bands, 2)
	require.Equal(t, "{fault: crash, target: broker-0} or {fault: crash, target: broker-2}", line.Bands[0].Name)
	require.Len(t, line.Bands[0].Recoveries, 2, "one for each series")
	require.InDelta(t, 1/3., line.Bands[0].Recoveries[0].Took, 1e-6)
	one := New(outcome(t, Simulated, 1, 7), Origin{}).timeLine(Drawing{Y: "time-line"}, "1").(*picture.TimeLine)
	require.Empty(t, one.Series[0].Each)
	require.Contains(t, one.Note, "seed 7, batch size 1")
}
