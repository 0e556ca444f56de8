package assign_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/consumer/assign"
)

type partition = assign.Partition

// draw makes a group: members that subscribe to some of the topics, with claims that may contradict each other, be old, or be of things that are gone.
type group struct {
	members []assign.Member
	counts  map[string]int32
}

func draw(t *rapid.T, equal bool) group {
	g := group{counts: map[string]int32{}}
	topics := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "topics")]
	for _, name := range topics {
		if n := rapid.Int32Range(0, 7).Draw(t, "count of "+name); n > 0 {
			g.counts[name] = n
		}
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "members") {
		m := assign.Member{ID: fmt.Sprintf("m%d", i), Generation: rapid.Int32Range(-1, 3).Draw(t, "generation")}
		if rapid.IntRange(0, 3).Draw(t, "static") == 0 {
			m.Instance = fmt.Sprintf("i%d", 9-i)
		}
		for _, name := range topics {
			if equal || rapid.Bool().Draw(t, "subscribes") {
				m.Topics = append(m.Topics, name)
			}
		}
		for range rapid.IntRange(0, 8).Draw(t, "claims") {
			m.Owned = append(m.Owned, partition{rapid.SampledFrom(append(topics, "gone")).Draw(t, "topic"), rapid.Int32Range(-1, 8).Draw(t, "partition")})
		}
		g.members = append(g.members, m)
	}
	return g
}

// apart makes the claims those of one generation in which each partition had one owner.
func (g *group) apart() {
	seen := map[partition]bool{}
	for i := range g.members {
		m := &g.members[i]
		m.Generation = 3
		m.Owned = slices.DeleteFunc(m.Owned, func(p partition) bool {
			if seen[p] || p.Partition < 0 || p.Partition >= g.counts[p.Topic] {
				return true
			}
			seen[p] = true
			return false
		})
	}
}

func (g *group) all() []partition {
	var all []partition
	for _, t := range slices.Sorted(maps.Keys(g.counts)) {
		for p := range g.counts[t] {
			all = append(all, partition{t, p})
		}
	}
	return all
}

func (g *group) subscribed(topic string) bool {
	return slices.ContainsFunc(g.members, func(m assign.Member) bool { return slices.Contains(m.Topics, topic) })
}

func (g *group) member(id string) *assign.Member {
	i := slices.IndexFunc(g.members, func(m assign.Member) bool { return m.ID == id })
	return &g.members[i]
}

// owners of a plan; exclusive or the test fails.
func owners(t require.TestingT, plan assign.Plan) map[partition]string {
	owner := map[partition]string{}
	for _, s := range plan {
		for _, p := range s.Partitions {
			require.Empty(t, owner[p], "%v has two owners", p)
			owner[p] = s.Member
		}
	}
	return owner
}

// loads are the members' numbers of partitions, sorted.
func loads(plan assign.Plan) []int {
	var n []int
	for _, s := range plan {
		n = append(n, len(s.Partitions))
	}
	slices.Sort(n)
	return n
}

// kept counts the partitions that stay with a member that claims them.
func (g *group) kept(owner map[partition]string) int {
	n := 0
	for p, id := range owner {
		if slices.Contains(g.member(id).Owned, p) {
			n++
		}
	}
	return n
}

// believed are the members whose claims on a partition count: those of the highest generation.
func (g *group) believed(p partition) []string {
	var who []string
	best := int32(-2)
	for _, m := range g.members {
		if !slices.Contains(m.Owned, p) || m.Generation < best {
			continue
		}
		if m.Generation > best {
			best, who = m.Generation, nil
		}
		who = append(who, m.ID)
	}
	return who
}

func print(plan assign.Plan) string {
	var lines []string
	for _, s := range plan {
		var parts []string
		for _, p := range s.Partitions {
			parts = append(parts, fmt.Sprintf("%s%d", p.Topic, p.Partition))
		}
		lines = append(lines, s.Member+": "+strings.Join(parts, " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

func each(t *testing.T, f func(t *testing.T, a *assign.Assignor)) {
	for _, a := range assign.All() {
		t.Run(a.Name(), func(t *testing.T) { f(t, a) })
	}
}
