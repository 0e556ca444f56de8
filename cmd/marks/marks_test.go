package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/faults/sites"
	"faultline/sim/virtual"
	"faultline/workloads/trial"
)

func TestGapsNeedReasonsAndOnlyGapsHaveThem(t *testing.T) {
	tally := newTally([]sites.Site{
		{Name: "fault/a/reached", At: "a.go:1"}, {Name: "fault/a/struck", At: "a.go:2"}, {Name: "fault/a/struck", At: "b.go:7"},
		{Name: "fault/a/unreached", At: "a.go:3"}, {Name: "mark/a/false", At: "a.go:4"}, {Name: "mark/a/true", At: "a.go:5"},
	})
	world := virtual.Passages{"fault/a/reached": {Passed: 3}, "fault/a/struck": {Passed: 2, Fired: 1}, "mark/a/true": {Passed: 4}, "fault/else/where": {Passed: 1}}
	tally.add(&trial.Result{Verdict: trial.Pass, Passages: world})
	tally.add(&trial.Result{Verdict: trial.Pass, Passages: virtual.Passages{"fault/a/struck": {Passed: 5}}})

	r := tally.report(map[string]string{"fault/a/reached": "r", "fault/a/unreached": "r", "mark/a/false": "r"})
	require.True(t, r.Clean, r.Wrong)
	require.Equal(t, &place{Place: "fault/a/struck", At: []string{"a.go:2", "b.go:7"}, Passed: 7, Fired: 1, Worlds: 2, WorldsFired: 1}, r.Places[1])
	require.Equal(t, []int{3, 2, 1, 2, 1}, []int{r.Failpoints, r.Reached, r.Struck, r.Marks, r.True})
	var text bytes.Buffer
	require.NoError(t, r.print(&text, true))
	require.Equal(t, `place              worlds  passed  fired  worlds fired
fault/a/reached    1       3       0      0
fault/a/struck     2       7       1      1
fault/a/unreached  0       0       0      0
mark/a/false       0       0              
mark/a/true        1       4              

fault/a/unreached  never reached  a.go:3  r
fault/a/reached    never struck   a.go:1  r
mark/a/false       never true     a.go:4  r
2 worlds, 0 did not pass; of 3 failpoints 2 were reached and 1 struck; of 2 marks 1 were true
`, text.String())

	require.False(t, tally.report(nil).Clean, "gaps without a reason")
	r = tally.report(map[string]string{"fault/a/reached": "r", "fault/a/unreached": "r", "mark/a/false": "r", "mark/a/true": "r", "mark/b/gone": "r"})
	require.False(t, r.Clean)
	require.Equal(t, []string{
		"mark/a/true has a reason for a gap, but it was reached in 1 worlds: remove the reason",
		"mark/b/gone has a reason, but the sources have no such place",
	}, r.Wrong)

	tally.add(&trial.Result{Verdict: trial.Fail})
	require.False(t, tally.report(map[string]string{"fault/a/reached": "r", "fault/a/unreached": "r", "mark/a/false": "r"}).Clean, "a world failed")
}

func TestReasonsAreForPlacesThatExist(t *testing.T) {
	reasons, err := loadReasons()
	require.NoError(t, err)
	list, err := sites.Scan("../..")
	require.NoError(t, err)
	names := sites.Names(list)
	for place := range reasons {
		require.Contains(t, names, place)
	}
	_, err = parseReasons([]byte("mark/a/b: ''\n"))
	require.EqualError(t, err, "reasons.yaml: mark/a/b has no reason")
	_, err = parseReasons([]byte("- mark/a/b\n"))
	require.Error(t, err)
}

// The counts do not disturb: a trial that is counted is the trial that is not.
func TestAFewSeeds(t *testing.T) {
	var out, progress bytes.Buffer
	_, err := run(options{swarm: 1, workers: 1}, &out, &progress)
	require.NoError(t, err)
	require.Contains(t, out.String(), "1 worlds, ")
	require.Empty(t, progress.String())
}
