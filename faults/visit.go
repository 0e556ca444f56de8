package faults

import (
	"math/rand/v2"
	"slices"
	"strings"

	"faultline/faults/quantity"
)

// Some faults visit machine after machine. In a concrete plan each visit is a fault of its own, a plain one, so that each can be seen, left
// out and shrunk by itself:
//
//   - rolling-restart: a stop, crash or power-loss of each machine in turn, in the order of the target; the next one begins gap
//     after the one before ended.
//   - swizzle-clog (the name is FoundationDB's): a clog of each machine. They begin in a random order, gap apart, and end in another random order, gap apart;
//     between the last begin and the first end lies the fault's own duration.

// visits makes the faults that a drawn one stands for.
func (f Fault) visits(rng *rand.Rand, env Env) []Fault {
	switch f.Kind {
	case RollingRestart:
		return f.roll(env)
	case SwizzleClog:
		return f.swizzle(rng, env)
	}
	return []Fault{f}
}

func (f Fault) roll(env Env) []Fault {
	kind := Stop
	if f.How != "" {
		kind = Kind(f.How)
	}
	var out []Fault
	at := f.At.V()
	for _, m := range each(f.Target, env) {
		if env.within(at) {
			out = append(out, Fault{Kind: kind, Target: m, At: quantity.Just(at), For: f.For, If: f.If})
		}
		at += f.For.V() + f.Gap.V()
	}
	return out
}

func (f Fault) swizzle(rng *rand.Rand, env Env) []Fault {
	list := each(f.Target, env)
	ends := rng.Perm(len(list))
	last := f.At.V() + quantity.Duration(len(list)-1)*f.Gap.V() + f.For.V()
	var out []Fault
	for n, i := range rng.Perm(len(list)) {
		at := f.At.V() + quantity.Duration(n)*f.Gap.V()
		end := last + quantity.Duration(ends[i])*f.Gap.V()
		if env.within(at) {
			out = append(out, Fault{Kind: Clog, Target: list[i], At: quantity.Just(at), For: quantity.Just(end - at)})
		}
	}
	return out
}

// within tells whether a fault may still begin then.
func (env Env) within(at quantity.Duration) bool { return env.Load == 0 || at.D() < env.Load }

// each lists the parts of a drawn target that are visited one after the other: machines, and leaders of partitions. Spare machines are only
// visited when they are named.
func each(target string, env Env) []string {
	list, err := terms(target)
	if err != nil {
		return nil
	}
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	regular := func(m string) bool { return !slices.Contains(env.Spare, m) }
	for _, t := range list {
		switch {
		case t.rack > 0:
			for _, role := range Roles {
				for _, m := range env.Machines[role] {
					if Rack(m, env.Racks) == t.rack && regular(m) {
						add(m)
					}
				}
			}
		case strings.HasSuffix(t.text, "-*"):
			for _, m := range env.Machines[t.role] {
				if regular(m) {
					add(m)
				}
			}
		default:
			add(t.text)
		}
	}
	return out
}

// spares are the spare machines of a role.
func (env Env) spares(role string) []string {
	return slices.DeleteFunc(slices.Clone(env.Machines[role]), func(m string) bool { return !slices.Contains(env.Spare, m) })
}

// width is how many faults one becomes when it is drawn, at most.
func (f Fault) width(env Env) int64 {
	if f.Kind != RollingRestart && f.Kind != SwizzleClog {
		return 1
	}
	n := int64(0)
	for _, role := range Roles {
		n += int64(len(env.Machines[role]))
	}
	return max(1, n)
}
