package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"faultline/faults/quantity"
)

// account is one of three brokers, registered as 1, 2, 3, that are in sync for t/0, which needs least of them; alone/0 is on broker-1 only.
func account(least int) *Copies {
	c := NewCopies()
	c.Topic("t", least, [][]string{{"broker-1", "broker-2", "broker-3"}})
	c.Topic("alone", 1, [][]string{{"broker-1"}})
	for i := range int64(3) {
		b := fmt.Sprintf("broker-%d", i+1)
		c.Started(b)
		c.Registered(b, i+1, i+1)
	}
	c.State("t", 0, []Listed{{"broker-1", 1}, {"broker-2", 2}, {"broker-3", 3}})
	return c
}

func TestTheRuleOfCopies(t *testing.T) {
	lose := func(b string) func(c *Copies) { return func(c *Copies) { c.Ended(b); c.Lost(b) } }
	end := func(b string) func(c *Copies) { return func(c *Copies) { c.Ended(b) } }
	back := func(b string, epoch, clean int64) func(c *Copies) {
		return func(c *Copies) { c.Started(b); c.Registered(b, epoch, clean) }
	}
	list := func(l ...Listed) func(c *Copies) { return func(c *Copies) { c.State("t", 0, l) } }
	under := func(b string, h Harm, begins bool) func(c *Copies) {
		return func(c *Copies) { c.Under(b, h, begins) }
	}
	one, two, three := Listed{"broker-1", 1}, Listed{"broker-2", 2}, Listed{"broker-3", 3}
	for _, c := range []struct {
		why    string
		least  int
		before []func(*Copies)
		harm   Harm
		hit    string
		short  string
	}{
		{"nothing", 2, nil, None, "broker-1 broker-2 broker-3", ""},
		{"one may lose what it had not flushed", 2, nil, Loses, "broker-2", ""},
		{"two may not, at once", 2, nil, Loses, "broker-2 broker-3", "t/0"},
		{"nor one after the other", 2, []func(*Copies){lose("broker-2")}, Loses, "broker-3", "t/0"},
		{"again the same one may", 2, []func(*Copies){lose("broker-2")}, Loses, "broker-2", ""},
		{"with three that must be in sync two may", 3, []func(*Copies){lose("broker-2")}, Loses, "broker-3", ""},
		{"with one that must be none may", 1, nil, Loses, "broker-2", "t/0"},
		{"it counts when it is back", 2, []func(*Copies){lose("broker-2"), back("broker-2", 7, 7)}, Loses, "broker-3", "t/0"},
		{"and when it is out of the list", 2, []func(*Copies){lose("broker-2"), list(one, three), back("broker-2", 7, 7)}, Loses, "broker-3", "t/0"},
		{"until it is listed again", 2, []func(*Copies){lose("broker-2"), list(one, three), back("broker-2", 7, 7), list(one, three, Listed{"broker-2", 7})}, Loses, "broker-3", ""},
		{"a registration that was under way when it lost power does not count", 2, []func(*Copies){lose("broker-2"), func(c *Copies) { c.Registered("broker-2", 7, 2) }, list(one, three, Listed{"broker-2", 7})}, Loses, "broker-3", "t/0"},
		{"who merely lags lost nothing", 2, []func(*Copies){list(one, two)}, Loses, "broker-1", ""},
		{"processes may die, all of them", 2, []func(*Copies){end("broker-1")}, Ends, "broker-2 broker-3", ""},
		{"but not while another's loss is not made good, for the system cannot tell them apart", 2, []func(*Copies){lose("broker-2")}, Ends, "broker-1", "t/0"},
		{"nor the other way round", 2, []func(*Copies){end("broker-1")}, Loses, "broker-2", "t/0"},
		{"who closed its logs is trusted", 2, []func(*Copies){end("broker-1"), back("broker-1", 7, 1)}, Loses, "broker-2", ""},
		{"who did not is not", 2, []func(*Copies){end("broker-1"), back("broker-1", 7, 7)}, Loses, "broker-2", "t/0"},
		{"a disk whose flushes fail may lose at any moment", 2, []func(*Copies){under("broker-1", Loses, true)}, Loses, "broker-2", "t/0"},
		{"and is as before when it failed nobody", 2, []func(*Copies){under("broker-1", Loses, true), under("broker-1", Loses, false)}, Loses, "broker-2", ""},
		{"but not when it did", 2, []func(*Copies){under("broker-1", Loses, true), func(c *Copies) { c.Failed("broker-1") }, under("broker-1", Loses, false)}, Loses, "broker-2", "t/0"},
		{"nor when the process ended meanwhile", 2, []func(*Copies){under("broker-1", Loses, true), end("broker-1"), under("broker-1", Loses, false)}, Loses, "broker-2", "t/0"},
		{"a full disk ends processes", 2, []func(*Copies){under("broker-1", Ends, true)}, Loses, "broker-2", "t/0"},
		{"a new disk is worse only for who is alone", 2, nil, Wipes, "broker-2", ""},
		{"which is here", 2, nil, Wipes, "broker-1", "alone/0"},
		{"for bytes that differ no number of copies helps", 3, nil, Spoils, "broker-2", "t/0"},
		{"nothing is acknowledged before there is a state", 2, []func(*Copies){func(c *Copies) { c.Topic("t", 0, nil); c.Topic("t", 2, [][]string{{"broker-1", "broker-2"}}) }}, Loses, "broker-1 broker-2", ""},
		{"of a deleted topic nothing is owed", 2, []func(*Copies){func(c *Copies) { c.Topic("t", 0, nil) }}, Loses, "broker-1 broker-2", ""},
	} {
		a := account(c.least)
		for _, f := range c.before {
			f(a)
		}
		require.Equal(t, c.short, strings.Join(a.Short(c.harm, strings.Fields(c.hit)), " "), "%s\n%v", c.why, a)
	}
}

