package trial_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/workloads/scenario"
	"faultline/workloads/trial"
)

func TestQuietScenarioPasses(t *testing.T) {
	sc := scenario.New("quiet")
	for seed := range uint64(3) {
		res := trial.Run(sc, seed, trial.Options{})
		t.Logf("%+v", res.Violations)
		t.Log(res.Verdict, res.Virtual, res.Wall, res.Events, res.Produced, res.Delivered, res.Duplicates, res.Unjudged, res.Err)
		require.NoError(t, res.Err)
		require.Equal(t, trial.Pass, res.Verdict)
		again := trial.Run(sc, seed, trial.Options{})
		require.Equal(t, res.Hash, again.Hash)
	}
}
