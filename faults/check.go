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
	allowed := slices.Concat([]string{"at", "fault", "every", "until"}, info.Need, info.May)
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
	add("target", f.Target != "")
	add("peer", f.Peer != "")
	add("way", f.Way != "")
	add("for", f.For != quantity.Durations{})
	add("every", f.Every != quantity.Durations{})
	add("until", f.Until != quantity.Durations{})
	add("latency", f.Latency != quantity.Durations{})
	add("bandwidth", f.Bandwidth != quantity.Bandwidths{})
	add("by", f.By != quantity.Durations{})
	add("drift", f.Drift != quantity.Percents{})
	add("op", f.Op != "")
	add("path", f.Path != "")
	add("place", f.Place != "")
	add("probability", f.Probability != quantity.Percents{})
	add("count", f.Count != quantity.Counts{})
	add("factor", f.Factor != quantity.Counts{})
	add("topic", f.Topic != "")
	add("partitions", f.Partitions != quantity.Counts{})
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
		switch {
		case t.topic != "":
			i := slices.IndexFunc(env.Topics, func(info TopicInfo) bool { return info.Name == t.topic })
			if i < 0 {
				wrong(field, "found the topic %q, allowed is %s", t.topic, topicNames(env))
			} else if int(t.partition) >= env.Topics[i].Partitions {
				wrong(field, "found partition %d of %s, allowed is 0 to %d", t.partition, t.topic, env.Topics[i].Partitions-1)
			}
		case t.any != "" && f.Kind == Start && field == "target":
			if len(env.Spare) == 0 {
				wrong(field, "found %q, but no group has spare consumers to start", t.text)
			}
		case t.any == "" && !strings.HasSuffix(t.text, "-*") && !slices.Contains(env.Machines[t.role], t.text):
			names := env.Machines[t.role]
			if len(names) == 0 {
				wrong(field, "found %q, but there is no machine of that role", t.text)
			} else {
				wrong(field, "found %q, allowed is %s to %s", t.text, names[0], names[len(names)-1])
			}
		case f.Kind == Start && t.any == "" && !slices.Contains(env.Spare, t.text):
			wrong(field, "found %q, allowed are spare consumers: %s", t.text, strings.Join(env.Spare, ", "))
		}
	}
}

func (f Fault) checkValues(env Env, wrong complain) {
	if f.Kind == SlowLink && f.Latency == (quantity.Durations{}) && f.Bandwidth == (quantity.Bandwidths{}) {
		wrong("", "a slow-link needs latency, bandwidth or both")
	}
	f.checkPlace(wrong)
	if f.Until != (quantity.Durations{}) && f.Every == (quantity.Durations{}) {
		wrong("until", "found without every, allowed is both or none")
	}
	if f.Until != (quantity.Durations{}) && f.Until.Max < f.At.Min {
		wrong("until", "found %v, allowed is a time after the fault begins (%v)", f.Until, f.At)
	}
	if f.Every != (quantity.Durations{}) && f.Until == (quantity.Durations{}) && env.Load == 0 {
		wrong("every", "found without until, which is needed where the length of the load is not known")
	}
	if n := f.repeats(env); n > maxRepeats {
		wrong("every", "found %v, which makes %d faults, allowed are %d", f.Every, n, maxRepeats)
	}
	if f.Kind == AddPartitions && f.Topic != "" {
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
	if f.Every == (quantity.Durations{}) {
		return 0
	}
	end := env.Load
	if f.Until != (quantity.Durations{}) {
		end = f.Until.Max.D()
	}
	return int64(max(0, end-f.At.Min.D()) / max(time.Nanosecond, f.Every.Min.D()))
}

// Most is how many faults the plan makes at most when it is drawn, repetitions included.
func (p Plan) Most(env Env) int64 {
	var sum int64
	for _, f := range p {
		sum += 1 + min(f.repeats(env), maxRepeats)
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
			return t.any != "" || t.topic != "" || strings.HasSuffix(t.text, "-*") || t.text != list[0].text
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
