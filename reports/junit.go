package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"faultline/workloads/trial"
)

// JUnit collects results as JUnit XML: a suite a scenario, a test case a seed. An inconclusive run is an error there, not a pass.
type JUnit struct {
	suites junit.Testsuites
	index  map[string]int
	now    []junit.Testsuite
}

// Add counts a result; reproduce is the command that runs it again.
func (j *JUnit) Add(r *trial.Result, reproduce string) {
	if j.index == nil {
		j.index = map[string]int{}
	}
	i, ok := j.index[r.Scenario]
	if !ok {
		i = len(j.now)
		j.index[r.Scenario] = i
		j.now = append(j.now, junit.Testsuite{Name: r.Scenario, ID: i})
	}
	c := junit.Testcase{Name: fmt.Sprintf("seed %d", r.Seed), Classname: r.Scenario, Time: fmt.Sprintf("%.3f", r.Wall.Seconds())}
	switch r.Verdict {
	case trial.Fail:
		c.Failure = &junit.Result{Message: r.Violations[0].String(), Type: r.Violations[0].Invariant, Data: details(r, reproduce)}
	case trial.Inconclusive:
		c.Error = &junit.Result{Message: "inconclusive", Type: "inconclusive", Data: details(r, reproduce)}
	}
	j.now[i].AddTestcase(c)
}

func details(r *trial.Result, reproduce string) string {
	var b strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintln(&b, v)
	}
	for _, u := range r.Unjudged {
		fmt.Fprintln(&b, "not judged:", u)
	}
	fmt.Fprintln(&b, "reproduce with:", reproduce)
	return b.String()
}

// Write writes the document.
func (j *JUnit) Write(w io.Writer) error {
	j.suites = junit.Testsuites{Name: "faultline"}
	for _, s := range j.now {
		j.suites.AddSuite(s)
	}
	return j.suites.WriteXML(w)
}
