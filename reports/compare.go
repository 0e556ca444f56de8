package reports

import (
	"encoding/csv"
	"io"
	"strconv"

	"faultline/reports/measured"
	"faultline/workloads/bench"
)

// WriteComparison writes predictions beside measurements as CSV: a row a figure. The error is the prediction's, as a share of what was measured.
func WriteComparison(w io.Writer, s *bench.Suite, all []measured.Beside) error {
	out := csv.NewWriter(w)
	out.Write([]string{"series", s.Sweep.Label, "metric", "unit", "predicted", "measured", "measured low", "measured high", "error"})
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	for i := range all {
		c := &all[i]
		out.Write([]string{c.Series, c.Value, c.Metric, measured.Unit(c.Metric), num(c.Other), num(c.Ours.Median), num(c.Ours.Low), num(c.Ours.High), num(c.Error)})
	}
	out.Flush()
	return out.Error()
}
