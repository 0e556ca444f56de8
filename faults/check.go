package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"faultline/faults/quantity"
	"faultline/faults/strict"
)

// FlowStyle says that a fault is written on one line.
func (Fault) FlowStyle() {}

// String is the line of a scenario file that makes the fault, without the dash.
func (f Fault) String() string { return strict.Line(f) }

// Wrong is a field of a plan that does not fit.
type Wrong struct {
	Index int    // of the fault
	Field string // its name in the file; "": the fault as a whole
	Text  string // what was found and what is allowed
}

// Check holds a plan against the world that it is for: the fields that each kind takes, targets that exist, times within the load.
// Where the world is drawn per seed, env is the largest of them.
func (p Plan) Check(env Env) []Wrong {
	var out []Wrong
	for i, f := range p {
		wrong := func(field, format string, args ...any) {
			out = append(out, Wrong{i, field, fmt.Sprintf(format, args...)})
		}
		info, known := f.Kind.Info()
		if !known {
			continue // reported where it was read
		}
		f.checkFields(info, wrong)
		if env.Load > 0 && f.At.Max.D() >= env.Load {
			wrong("at", "found %v, allowed is a time before the end of the load (%v)", f.At, quantity.Duration(env.Load))
		}
		f.checkTarget("target", f.Target, env, wrong)
		f.checkTarget("peer", f.Peer, env, wrong)
		if f.alone() {
			wrong("peer", "found %q, which is the target itself, allowed is another machine", f.Peer)
		}
		f.checkValues(env, wrong)
	}
	return out
}

type complain func(field, format string, args ...any)

func (f Fault) checkFields(info KindInfo, wrong complain) {
	set := f.set()
	for _, name := range info.Need {
		if !slices.Contains(set, name) {
			wrong("", "the field %q is missing: %s needs %s", name, f.Kind, strings.Join(info.Need, ", "))
		}
	}
	allowed := slices.Concat([]string{"at", "fault", "every", "until", "if"}, info.Need, info.May)
	for _, name := range set {
		if !slices.Contains(allowed, name) {
			wrong(name, "a %s takes no %s, allowed is %s", f.Kind, name, strings.Join(allowed, ", "))
		}
	}
}

// set lists the fields that have a value.
func (f Fault) set() []string {
	var out []string
	add := func(name string, has bool) {
		if has {
			out = append(out, name)
		}
	}
	for _, text := range []struct{ name, value string }{
		{"target", f.Target}, {"peer", f.Peer}, {"way", f.Way}, {"how", f.How}, {"shape", f.Shape}, {"op", f.Op}, {"path", f.Path}, {"place", f.Place}, {"topic", f.Topic}, {"if", f.If},
	} {
		add(text.name, text.value != "")
	}
	add("every", f.Every.Given())
	add("until", f.Until.Given())
	for _, r := range f.ranges() {
		add(r.name, r.value.Given())
	}
	return out
}

func (f Fault) checkTarget(field, target string, env Env, wrong complain) {
	if target == "" {
		return
	}
	list, err := terms(target)
	if err != nil {
		wrong(field, "%v%s", err, quantity.DidYouMean(target, slices.Concat(env.Machines["broker"], env.Machines["coord"], env.Machines["producer"], env.Machines["consumer"])))
		return
	}
	for _, t := range list {
		if f.Kind == Start && field == "target" {
			f.checkStart(t, env, wrong)
			continue
		}
		switch {
		case f.Kind == Reassign && t.role != "broker" && t.any != "broker" && t.topic == "":
			wrong(field, "found %q, allowed are brokers", t.text)
		case t.rack > max(1, env.Racks):
			wrong(field, "found %q, allowed is %s", t.text, rackNames(env))
		case t.topic != "":
			i := slices.IndexFunc(env.Topics, func(info TopicInfo) bool { return info.Name == t.topic })
			if i < 0 {
				wrong(field, "found the topic %q, allowed is %s", t.topic, topicNames(env))
			} else if int(t.partition) >= env.Topics[i].Partitions {
				wrong(field, "found partition %d of %s, allowed is 0 to %d", t.partition, t.topic, env.Topics[i].Partitions-1)
			}
		case t.group != "":
			if !slices.Contains(env.Groups, t.group) {
				wrong(field, "found the group %q, allowed are coordinator groups: %s", t.group, strings.Join(env.Groups, ", "))
			}
		case t.any == "" && t.rack == 0 && !strings.HasSuffix(t.text, "-*") && !slices.Contains(env.Machines[t.role], t.text):
			names := env.Machines[t.role]
			if len(names) == 0 {
				wrong(field, "found %q, but there is no machine of that role", t.text)
			} else {
				wrong(field, "found %q, allowed is %s to %s", t.text, names[0], names[len(names)-1])
			}
		}
	}
}

