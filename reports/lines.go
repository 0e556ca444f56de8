// Package reports writes what runs came to: a table for people, JSON lines for programs, JUnit XML for CI, and pictures.
package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"faultline/workloads/campaign"
	"faultline/workloads/trial"
)

// Line is the JSON object of one run. Times are in seconds.
type Line struct {
	Scenario       string      `json:"scenario"`
	Seed           uint64      `json:"seed"`
	Verdict        string      `json:"verdict"` // pass, fail or inconclusive
	Hash           string      `json:"hash"`    // 16 hexadecimal digits
	Violations     []Violation `json:"violations"`
	Unjudged       []string    `json:"unjudged,omitempty"` // why it is inconclusive
	VirtualSeconds float64     `json:"virtual_seconds"`
	WallSeconds    float64     `json:"wall_seconds"`
	Events         uint64      `json:"events"`
	Produced       int64       `json:"produced"`
	Delivered      int64       `json:"delivered"`
	Duplicates     int64       `json:"duplicates"`
	Reproduce      string      `json:"reproduce,omitempty"` // the command that runs it again; with every verdict but pass
}

// Violation is a broken promise and when it showed, in seconds of virtual time.
type Violation struct {
	Invariant string  `json:"invariant"`
	Message   string  `json:"message"`
	At        float64 `json:"at"`
}

// SummaryLine is the JSON object that ends the output of a campaign.
type SummaryLine struct {
	Summary        bool    `json:"summary"` // true: tells it from a run
	Runs           int     `json:"runs"`
	Passed         int     `json:"passed"`
	Failed         int     `json:"failed"`
	Inconclusive   int     `json:"inconclusive"`
	Skipped        int     `json:"skipped"`
	SelfChecked    int     `json:"self_checked"`
	Interrupted    bool    `json:"interrupted"`
	VirtualSeconds float64 `json:"virtual_seconds"`
	WallSeconds    float64 `json:"wall_seconds"`
	Events         uint64  `json:"events"`
	Produced       int64   `json:"produced"`
	Delivered      int64   `json:"delivered"`
	Duplicates     int64   `json:"duplicates"`
}

// NewLine describes a result. reproduce is the command that runs it again.
func NewLine(r *trial.Result, reproduce string) Line {
	l := Line{
		Scenario: r.Scenario, Seed: r.Seed, Verdict: r.Verdict, Hash: fmt.Sprintf("%016x", r.Hash), Violations: []Violation{}, Unjudged: r.Unjudged,
		VirtualSeconds: r.Virtual.Seconds(), WallSeconds: rounded(r.Wall), Events: r.Events,
		Produced: r.Produced, Delivered: r.Delivered, Duplicates: r.Duplicates,
	}
	for _, v := range r.Violations {
		l.Violations = append(l.Violations, Violation{v.Invariant, v.Message, v.At.Seconds()})
	}
	if r.Verdict != trial.Pass {
		l.Reproduce = reproduce
	}
	return l
}

// NewSummary describes a campaign.
func NewSummary(s *campaign.Summary, interrupted bool) SummaryLine {
	return SummaryLine{
		Summary: true, Runs: s.Trials, Passed: s.Passed, Failed: s.Failed, Inconclusive: s.Inconclusive, Skipped: s.Skipped, SelfChecked: s.Checked,
		Interrupted: interrupted, VirtualSeconds: s.Virtual.Seconds(), WallSeconds: rounded(s.Wall), Events: s.Events,
		Produced: s.Produced, Delivered: s.Delivered, Duplicates: s.Duplicates,
	}
}

func rounded(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// WriteJSON writes one object and a line feed.
func WriteJSON(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}
