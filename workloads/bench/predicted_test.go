package bench

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// predictions are the rows of docs/profiles.md that put a prediction beside a published figure: label, series, value, metric.
var predictions = map[string][][4]string{
	"paper-producer": {
		{"producer, batches of 1", "log, no acknowledgement", "1", "sent"},
		{"producer, batches of 50", "log, no acknowledgement", "50", "sent"},
	},
	"paper-consumer": {{"consumer", "log", "200B", "received"}},
	"linkedin-2014": {
		{"one producer, no replication", "one producer, no replication", "100B", "sent"},
		{"one producer, asynchronous replication", "one producer, asynchronous replication", "100B", "sent"},
		{"one producer, synchronous replication", "one producer, synchronous replication", "100B", "sent"},
		{"three producers, asynchronous replication", "three producers, asynchronous replication", "100B", "sent"},
		{"one consumer", "one consumer", "100B", "received"},
		{"three consumers", "three consumers", "100B", "received"},
		{"producer and consumer, sent", "producer and consumer", "100B", "sent"},
		{"end-to-end latency, median", "latency, one message at a time", "100B", "latency-p50"},
		{"end-to-end latency, p99", "latency, one message at a time", "100B", "latency-p99"},
		{"end-to-end latency, p99.9", "latency, one message at a time", "100B", "latency-p99.9"},
	},
}

// TestPredictionsOfTheManual: what docs/profiles.md says that the model predicts is what it predicts, and the ratio beside it is the one to the published figure.
func TestPredictionsOfTheManual(t *testing.T) {
	const path = "../../docs/profiles.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	want := string(text)
	for name, rows := range predictions {
		s, err := LoadSuite(name)
		require.NoError(t, err)
		p, err := LoadProfile(s.Profile)
		require.NoError(t, err)
		figures := map[string]*Point{}
		for _, row := range rows {
			key := row[1] + "|" + row[2]
			if figures[key] == nil {
				figures[key] = simulated(t, s, p, row[1], row[2])
			}
			f, ok := figures[key].Figure(row[3])
			require.True(t, ok, row)
			line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row[0]) + ` \| ([0-9,]+)(/s| ms) \| .*$`)
			cells := line.FindStringSubmatch(want)
			require.NotNil(t, cells, "docs/profiles.md has no row %q", row[0])
			published, err := strconv.ParseFloat(strings.ReplaceAll(cells[1], ",", ""), 64)
			require.NoError(t, err)
			predicted := grouped(f.Median)
			if cells[2] == " ms" {
				f.Median /= 1000
				predicted = fmt.Sprintf("%.2f", f.Median)
			}
			digits := 2
			if f.Median >= 10*published {
				digits = 1
			}
			want = strings.Replace(want, cells[0], fmt.Sprintf("| %s | %s%s | %s%s | %.*f |", row[0], cells[1], cells[2], predicted, cells[2], digits, f.Median/published), 1)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "run: go test ./workloads/bench -update, and read what the page says of the rows that change")
}

// simulated is one point of a suite.
func simulated(t *testing.T, s *Suite, p *Profile, series, value string) *Point {
	for i := range s.Series {
		if s.Series[i].Name != series {
			continue
		}
		c, err := s.Cell(&s.Series[i], value)
		require.NoError(t, err)
		system, err := SystemOf(c)
		require.NoError(t, err)
		r, err := Simulate(c, system, p, 1, func() bool { return false })
		require.NoError(t, err)
		return &Point{Value: value, Runs: []*Result{r}}
	}
	t.Fatalf("suite %s has no series %q", s.Name, series)
	return nil
}

// grouped is a number of four digits that count, in groups of three.
func grouped(v float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(v))-3)
	digits := strconv.FormatInt(int64(math.Round(v/unit)*unit+0.5), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
