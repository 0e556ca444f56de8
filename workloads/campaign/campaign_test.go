package campaign_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/workloads/campaign"
	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

func small(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	sc, err := scenario.Parse(name+".yaml", []byte("name: "+name+"\nworkload: {rate: 50/s, duration: 1s}\n"))
	require.NoError(t, err)
	return sc
}

func TestResultsComeInOrderWhateverTheWorkersDo(t *testing.T) {
	type run struct {
		scenario string
		seed     uint64
		hash     uint64
	}
	results := func(workers int) (out []run, sum *campaign.Summary) {
		c := &campaign.Campaign{
			Scenarios: []*scenario.Scenario{small(t, "a"), small(t, "b")}, Seeds: []uint64{3, 1, 2}, Workers: workers, SelfCheck: 2,
			Done: func(r *trial.Result) { out = append(out, run{r.Scenario, r.Seed, r.Hash}) },
		}
		sum = c.Run()
		return out, sum
	}
	one, sum := results(1)
	many, _ := results(4)
	require.Equal(t, one, many)
	require.Equal(t, "a", one[0].scenario)
	require.EqualValues(t, 3, one[0].seed)
	require.Equal(t, "b", one[1].scenario)
	require.EqualValues(t, 1, one[2].seed)
	require.NotEqual(t, one[0].hash, one[2].hash)
	require.True(t, sum.Clean())
	require.Equal(t, 6, sum.Passed)
	require.Equal(t, 4, sum.Checked)
}

func TestStopAndBudgetSkipWhatIsLeft(t *testing.T) {
	var stop atomic.Bool
	c := &campaign.Campaign{
		Scenarios: []*scenario.Scenario{small(t, "a")}, Seeds: []uint64{1, 2, 3, 4, 5, 6, 7, 8}, Workers: 1,
		Stop: stop.Load, Done: func(r *trial.Result) { stop.Store(r.Seed == 2) },
	}
	sum := c.Run()
	require.Equal(t, 2, sum.Trials)
	require.Equal(t, 6, sum.Skipped)

	c = &campaign.Campaign{Scenarios: c.Scenarios, Seeds: c.Seeds, Budget: time.Nanosecond, Done: func(*trial.Result) {}}
	require.Equal(t, 8, c.Run().Skipped)
}

// A scenario that cannot be kept fails, and FailFast ends the campaign there.
func TestFailFastStopsAtTheFirstFailure(t *testing.T) {
	sc := small(t, "a")
	bad, err := scenario.Parse("bad.yaml", []byte("name: bad\nworkload: {rate: 50/s, duration: 1s}\npromise: {requests: 1/s}\n"))
	require.NoError(t, err)
	var verdicts []string
	c := &campaign.Campaign{
		Scenarios: []*scenario.Scenario{sc, bad}, Seeds: []uint64{1, 2}, Workers: 1, FailFast: true,
		Done: func(r *trial.Result) { verdicts = append(verdicts, r.Scenario+" "+r.Verdict) },
	}
	sum := c.Run()
	require.Equal(t, []string{"a pass", "bad fail"}, verdicts)
	require.Equal(t, 1, sum.Failed)
	require.Equal(t, 2, sum.Skipped)
	require.False(t, sum.Clean())
}
