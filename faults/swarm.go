package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"faultline/faults/quantity"
	"faultline/sim"
)

// Swarm asks for faults that the seed draws. Each family is in or out by the flip of a coin, and then has numbers, times, durations and
// targets of its own, so that seeds differ in kind and not only in detail (Groce and others, "Swarm testing", ISSTA 2012). Every fault ends.
type Swarm struct {
	// Families that may be drawn. Default: all.
	Families []string `yaml:"families"`
	// Whether what it draws is what the system promises to survive (checked), or also what is beyond that (overload): then only safety is judged of what such faults hit.
	Mode quantity.Choice `yaml:"mode" default:"checked" oneof:"checked|overload"`
	// How many faults a family gives that is in: about 1, 2 or 4 in ten seconds of load.
	Intensity quantity.Choice `yaml:"intensity" default:"[low, normal, high]" oneof:"low|normal|high"`
	// The part of the load in which faults begin. Default: all of it.
	Within quantity.Durations `yaml:"within" min:"0s" max:"24h" each:"true"`
}

// Family is one kind of trouble that the swarm draws.
type Family struct {
	Name   string
	About  string
	Beyond bool // the atlas: only in overload mode
	Copies bool // but inside it where partitions have several replicas, as long as enough good copies are left
	// draw makes the faults of one strike. They begin together, or as much later as they say themselves. A fault without a kind is dropped.
	draw func(d *drawer) []Fault
}

// one makes a draw of a single fault.
func one(draw func(d *drawer) Fault) func(d *drawer) []Fault {
	return func(d *drawer) []Fault { return []Fault{draw(d)} }
}

// Families are what the swarm draws from.
var Families = []Family{
	{"crash", "processes of brokers, coordinators and consumers die and start again", false, false, one(drawCrash)},
	{"power", "brokers, coordinators and consumers lose power and come back", false, false, one(drawPower)},
	{"rack", "a rack loses power, or its network, as a whole", false, false, one(drawRack)},
	{"rolling", "brokers, or all machines, are restarted one after the other", false, false, drawRolling},
	{"pause", "processes stand still", false, false, one(drawPause)},
	{"freeze", "machines stand still as a whole and go on", false, false, one(drawFreeze)},
	{"partition", "parts of the network drop everything, one way or both", false, false, one(drawPartition)},
	{"flapping", "links break and heal, again and again", false, false, drawFlapping},
	{"slow-link", "links get slow or hold back what is sent", false, false, one(drawSlowLink)},
	{"jitter", "links take a time that varies widely, with a heavy tail at times", false, false, one(drawJitter)},
	{"loss", "messages are lost and sent again", false, false, one(drawLoss)},
	{"swizzle", "machines are clogged one after the other and released in another order", false, false, drawSwizzle},
	{"reset", "open connections are reset", false, false, one(drawReset)},
	{"cut", "open connections break in the middle of a message", false, false, one(drawCut)},
	{"session", "brokers and consumers lose their sessions", false, false, one(drawSession)},
	{"clock", "clocks jump and drift", false, false, one(drawClock)},
	{"disk-error", "disks fail now and then", false, false, one(drawDiskError)},
	{"disk-entry", "opening, making, renaming, removing and listing files fails now and then", false, false, one(drawDiskEntry)},
	{"disk-full", "disks are full for a while", false, false, one(drawDiskFull)},
	{"disk-budget", "disks have little space left", false, false, one(drawDiskBudget)},
	{"disk-short", "reads and writes move fewer bytes than asked", false, false, one(drawDiskShort)},
	{"disk-slow", "disks are slow or stall", false, false, one(drawDiskSlow)},
	{"disk-hiccup", "single operations of a disk hang", false, false, one(drawDiskHiccup)},
	{"slow-cpu", "processors are slow", false, false, one(drawSlowCPU)},
	{"churn", "consumers and brokers stop regularly and come back, spares join", false, false, one(drawChurn)},
	{"brokers", "spare brokers join, and topics grow onto them", false, false, drawBrokers},
	{"topics", "topics get more partitions, new topics are created", false, false, one(drawTopics)},
	{"misfortune", "steps of the programs are slow or fail", false, false, one(drawMisfortune)},
	{"rot", "sectors of brokers' disks read differently from what was written", true, false, one(drawRot)},
	{"misdirect", "writes of brokers' disks land in the wrong place", true, false, one(drawMisdirect)},
	{"lie", "brokers' disks flush nothing, and lose power", true, false, drawLie},
	{"replace", "brokers' disks are replaced by empty ones", true, true, one(drawReplace)},
	{"wire", "bits flip on the way between clients and brokers", true, false, one(drawWire)},
}

