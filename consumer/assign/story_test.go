package assign_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"faultline/consumer/assign"
)

// TestAssign runs the scripts of testdata/assign. "topics a=3 b=2" sets the partition counts. "assign range" divides among the members of its input lines:
//
//	m1 [static=i1] a b [| generation: a0 a1]
//
// where what follows the bar are claims. "next cooperative-sticky" takes the members of its lines with what the last plan gave them, in a generation one higher.
func TestAssign(t *testing.T) {
	datadriven.Walk(t, "testdata/assign", func(t *testing.T, path string) {
		counts := map[string]int32{}
		var last assign.Plan
		generation := int32(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "topics" {
				for _, arg := range d.CmdArgs {
					n, err := strconv.Atoi(arg.Vals[0])
					if err != nil {
						d.Fatalf(t, "%v", err)
					}
					counts[arg.Key] = int32(n)
				}
				return ""
			}
			a, ok := assign.ByName(d.CmdArgs[0].Key)
			if !ok {
				d.Fatalf(t, "no assignor %s", d.CmdArgs[0].Key)
			}
			generation++
			var members []assign.Member
			for _, line := range strings.Split(d.Input, "\n") {
				m := member(d, t, line)
				if d.Cmd == "next" {
					m.Owned, m.Generation = last.Of(m.ID), generation
				}
				members = append(members, m)
			}
			last = a.Assign(members, counts)
			return print(last)
		})
	})
}

func member(d *datadriven.TestData, t *testing.T, line string) assign.Member {
	about, claims, _ := strings.Cut(line, "|")
	f := strings.Fields(about)
	m := assign.Member{ID: f[0], Generation: -1}
	for _, topic := range f[1:] {
		if i, ok := strings.CutPrefix(topic, "static="); ok {
			m.Instance = i
		} else {
			m.Topics = append(m.Topics, topic)
		}
	}
	if claims != "" {
		generation, owned, _ := strings.Cut(claims, ":")
		if _, err := fmt.Sscan(generation, &m.Generation); err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		for _, p := range strings.Fields(owned) {
			n, err := strconv.Atoi(p[1:])
			if err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
			m.Owned = append(m.Owned, assign.Partition{Topic: p[:1], Partition: int32(n)})
		}
	}
	return m
}
