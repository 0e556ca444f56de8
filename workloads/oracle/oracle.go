// Package oracle judges runs. An oracle observes the history of a run and says which of the promises that the run's
// [Promise] makes were broken. Each is one file, whose header says what it verifies and what it does not.
//
// Oracles work while the run goes on: they keep what is in flight and forget what is settled, so a run of any length needs
// the same memory. Events come in order and one at a time; an oracle belongs to one run.
package oracle

import (
	"fmt"
	"time"

	"faultline/workloads/history"
)

// Invariants, as known-faults.md and design section 7 name them.
const (
	Deliver  = "DELIVER" // at quiescence every acked record reached every group, unharmed
	Order    = "ORDER"   // per-producer order inside a partition; a claim hands over offset after offset
	Idemp    = "IDEMP"   // a record of an idempotent producer is in the log once
	DupB     = "DUPB"    // redelivery only of what was not committed
	Dirty    = "DIRTY"   // no consumer sees what is not visible yet
	Own1     = "OWN1"    // at most one active owner of each (group, partition)
	OwnAll   = "OWNALL"  // every available partition is owned within a bound of stability
	CommitP  = "C<=P"    // a committed offset is at most the first unprocessed offset
	CMono    = "CMONO"   // an acked commit never goes back or vanishes
	Gen      = "GEN"     // who is no longer owner changes nothing
	Session  = "SESS"    // an ephemeral znode exists iff its session lives; who lost the session does not act as owner
	Live     = "LIVE"    // bounded recovery after the heal; nothing is stuck
	Budget   = "BUDGET"  // caps on rebalances, requests and latency
	Recovery = "REC"     // a recovered log is a prefix of the old one, with everything fsynced
	Retain   = "RET"     // nothing is deleted before its policy says; an active segment exists
	Durable  = "DUR"     // a record acked with acks=all stays readable at its offset, within retention
	Match    = "MATCH"   // replicas agree below the high watermark; same offset and leader epoch means same bytes
	HighMark = "HW"      // the high watermark does not go back, and lies between log start and log end
)

// Violation is a broken promise.
type Violation struct {
	Invariant string        `json:"invariant"`
	Message   string        `json:"message"` // the smallest facts: ids, offsets, machines, times
	At        time.Duration `json:"at"`      // world time when it showed
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %v: %s", v.Invariant, v.At, v.Message)
}

// Oracle judges one kind of promise.
type Oracle interface {
	// Invariants lists the codes that it can report.
	Invariants() []string
	// Observe is shown every event of the run, in order.
	Observe(e *history.Event)
	// Finish is called once, after the last event: what is owed at the end is judged here.
	Finish(end End)
	// Violations are what was found so far. The first few of each invariant are told in full; what follows is counted.
	Violations() []Violation
}

// End says how the run came out.
type End struct {
	At time.Duration
	// Cut: the run was ended early (interrupt, time budget), so nothing that was owed by its end is judged.
	Cut bool
	// Trouble is empty for a run that went its course; else the world's verdict, "stuck", "livelock" or "panicked",
	// and Detail says which tasks, waiting for what.
	Trouble string
	Detail  string
	// Waits is what the run still waited for when the time promised for coming to rest was up. Empty: it came to rest.
	Waits string
}

// MaxTold is how many violations of one invariant an oracle tells in full.
const MaxTold = 10

// Findings collects violations. The zero value is ready; oracles embed it.
type Findings struct {
	told  []Violation
	n     map[string]int
	last  map[string]time.Duration
	freed func() bool // whether what Violate is told is no longer promised; nil: it is
}

// Free sets what says whether the oracle's promises no longer hold, see [Ruins]. What [Findings.Insist] is told holds all the same.
func (f *Findings) Free(freed func() bool) { f.freed = freed }

// Violate notes a violation of a promise that a ruin may free.
func (f *Findings) Violate(at time.Duration, invariant, format string, args ...any) {
	if f.freed == nil || !f.freed() {
		f.Insist(at, invariant, format, args...)
	}
}

// Insist notes a violation of a promise that holds whatever happens.
func (f *Findings) Insist(at time.Duration, invariant, format string, args ...any) {
	if f.n == nil {
		f.n = map[string]int{}
		f.last = map[string]time.Duration{}
	}
	f.n[invariant]++
	f.last[invariant] = at
	if f.n[invariant] <= MaxTold {
		f.told = append(f.told, Violation{Invariant: invariant, Message: fmt.Sprintf(format, args...), At: at})
	}
}

// Count is how many violations of the invariant were found.
func (f *Findings) Count(invariant string) int { return f.n[invariant] }

// Violations are the violations told in full, in order, then for each invariant with more of them one line that counts the rest.
func (f *Findings) Violations() []Violation {
	out := append([]Violation(nil), f.told...)
	seen := map[string]bool{}
	for _, v := range f.told {
		if n := f.n[v.Invariant]; n > MaxTold && !seen[v.Invariant] {
			seen[v.Invariant] = true
			out = append(out, Violation{v.Invariant, fmt.Sprintf("and %d more like these", n-MaxTold), f.last[v.Invariant]})
		}
	}
	return out
}
