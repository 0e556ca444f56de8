package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/reports"
	"faultline/scenarios"
	"faultline/workloads/trial"
)

// Every scenario that ships has the same hash for the same seed in different processes, on one processor and on two, and under the race detector,
// and different hashes for different seeds. When it has not, the test names the first event that differs, if two runs in one process show one.
func TestEveryScenarioIsDeterministic(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program twice")
	}
	dir := t.TempDir()
	plain, race := filepath.Join(dir, "plain"), filepath.Join(dir, "race")
	build(t, plain)
	build(t, race, "-race")
	want := hashes(t, plain, 1, "1..4")
	require.Len(t, want, 4*len(scenarios.Names()))
	seen := map[string]string{}
	for run, hash := range want {
		require.NotContains(t, seen, hash, "%s has the hash of %s", run, seen[hash])
		seen[hash] = run
	}
	compare := func(what string, got map[string]string) {
		for run, hash := range got {
			if want[run] != hash {
				t.Errorf("%s: %s: hash %s, want %s%s", what, run, hash, want[run], firstDifference(run))
			}
		}
	}
	compare("on two processors", hashes(t, plain, 2, "1..4"))
	compare("under the race detector", hashes(t, race, 2, "1"))
}

func build(t *testing.T, binary string, flags ...string) {
	t.Helper()
	out, err := exec.Command("go", append(append([]string{"build"}, flags...), "-o", binary, ".")...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// hashes runs all scenarios and returns their hashes by "scenario seed".
func hashes(t *testing.T, binary string, processors int, seeds string) map[string]string {
	t.Helper()
	cmd := exec.Command(binary, "run", "--seeds", seeds, "--json", "--self-check", "0")
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", processors))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.Bytes())
	got := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l reports.Line
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l))
		if l.Scenario != "" {
			got[fmt.Sprint(l.Scenario, " ", l.Seed)] = l.Hash
		}
	}
	return got
}

func firstDifference(run string) string {
	var name string
	var seed uint64
	if _, err := fmt.Sscan(run, &name, &seed); err != nil {
		return ""
	}
	sc, err := scenarios.Load(name)
	if err != nil {
		return ""
	}
	if d := trial.Compare(sc, seed); d != nil {
		return "\n" + d.String()
	}
	return "\ntwo runs in this process agree"
}
