package controller_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/broker/controller"
	"faultline/broker/replica"
	"faultline/sim/machine/script"
)

// TestDecisions runs the scripts of testdata. Each line of a block is one step. "new" begins with a topic that has no partition; "least=2" are the in-sync replicas that it asks for,
// "unclean" allows such elections. In "do" the steps go on.
//
//	partition 0 of 1,2,3      its assignment
//	up 1,2                    they register: for the first time, or after they were down, expired or stopped
//	crash 1                   its process dies, and it loses what it had not flushed; its registration goes
//	restart 1                 the same, and it is back before anybody noticed
//	stop 1                    regularly; its registration goes
//	expire 1                  its session ends, though it lives
//	in sync 0 1,2             the leader changes the in-sync replicas
//	reassign 0 to 4,5,3
//	decide | prefer           what the controller wants, and it becomes so
func TestDecisions(t *testing.T) {
	script.Run(t, "testdata/scripts", func(t *testing.T, d *datadriven.TestData, out *strings.Builder) script.Step {
		s := &decisions{view: controller.View{Epoch: 1, Topics: []controller.Topic{{Name: "t", LeastISR: 1, Unclean: d.HasArg("unclean")}}}, known: map[int32]*life{}, out: out}
		d.MaybeScanArgs(t, "least", &s.view.Topics[0].LeastISR)
		return s.step
	})
}

// life is what was of a broker so far.
type life struct {
	epoch, since int64
	intact       bool // it lost nothing since it registered last
}

type decisions struct {
	view  controller.View
	known map[int32]*life
	out   *strings.Builder
}

func list(t *testing.T, text string) []int32 {
	var out []int32
	for _, w := range strings.Split(text, ",") {
		n, err := strconv.ParseInt(w, 10, 32)
		require.NoError(t, err)
		out = append(out, int32(n))
	}
	return out
}

func (s *decisions) step(t *testing.T, words []string) {
	topic := &s.view.Topics[0]
	part := func(word string) *controller.Partition { return &topic.Partitions[list(t, word)[0]] }
	switch words[0] {
	case "partition":
		topic.Partitions = append(topic.Partitions, controller.Partition{ID: list(t, words[1])[0], Replicas: list(t, words[3])})
	case "up":
		for _, id := range list(t, words[1]) {
			s.up(id)
		}
	case "crash", "restart", "stop", "expire":
		for _, id := range list(t, words[1]) {
			s.view.Brokers = slices.DeleteFunc(s.view.Brokers, func(b controller.Broker) bool { return b.ID == id })
			s.known[id].intact = words[0] == "stop" || words[0] == "expire"
			if words[0] == "restart" {
				s.up(id)
			}
		}
	case "in":
		p := part(words[2])
		var isr []replica.Member
		for _, id := range list(t, words[3]) {
			isr = append(isr, replica.Member{ID: id, Epoch: s.known[id].epoch})
		}
		p.State.Resize(isr, min(topic.LeastISR, len(p.Replicas)))
	case "reassign":
		p, to := part(words[1]), list(t, words[3])
		p.Leaving = slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(to, id) })
		p.Replicas = slices.Concat(to, p.Leaving)
		p.Moving = true
	case "decide":
		s.apply(s.view.Decide())
	case "prefer":
		s.apply(s.view.Prefer())
	default:
		t.Fatalf("unknown step %q", words)
	}
}

func (s *decisions) up(id int32) {
	l := s.known[id]
	if l == nil {
		l = &life{}
		s.known[id] = l
	}
	l.epoch++
	if !l.intact {
		l.since = l.epoch
	}
	l.intact = true
	s.view.Brokers = append(s.view.Brokers, controller.Broker{ID: id, Epoch: l.epoch, CleanSince: l.since})
	slices.SortFunc(s.view.Brokers, func(x, y controller.Broker) int { return int(x.ID - y.ID) })
}

func (s *decisions) apply(writes []controller.Write) {
	if len(writes) == 0 {
		fmt.Fprintln(s.out, "nothing")
	}
	for _, w := range writes {
		p := &s.view.Topics[0].Partitions[w.Partition]
		p.State = &w.State
		if w.Replicas != nil {
			p.Replicas, p.Leaving, p.Moving = w.Replicas, nil, false
		}
		leader := fmt.Sprint("led by ", w.State.Leader)
		if w.State.Leader == replica.NoLeader {
			leader = "led by nobody"
		}
		fmt.Fprintf(s.out, "%d: %s, in sync %s, eligible %s, epoch %d: %s", w.Partition, leader, names(w.State.ISR), names(w.State.ELR), w.State.LeaderEpoch, w.Why)
		if w.Replicas != nil {
			fmt.Fprintf(s.out, "; replicas %v", w.Replicas)
		}
		fmt.Fprintln(s.out)
	}
}

func names(members []replica.Member) string {
	if len(members) == 0 {
		return "nobody"
	}
	var out []string
	for _, m := range members {
		out = append(out, fmt.Sprintf("%d@%d", m.ID, m.Epoch))
	}
	return strings.Join(out, " ")
}
