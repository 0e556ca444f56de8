package measured

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"
)

// WriteBenchmarks writes the figures in the Go benchmark format, a line a repetition, so that benchstat compares two runs. Latencies are in nanoseconds, which it shows in seconds.
func (r *Run) WriteBenchmarks(w io.Writer) error {
	out := benchfmt.NewWriter(w)
	metrics := r.measured()
	for _, m := range metrics {
		u, _ := benchmarkUnit(m)
		better := "lower"
		if higherIsBetter(m) {
			better = "higher"
		}
		meta := &benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: u, Key: "better"}, OrigUnit: u, Value: better}
		if err := out.Write(meta); err != nil {
			return err
		}
	}
	config := []benchfmt.Config{{Key: "suite", Value: []byte(r.Suite), File: true}, {Key: "arm", Value: []byte(r.Arm), File: true}, {Key: "profile", Value: []byte(r.Profile), File: true}, {Key: "build", Value: []byte(r.Build), File: true}}
	for i := range r.Series {
		s := &r.Series[i]
		for k := range s.Points {
			name := camel(r.Suite) + "/series=" + word(s.Name) + "/" + word(r.Sweep.Label) + "=" + word(s.Points[k].Value)
			for _, rep := range s.Points[k].Repetitions {
				line := &benchfmt.Result{Config: config, Name: benchfmt.Name(name), Iters: max(1, int(rep.Figures["sent"]*rep.Seconds), int(rep.Figures["received"]*rep.Seconds))}
				for _, m := range metrics {
					if v, ok := rep.Figures[m]; ok {
						u, times := benchmarkUnit(m)
						line.Values = append(line.Values, benchfmt.Value{Value: v * times, Unit: u})
					}
				}
				if err := out.Write(line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// benchmarkUnit names a metric as benchstat likes it, and what its figures are to be multiplied with.
func benchmarkUnit(metric string) (string, float64) {
	switch Unit(metric) {
	case "us":
		return strings.TrimPrefix(metric, "latency-") + "-ns", 1000
	case "s":
		return metric + "-ns", 1e9
	case "messages":
		return metric, 1
	case "B/s":
		return strings.TrimSuffix(metric, "-bytes") + "-B/s", 1
	}
	return metric + "/s", 1
}

// higherIsBetter tells rates from times and losses.
func higherIsBetter(metric string) bool { return strings.HasSuffix(Unit(metric), "/s") }

// camel is a suite's name as a benchmark's: producer-batch becomes ProducerBatch.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// word is text without what parts a benchmark's name.
func word(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || r == '=' || r == '-' {
			return '_'
		}
		return r
	}, text)
}
