package replica_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/broker/replica"
	"faultline/sim/machine/script"
)

// TestReplicas runs the scripts of testdata. Each line of a "do" is one step, and prints what came of it. "new" begins with nothing.
//
// A leader and what its followers ask for; "of" are the replicas, members are written ID or ID@EPOCH of the broker (1, when it is left out):
//
//	lead 1 of 1,2,3 epoch=5 isr=1,2 elr=3 least=2 end=10 hw=8
//	append 12                 its log ends there now
//	fetch 2 10                broker 2 asks for offset 10; fetch 2@3 10: with a later registration
//	wait 3s
//	registered 2@3,3          with what the brokers are registered now, as far as it knows; without this, with what they fetch
//	knocks 2 10s              whether broker 2 may join the in-sync replicas, with that lag allowed
//	propose 10s since=1s      what it asks the registry for, with that lag allowed; nobody joins that has not fetched within the last second (for ever, when it is left out)
//	confirmed | refused       what the registry says to it
//	registry isr=1 elr=2      what the registry has by somebody else's doing
//	replicas 1,2,4
//	deadline 10s
//	leads 1 since=2 isr=1@1   whether a state makes a broker the leader whose logs lost nothing since a registration
//
// Logs, by what they know of leader epochs; no bytes:
//
//	log A 0@0 2@10 end=30 [start=5]
//	A append 6 10             10 records in leader epoch 6
//	A retain 20 | A lose 25   it starts there, or ends there, now
//	A ends 2                  where the epoch ends
//	A follows B               until A is the same as B
func TestReplicas(t *testing.T) {
	script.Run(t, "testdata", newReplicas)
}

type replicas struct {
	leader   *replica.Leader
	proposed replica.State
	now      time.Duration
	live     []replica.Member // nil: all
	logs     map[string]*epochLog
	out      *strings.Builder
}

// epochLog is a log without records.
type epochLog struct {
	epochs     replica.Epochs
	start, end int64
}

func newReplicas(_ *testing.T, _ *datadriven.TestData, out *strings.Builder) script.Step {
	return (&replicas{logs: map[string]*epochLog{}, out: out}).step
}

func (s *replicas) registered(m replica.Member) bool {
	return s.live == nil || slices.Contains(s.live, m)
}