// Check holds the request against the world that it is for.
func (s *Swarm) Check(env Env) []Wrong {
	out := s.stay(env)
	names := make([]string, len(Families))
	for i, f := range Families {
		names[i] = f.Name
	}
	for i, name := range s.Families {
		field := fmt.Sprintf("families[%d]", i)
		if !slices.Contains(names, name) {
			out = append(out, Wrong{Field: field, Text: fmt.Sprintf("found %q, allowed is %s%s", name, strings.Join(names, ", "), quantity.DidYouMean(name, names))})
		} else if slices.Contains(s.Families[:i], name) {
			out = append(out, Wrong{Field: field, Text: fmt.Sprintf("found %q a second time, allowed is once", name)})
		}
	}
	if env.Load > 0 && s.Within.Max.D() > env.Load {
		out = append(out, Wrong{Field: "within", Text: fmt.Sprintf("found %v, allowed is a part of the load (%v)", s.Within, quantity.Duration(env.Load))})
	}
	if env.Load == 0 && s.Within == (quantity.Durations{}) {
		out = append(out, Wrong{Field: "within", Text: "missing, but needed where the length of the load is not known"})
	}
	return out
}

// Generate draws a concrete plan. A family's decisions come from streams of its own, and each fault's too.
func (s *Swarm) Generate(seed uint64, env Env) Plan {
	from, to := s.Within.Min.D(), s.Within.Max.D()
	if to == 0 {
		to = env.Load
	}
	intensity := s.Intensity
	intensity.Fix(sim.NewStream(seed, "swarm/intensity", ""))
	mode := s.Mode
	mode.Fix(sim.NewStream(seed, "swarm/mode", ""))
	most := familyMost(intensity.V(), to-from)
	var out Plan
	for _, family := range Families {
		if len(s.Families) > 0 && !slices.Contains(s.Families, family.Name) {
			continue
		}
		if family.Beyond && mode.V() != "overload" && !(family.Copies && env.replicated()) {
			continue
		}
		coin := sim.NewStream(seed, "swarm/"+family.Name, "")
		if coin.IntN(2) == 0 {
			continue
		}
		for i := range 1 + coin.IntN(most) {
			d := &drawer{rng: sim.NewStream(seed, "swarm/"+family.Name, strconv.Itoa(i)), env: env, number: i}
			at := d.between(from, max(from, to-time.Millisecond)).V()
			for _, f := range family.draw(d) {
				if mode.V() == "checked" && f.takesCopies(env) {
					f.If = Survivable
				}
				if f.At = quantity.Just(at + f.At.V()); f.Kind != "" && env.within(f.At.V()) {
					out = append(out, f)
				}
			}
		}
	}
	out.sort()
	return out
}

// familyMost is how many faults a family that is in gives at most.
func familyMost(intensity string, span time.Duration) int {
	per10s := map[string]int{"low": 1, "normal": 2, "high": 4}[intensity]
	return 1 + int(time.Duration(per10s)*max(0, span)/(10*time.Second))*2
}

// Most is how many faults the swarm draws at most.
func (s *Swarm) Most(env Env) int64 {
	span := env.Load
	if s.Within.Max > 0 {
		span = s.Within.Max.D() - s.Within.Min.D()
	}
	families := len(s.Families)
	if families == 0 {
		families = len(Families)
	}
	return int64(families) * int64(familyMost("high", span)) * mostOfOne
}

// drawer draws the details of one fault.
type drawer struct {
	rng    *rand.Rand
	env    Env
	number int // of the fault in its family
}

// between draws a time of whole milliseconds.
func (d *drawer) between(min, max time.Duration) quantity.Durations {
	min, max = min/time.Millisecond, max/time.Millisecond
	return quantity.Just(quantity.Duration((min + time.Duration(d.rng.Int64N(int64(max-min)+1))) * time.Millisecond))
}

// span draws a duration from min to max with small ones as likely as large ones: each doubling has the same weight.
func (d *drawer) span(min, max time.Duration) quantity.Durations {
	doublings := 1
	for min<<doublings < max {
		doublings++
	}
	low := min << d.rng.IntN(doublings)
	if low*2 < max {
		max = low * 2
	}
	return d.between(low, max)
}

// one picks a role, which may be named several times for more weight, and then one of its machines: ten consumers do not hide one coordinator.
func (d *drawer) one(roles ...string) string {
	pool := d.env.Machines[roles[d.rng.IntN(len(roles))]]
	pool = slices.DeleteFunc(slices.Clone(pool), func(m string) bool { return slices.Contains(d.env.Spare, m) })
	if len(pool) == 0 {
		return ""
	}
	return pool[d.rng.IntN(len(pool))]
}

// some is a random part of all machines but the coordinators, with at least one in it.
func (d *drawer) some() string {
	var part []string
	for _, role := range []string{"broker", "producer", "consumer"} {
		for _, m := range d.env.Machines[role] {
			if d.rng.IntN(2) == 0 {
				part = append(part, m)
			}
		}
	}
	if len(part) == 0 {
		return d.one("broker")
	}
	return strings.Join(part, ", ")
}

func (d *drawer) way() string {
	return []string{"", "", "out", "in"}[d.rng.IntN(4)]
}

func (d *drawer) percent(min, max int64) quantity.Percents {
	return quantity.Just(quantity.Percent((min + d.rng.Int64N(max-min+1)) * 10_000))
}

// hit is the fault on the target, none when there is no such machine.
func hit(kind Kind, target string) Fault {
	if target == "" {
		return Fault{}
	}
	return Fault{Kind: kind, Target: target}
}
