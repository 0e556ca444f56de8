package assign_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/consumer/assign"
)

func TestEveryPartitionGoesToOneSubscriber(t *testing.T) {
	each(t, func(t *testing.T, a *assign.Assignor) {
		rapid.Check(t, func(t *rapid.T) {
			g := draw(t, false)
			plan := a.Assign(g.members, g.counts)
			require.Len(t, plan, len(g.members))
			owner := owners(t, plan)
			for p, id := range owner {
				require.Less(t, p.Partition, g.counts[p.Topic])
				require.Contains(t, g.member(id).Topics, p.Topic)
			}
			for _, p := range g.all() {
				switch {
				case !g.subscribed(p.Topic):
					require.NotContains(t, owner, p)
				case a.Cooperative() && owner[p] == "":
					require.NotEmpty(t, g.believed(p), "%v is free and stays without an owner", p)
				default:
					require.Contains(t, owner, p)
				}
			}
		})
	})
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	each(t, func(t *testing.T, a *assign.Assignor) {
		rapid.Check(t, func(t *rapid.T) {
			g := draw(t, false)
			want := a.Assign(g.members, g.counts)
			members := rapid.Permutation(g.members).Draw(t, "members")
			for i := range members {
				members[i].Topics = rapid.Permutation(members[i].Topics).Draw(t, "topics")
				members[i].Owned = rapid.Permutation(members[i].Owned).Draw(t, "owned")
			}
			require.Equal(t, want, a.Assign(members, g.counts))
			for i := range members {
				require.Equal(t, a.Metadata(*g.member(members[i].ID)), a.Metadata(members[i]))
			}
		})
	})
}

func TestEqualSubscriptionsAreBalancedWithinOne(t *testing.T) {
	for _, a := range []*assign.Assignor{assign.RoundRobin, assign.Sticky} {
		t.Run(a.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				g := draw(t, true)
				n := loads(a.Assign(g.members, g.counts))
				require.LessOrEqual(t, n[len(n)-1]-n[0], 1)
			})
		})
	}
	t.Run("range, by topic", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			g := draw(t, false)
			plan := assign.Range.Assign(g.members, g.counts)
			for topic := range g.counts {
				var n []int
				for _, m := range g.members {
					if slices.Contains(m.Topics, topic) {
						mine := slices.DeleteFunc(slices.Clone(plan.Of(m.ID)), func(p partition) bool { return p.Topic != topic })
						n = append(n, len(mine))
						if len(mine) > 0 {
							require.EqualValues(t, len(mine)-1, mine[len(mine)-1].Partition-mine[0].Partition, "not contiguous")
						}
					}
				}
				if len(n) > 0 {
					require.LessOrEqual(t, slices.Max(n)-slices.Min(n), 1)
				}
			}
		})
	})
}

// With equal subscriptions the fewest moves can be told without a search: nobody can keep more than its part of a balanced plan, and only
// as many members as the remainder can keep one more.
func TestStickyMovesNoMoreThanBalanceNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, true)
		g.apart()
		plan := assign.Sticky.Assign(g.members, g.counts)
		total := len(g.all())
		size, more := total/len(g.members), total%len(g.members)
		want := 0
		for _, m := range g.members {
			keep := min(len(m.Owned), size)
			if len(m.Owned) > size && more > 0 {
				keep++
				more--
			}
			want += keep
		}
		require.Equal(t, want, g.kept(owners(t, plan)), print(plan))
	})
}

// The best plan by trying all of them.
func TestStickyIsTheBestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, false)
		g.members = g.members[:min(len(g.members), 4)]
		for topic := range g.counts {
			g.counts[topic] = min(g.counts[topic], 2)
		}
		g.apart()
		var all []partition
		for _, p := range g.all() {
			if g.subscribed(p.Topic) {
				all = append(all, p)
			}
		}
		squares, kept := 1<<30, -1
		load := map[string]int{}
		owner := map[partition]string{}
		var try func(rest []partition)
		try = func(rest []partition) {
			if len(rest) == 0 {
				s := 0
				for _, n := range load {
					s += n * n
				}
				if k := g.kept(owner); s < squares || s == squares && k > kept {
					squares, kept = s, k
				}
				return
			}
			for _, m := range g.members {
				if slices.Contains(m.Topics, rest[0].Topic) {
					owner[rest[0]] = m.ID
					load[m.ID]++
					try(rest[1:])
					load[m.ID]--
				}
			}
		}
		try(all)
		plan := assign.Sticky.Assign(g.members, g.counts)
		s := 0
		for _, n := range loads(plan) {
			s += n * n
		}
		require.Equal(t, squares, s, print(plan))
		require.Equal(t, kept, g.kept(owners(t, plan)), print(plan))
	})
}

// A second round with what the first one gave changes nothing.
func TestStickyStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, false)
		plan := assign.Sticky.Assign(g.members, g.counts)
		for i := range g.members {
			g.members[i].Owned, g.members[i].Generation = plan.Of(g.members[i].ID), 4
		}
		require.Equal(t, plan, assign.Sticky.Assign(g.members, g.counts))
		require.Equal(t, plan, assign.CooperativeSticky.Assign(g.members, g.counts))
	})
}

func TestCooperativeGivesNothingThatAnotherStillHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, false)
		for p, id := range owners(t, assign.CooperativeSticky.Assign(g.members, g.counts)) {
			for _, holder := range g.believed(p) {
				require.Equal(t, holder, id, "%v goes to %s while %v has it", p, id, g.believed(p))
			}
		}
	})
}

// Two rounds are enough: in the first everybody gives up what it must, in the second what is free is given out, and the outcome is as balanced as the eager plan.
func TestCooperativeSettlesInTwoRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, false)
		eager := assign.Sticky.Assign(g.members, g.counts)
		for generation := range int32(2) {
			plan := assign.CooperativeSticky.Assign(g.members, g.counts)
			for i := range g.members {
				g.members[i].Owned, g.members[i].Generation = plan.Of(g.members[i].ID), 10+generation
			}
		}
		settled := assign.CooperativeSticky.Assign(g.members, g.counts)
		for i := range g.members {
			require.ElementsMatch(t, g.members[i].Owned, settled.Of(g.members[i].ID))
		}
		require.Equal(t, loads(eager), loads(settled))
	})
}

func TestMetadataAndAssignmentSurviveTheWire(t *testing.T) {
	each(t, func(t *testing.T, a *assign.Assignor) {
		rapid.Check(t, func(t *rapid.T) {
			g := draw(t, false)
			for _, m := range g.members {
				got, err := a.Parse(m.ID, m.Instance, a.Metadata(m))
				require.NoError(t, err)
				require.ElementsMatch(t, m.Topics, got.Topics)
				if a == assign.Sticky || a == assign.CooperativeSticky {
					require.Equal(t, m.Generation, got.Generation)
					require.Subset(t, m.Owned, got.Owned)
					require.Subset(t, got.Owned, m.Owned)
				} else {
					require.Empty(t, got.Owned)
				}
			}
			plan := a.Assign(g.members, g.counts)
			for i, s := range plan.Encode() {
				require.Equal(t, plan[i].Member, s.MemberID)
				got, err := assign.ParseAssignment(s.MemberAssignment)
				require.NoError(t, err)
				require.ElementsMatch(t, plan[i].Partitions, got)
			}
		})
	})
}