func (s *replicas) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// args splits the words of a step into those with "=" and the others.
func args(words []string) (plain []string, named map[string]string) {
	named = map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			named[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	return plain, named
}

func number(t *testing.T, text string) int64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

func ids(t *testing.T, text string) []int32 {
	var out []int32
	for _, m := range members(t, text) {
		out = append(out, m.ID)
	}
	return out
}

func members(t *testing.T, text string) []replica.Member {
	var out []replica.Member
	for _, w := range strings.Split(text, ",") {
		if w == "" {
			continue
		}
		id, epoch, ok := strings.Cut(w, "@")
		m := replica.Member{ID: int32(number(t, id)), Epoch: 1}
		if ok {
			m.Epoch = number(t, epoch)
		}
		out = append(out, m)
	}
	return out
}

func show(list []replica.Member) string {
	if len(list) == 0 {
		return "nobody"
	}
	var out []string
	for _, m := range list {
		w := fmt.Sprint(m.ID)
		if m.Epoch != 1 {
			w += fmt.Sprintf("@%d", m.Epoch)
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

func (s *replicas) step(t *testing.T, words []string) {
	plain, named := args(words)
	if _, known := s.logs[plain[0]]; known || plain[0] == "log" {
		s.logStep(t, plain, named)
		return
	}
	l := s.leader
	switch plain[0] {
	case "lead":
		state := replica.State{Leader: int32(number(t, plain[1])), LeaderEpoch: int32(number(t, named["epoch"])), ISR: members(t, named["isr"]), ELR: members(t, named["elr"])}
		s.leader = replica.Lead(state.Leader, ids(t, plain[3]), state, int(number(t, named["least"])), number(t, named["end"]), number(t, named["hw"]), s.now)
		s.status("leads", false)
	case "append":
		s.status("appended", l.Appended(number(t, plain[1])))
	case "fetch":
		m := members(t, plain[1])[0]
		s.status("fetched", l.Fetched(m.ID, m.Epoch, number(t, plain[2]), s.now))
	case "registered":
		s.live = members(t, plain[1])
	case "wait":
		d := script.Duration(t, plain[1])
		s.now += d
	case "propose":
		d, since := script.Duration(t, plain[1]), time.Duration(0)
		if w := named["since"]; w != "" {
			since = s.now - script.Duration(t, w)
		}
		next, ok := l.Propose(d, since, s.now, s.registered)
		if !ok {
			s.say("asks for nothing")
			return
		}
		s.proposed = next
		s.say("asks for in sync %s, eligible %s", show(next.ISR), show(next.ELR))
	case "knocks":
		s.say("%v", l.Knocks(int32(number(t, plain[1])), script.Duration(t, plain[2]), s.now))
	case "confirmed":
		s.status("confirmed", l.Confirm(s.proposed))
	case "refused":
		l.Refused()
		s.status("refused", false)
	case "registry":
		state := l.State().Clone()
		state.ISR, state.ELR = members(t, named["isr"]), members(t, named["elr"])
		s.status("read", l.Confirm(state))
	case "replicas":
		l.Replicas(ids(t, plain[1]), s.now)
	case "deadline":
		d := script.Duration(t, plain[1])
		at, ok := l.Deadline(d)
		s.say("%v %v", at-s.now, ok)
	case "leads":
		state := replica.State{Leader: int32(number(t, plain[1])), ISR: members(t, named["isr"])}
		s.say("%v", state.Leads(state.Leader, number(t, named["since"])))
	default:
		t.Fatalf("unknown step %q", words)
	}
}

// status says how the leader stands.
func (s *replicas) status(what string, moved bool) {
	l := s.leader
	if moved {
		what += ", committed"
	}
	enough := ""
	if !l.Enough() {
		enough = ", too few for acks=all"
	}
	less := ""
	if !l.Settled() {
		less = ", less than may have been told"
	}
	s.say("%s: high watermark %d%s, in sync %s, eligible %s%s", what, l.HW(), less, show(l.State().ISR), show(l.State().ELR), enough)
}

func (s *replicas) logStep(t *testing.T, plain []string, named map[string]string) {
	if plain[0] == "log" {
		var entries []replica.Entry
		for _, w := range plain[2:] {
			epoch, start, _ := strings.Cut(w, "@")
			entries = append(entries, replica.Entry{Epoch: int32(number(t, epoch)), Start: number(t, start)})
		}
		e, err := replica.NewEpochs(entries)
		if err != nil {
			s.say("%v", err)
			return
		}
		s.logs[plain[1]] = &epochLog{e, number(t, named["start"]), number(t, named["end"])}
		return
	}
	l := s.logs[plain[0]]
	switch plain[1] {
	case "append":
		l.epochs.Begin(int32(number(t, plain[2])), l.end)
		l.end += number(t, plain[3])
	case "retain":
		l.start = number(t, plain[2])
		l.epochs.TruncateStart(l.start)
	case "lose":
		l.end = number(t, plain[2])
		l.epochs.TruncateEnd(l.end)
	case "ends":
		epoch, end := l.epochs.End(int32(number(t, plain[2])), l.end)
		s.say("epoch %d ends at %d", epoch, end)
		return
	case "follows":
		s.follow(t, l, s.logs[plain[2]])
	default:
		t.Fatalf("unknown step %q", plain)
	}
	s.say("%s", l)
}

func (l *epochLog) String() string {
	out := fmt.Sprintf("%d to %d", l.start, l.end)
	for _, e := range l.epochs.Entries() {
		out += fmt.Sprintf(", epoch %d from %d", e.Epoch, e.Start)
	}
	return out
}

// last is the epoch of the last record.
func (l *epochLog) last() int32 {
	if l.start == l.end {
		return -1
	}
	return l.epochs.Latest()
}

// follow is what a follower does with the answers of its leader.
func (s *replicas) follow(t *testing.T, f, l *epochLog) {
	for range 20 {
		d, parts := l.epochs.Diverges(f.end, f.last(), l.start, l.end)
		if !parts && f.end > l.end {
			d, parts = replica.Divergence{Epoch: f.last(), End: l.end}, true
		}
		switch {
		case f.end < l.start:
			s.say("asks for %d: too old, begins anew at %d", f.end, l.start)
			*f = epochLog{start: l.start, end: l.start}
			continue
		case !parts:
			s.say("asks for %d after epoch %d: gets %d to %d", f.end, f.last(), f.end, l.end)
			for _, e := range l.epochs.Entries() {
				if e.Start >= f.end || e.Epoch == l.epochs.At(f.end) {
					f.epochs.Begin(e.Epoch, max(e.Start, f.end))
				}
			}
			f.end = l.end
			return
		}
		to, anew := f.epochs.Cut(d, l.start, f.start, f.end)
		if anew {
			s.say("asks for %d after epoch %d: epoch %d ends at %d, begins anew at %d", f.end, f.last(), d.Epoch, d.End, to)
			*f = epochLog{start: to, end: to}
			continue
		}
		require.False(t, to == f.end, "no step forward: %v is told %v by %v", f, d, l)
		s.say("asks for %d after epoch %d: epoch %d ends at %d, cuts at %d", f.end, f.last(), d.Epoch, d.End, to)
		f.end = to
		f.epochs.TruncateEnd(to)
	}
	require.Fail(t, "never the same", "%v and %v", f, l)
}