func TestAFaultThatWouldTakeTooManyCopiesIsHeldBack(t *testing.T) {
	plan := parsePlan(t, `faults:
  - {at: 1s, fault: power-loss, target: broker-1, for: 2s, if: survivable}
  - {at: 2s, fault: power-loss, target: broker-2, for: 2s, if: survivable}
  - {at: 3s, fault: disk-error, target: broker-3, for: 2s, op: write}
  - {at: 4s, fault: power-loss, target: broker-3, for: 2s}
`)
	told := func(meanwhile func(*bench), without ...int) string {
		b := newBench()
		if meanwhile != nil {
			meanwhile(b)
		}
		b.copies = account(2)
		b.onFall = func(m string) { b.copies.Ended(m); b.copies.Lost(m) }
		var out []string
		plan.Schedule(b, b, func(n Note) {
			if n.Phase != Ended {
				out = append(out, fmt.Sprintf("%d %s %s", n.Number, n.Phase, strings.Join(n.Short, " ")))
			}
		}, without...)
		b.runTo(10 * time.Second)
		return strings.Join(out, "\n")
	}
	require.Equal(t, "1 begin \n2 held t/0\n3 begin t/0\n4 begin t/0\n2 drop t/0", told(nil), "who does not ask is not held back, but what is lost by it is told")
	require.Equal(t, "1 out \n2 begin \n3 begin t/0\n4 begin t/0", told(nil, 1))
	back := func(b *bench) {
		b.At(2500*time.Millisecond, func() {
			b.copies.Started("broker-1")
			b.copies.Registered("broker-1", 4, 4)
			b.copies.State("t", 0, []Listed{{"broker-2", 2}, {"broker-3", 3}, {"broker-1", 4}})
		})
	}
	require.Equal(t, "1 begin \n2 held t/0\n2 begin \n3 begin t/0\n4 begin t/0", told(back), "it waits for its moment")
}

