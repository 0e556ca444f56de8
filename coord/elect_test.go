package coord

import (
	"bytes"
	crand "crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// TestElector tells the elector what happens and when, in milliseconds, and shows what it says. Its least patience is 200 ms, and chance is as the script
// gives it.
func TestElector(t *testing.T) {
	datadriven.RunTest(t, "testdata/elector", func(t *testing.T, d *datadriven.TestData) string {
		var out bytes.Buffer
		chance := int64(0)
		e := newElector(200*time.Millisecond, func(n int64) int64 { return min(chance*int64(time.Millisecond), n-1) }, 0)
		for line := range bytes.Lines([]byte(d.Input)) {
			var what string
			var ms int64
			n, err := fmt.Sscan(string(line), &what, &ms)
			require.Equal(t, 2, n, "%s: %v", line, err)
			now := time.Duration(ms) * time.Millisecond
			switch what {
			case "chance":
				chance = ms
				continue
			case "heard":
				e.Heard(now)
			case "voted":
				e.Voted(now)
			case "leads":
				e.Leads(true, now)
			case "follows":
				e.Leads(false, now)
			case "due":
				campaign, check := e.Due(now)
				fmt.Fprintf(&out, "%dms: campaign=%t check=%t, again at %v, ", ms, campaign, check, e.Next())
				fmt.Fprintf(&out, "votes=%t\n", !e.Leased(now))
			default:
				t.Fatalf("unknown word %q", what)
			}
		}
		return out.String()
	})
}

// trio is three servers' consensus state, whose messages arrive at once.
type trio [3]struct {
	*raft.RawNode
	log *raftLog
}

func newTrio(t *testing.T) (x trio) {
	for i := range x {
		log := &raftLog{voters: []uint64{1, 2, 3}}
		n, err := newNode(uint64(i+1), log, 0)
		require.NoError(t, err)
		x[i].RawNode, x[i].log = n, log
	}
	return x
}

func (x trio) settle(t *testing.T) {
	for busy := true; busy; {
		busy = false
		for _, n := range x {
			for n.HasReady() {
				busy = true
				rd := n.Ready()
				for _, m := range rd.Messages {
					all := []*raftpb.Message{m}
					if m.GetType() == raftpb.MsgStorageAppend {
						require.NoError(t, n.log.append(m.GetEntries()))
					}
					if m.GetType() == raftpb.MsgStorageAppend || m.GetType() == raftpb.MsgStorageApply {
						all = m.GetResponses()
					}
					for _, m := range all {
						require.NoError(t, x[m.GetTo()-1].Step(m))
					}
				}
			}
		}
	}
}

func (x trio) leaders() (leaders int, term uint64) {
	for _, n := range x {
		s := n.BasicStatus()
		if s.RaftState == raft.StateLeader {
			leaders++
		}
		term = max(term, s.GetTerm())
	}
	return leaders, term
}

// The library never starts an election by itself: not as it is used here, without ticks, and not even with more ticks than a run has nanoseconds of heartbeats.
func TestNoElectionUnasked(t *testing.T) {
	x := newTrio(t)
	x.settle(t)
	for range 100_000 {
		for _, n := range x {
			n.Tick()
		}
	}
	x.settle(t)
	leaders, term := x.leaders()
	require.Zero(t, leaders)
	require.Zero(t, term)
	require.NoError(t, x[1].Campaign())
	x.settle(t)
	leaders, term = x.leaders()
	require.Equal(t, 1, leaders)
	require.EqualValues(t, 1, term)
	require.Equal(t, raft.StateLeader, x[1].BasicStatus().RaftState)
	// A leader that nobody answers steps down when it is asked to look, at the second time.
	require.NoError(t, x[1].Step(local(raftpb.MsgCheckQuorum)))
	require.NoError(t, x[1].Step(local(raftpb.MsgCheckQuorum)))
	leaders, _ = x.leaders()
	require.Zero(t, leaders)
}

// source is a source of bytes that are all the same.
type source byte

func (s source) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s)
	}
	return len(p), nil
}

// What the library draws decides nothing: with other draws the same calls lead to the same state.
func TestTheLibrarysDrawDecidesNothing(t *testing.T) {
	real := crand.Reader
	defer func() { crand.Reader = real }()
	var seen []string
	for _, s := range []source{0, 0x55, 0xfe} {
		crand.Reader = s
		x := newTrio(t)
		var story string
		for _, i := range []int{0, 2, 1, 0} {
			require.NoError(t, x[i].Campaign())
			x.settle(t)
			for _, n := range x {
				b := n.BasicStatus()
				story += fmt.Sprint(b.RaftState, b.Lead, b.GetTerm(), b.GetVote(), b.GetCommit(), "; ")
			}
		}
		seen = append(seen, story)
	}
	require.Equal(t, seen[0], seen[1])
	require.Equal(t, seen[0], seen[2])
}