// checkStart looks at a machine that a start fault is to start.
func (f Fault) checkStart(t term, env Env, wrong complain) {
	role := t.role
	if t.any != "" {
		role = t.any
	}
	spares := env.spares(role)
	switch {
	case t.rack > 0 || t.any == rackRole || t.topic != "" || t.group != "" || role != "broker" && role != "consumer":
		wrong("target", "found %q, allowed are spare brokers and consumers", t.text)
	case len(spares) == 0:
		wrong("target", "found %q, but there is no spare %s to start", t.text, role)
	case t.any == "" && !strings.HasSuffix(t.text, "-*") && !slices.Contains(spares, t.text):
		wrong("target", "found %q, allowed are spare machines: %s", t.text, strings.Join(spares, ", "))
	case role == "broker" && f.For.Given():
		wrong("for", "found %v, allowed is none for a spare broker: it stays, for partitions may be placed on it", f.For)
	}
}

func rackNames(env Env) string {
	if env.Racks <= 1 {
		return "rack-1"
	}
	return fmt.Sprintf("rack-1 to rack-%d", env.Racks)
}

func (f Fault) checkValues(env Env, wrong complain) {
	if f.Kind == SlowLink && !f.Latency.Given() && !f.Bandwidth.Given() && !f.Spread.Given() {
		wrong("", "a slow-link needs latency, spread or bandwidth")
	}
	if f.Shape != "" && !f.Spread.Given() {
		wrong("shape", "found without spread, allowed is both or spread alone")
	}
	if f.Kind == ShortDisk && !slices.Contains([]string{"", "data", "read", "write"}, f.Op) {
		wrong("op", "found %q, allowed for a disk-short is data, read or write", f.Op)
	}
	f.checkPlace(wrong)
	if f.Until.Given() && !f.Every.Given() {
		wrong("until", "found without every, allowed is both or none")
	}
	if f.Until.Given() && f.Until.Max < f.At.Min {
		wrong("until", "found %v, allowed is a time after the fault begins (%v)", f.Until, f.At)
	}
	if f.Every.Given() && !f.Until.Given() && env.Load == 0 {
		wrong("every", "found without until, which is needed where the length of the load is not known")
	}
	if n := f.repeats(env); n > maxRepeats {
		wrong("every", "found %v, which makes %d faults, allowed are %d", f.Every, n, maxRepeats)
	}
	if slices.Contains([]Kind{AddPartitions, RenewTopic, Reassign}, f.Kind) && f.Topic != "" {
		i := slices.IndexFunc(env.Topics, func(info TopicInfo) bool { return info.Name == f.Topic })
		if i < 0 {
			wrong("topic", "found %q, allowed is %s%s", f.Topic, topicNames(env), quantity.DidYouMean(f.Topic, strings.Split(topicNames(env), ", ")))
		}
	}
	if f.Kind == CreateTopic && slices.ContainsFunc(env.Topics, func(info TopicInfo) bool { return info.Name == f.Topic }) {
		wrong("topic", "found %q, which exists from the beginning, allowed is a new name", f.Topic)
	}
}

// repeats is how often the fault comes again at most.
func (f Fault) repeats(env Env) int64 {
	if !f.Every.Given() {
		return 0
	}
	end := env.Load
	if f.Until.Given() {
		end = f.Until.Max.D()
	}
	return int64(max(0, end-f.At.Min.D()) / max(time.Nanosecond, f.Every.Min.D()))
}

// Most is how many faults the plan makes at most when it is drawn, repetitions included.
func (p Plan) Most(env Env) int64 {
	var sum int64
	for _, f := range p {
		sum += (1 + min(f.repeats(env), maxRepeats)) * f.width(env)
	}
	return sum
}

// alone tells whether a network fault is one between a machine and itself.
func (f Fault) alone() bool {
	t, err := terms(f.Target)
	if err != nil {
		return false
	}
	p, err := terms(f.Peer)
	named := func(list []term) bool { // one machine, again and again
		return !slices.ContainsFunc(list, func(t term) bool {
			return t.any != "" || t.topic != "" || t.group != "" || t.rack > 0 || strings.HasSuffix(t.text, "-*") || t.text != list[0].text
		})
	}
	return err == nil && named(t) && named(p) && t[0].text == p[0].text
}

func topicNames(env Env) string {
	names := make([]string, len(env.Topics))
	for i, t := range env.Topics {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}