// Whatever a swarm in checked mode draws, and whatever the cluster does meanwhile, a partition keeps a copy that counts; a swarm in overload mode does take the last one.
func TestACheckedSwarmNeverTakesTheLastCopy(t *testing.T) {
	beyond := 0
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]string{"checked", "overload"}).Draw(t, "mode")
		least := rapid.IntRange(1, 3).Draw(t, "least")
		b := newBench()
		b.env.Topics = []TopicInfo{{Name: "t", Partitions: 1, Replicas: 3}}
		b.copies = account(least)
		c := newCluster(b, least)
		s := Swarm{Mode: quantity.Choose(mode), Intensity: quantity.Choose("high")}
		plan := s.Generate(rapid.Uint64().Draw(t, "seed"), b.env)
		excused := false
		plan.Schedule(b, b, func(n Note) {
			excused = excused || n.Phase == Begun && slices.Contains(n.Short, "t/0")
		})
		steps := rapid.SliceOfN(rapid.IntRange(0, 99), 100, 100).Draw(t, "steps")
		for i, step := range steps {
			b.runTo(time.Duration(i) * 100 * time.Millisecond)
			c.step(step)
			if c.copies() == 0 {
				require.True(t, excused, "%v\n%s", plan, strings.Join(b.log, "\n"))
				beyond++
				return
			}
		}
		require.False(t, excused && mode == "checked", "%v", plan)
	})
	require.Positive(t, beyond)
}

// cluster is a partition with three replicas as the rule sees it: who has every acknowledged record, whom the registry lists. What it does is drawn: brokers register, followers
// are dropped and taken back, the controller looks now or later.
type cluster struct {
	b      *bench
	least  int
	has    map[string]bool  // all that was ever acknowledged
	epoch  map[string]int64 // of the registration; 0: none
	trust  map[string]int64 // entries from this registration on are believed
	listed []Listed
	next   int64
}

func newCluster(b *bench, least int) *cluster {
	c := &cluster{b: b, least: least, has: map[string]bool{}, epoch: map[string]int64{}, trust: map[string]int64{}, next: 3}
	for i := range int64(3) {
		m := fmt.Sprintf("broker-%d", i+1)
		c.has[m], c.epoch[m], c.trust[m] = true, i+1, i+1
		c.listed = append(c.listed, Listed{m, i + 1})
	}
	b.onFall = func(m string) {
		if RoleOf(m) == "broker" {
			c.epoch[m] = 0
			b.copies.Ended(m)
			if strings.HasPrefix(b.last, "power-loss") {
				c.has[m] = false
				b.copies.Lost(m)
			}
		}
	}
	b.onRestart = func(m string) {
		if RoleOf(m) == "broker" {
			b.copies.Started(m)
		}
	}
	return c
}

// copies counts the brokers that may lead and have all that was ever acknowledged.
func (c *cluster) copies() (n int) {
	for _, l := range c.listed {
		if c.has[l.Broker] {
			n++
		}
	}
	return n
}

// step does one thing. Number n%3 says to whom.
func (c *cluster) step(n int) {
	m := fmt.Sprintf("broker-%d", n%3+1)
	i := slices.IndexFunc(c.listed, func(l Listed) bool { return l.Broker == m })
	switch n / 3 % 4 {
	case 0, 1: // it registers
		if c.b.up[m] && c.epoch[m] == 0 {
			c.next++
			c.epoch[m], c.trust[m] = c.next, c.next
			c.b.copies.Registered(m, c.next, c.next)
		}
	case 2: // the controller takes it out when it is not to be believed and somebody else is listed
		if i >= 0 && c.epoch[m] > 0 && c.listed[i].Epoch < c.trust[m] {
			if len(c.listed) > 1 {
				if len(c.listed) > c.least { // else nothing is acknowledged any more
					c.has[m] = false
				}
				c.listed = slices.Delete(slices.Clone(c.listed), i, i+1)
			} else {
				c.listed = []Listed{{m, c.epoch[m]}}
			}
			c.b.copies.State("t", 0, c.listed)
		}
	case 3: // it catches up with somebody listed who lives, has been there since, and is believed
		ok := slices.ContainsFunc(c.listed, func(l Listed) bool {
			return l.Broker != m && c.epoch[l.Broker] > 0 && c.trust[l.Broker] <= l.Epoch && c.has[l.Broker]
		})
		if i < 0 && c.epoch[m] > 0 && ok {
			c.has[m] = true
			c.listed = append(slices.Clone(c.listed), Listed{m, c.epoch[m]})
			c.b.copies.State("t", 0, c.listed)
		}
	}
}
