package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"faultline/broker/sequence"
	"faultline/faults/quantity"
	"faultline/faults/strict"
)

var (
	scenarioName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	entityName   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)
)

// codes are the invariants of known-faults.md.
var codes = []string{"DUR", "MATCH", "HW", "DIRTY", "ORDER", "IDEMP", "DELIVER", "C<=P", "CMONO", "OWN1", "OWNALL", "GEN", "LIVE", "REC", "RET",
	"DUPB", "SESS", "BUDGET"}

// Bounds against misprints: what is more does not fit into a day or into memory.
const (
	maxName     = 64            // it is part of file names
	maxMessages = 1_000_000_000 // of a load
	maxFaults   = 100_000       // of a run: the list with its repetitions, and what the swarm draws
)

// check looks at everything that takes more than one field, or more than a field's own bounds.
func (s *Scenario) check(doc *strict.Doc) strict.Problems {
	c := &checker{doc: doc}
	if s.Name != "" && !scenarioName.MatchString(s.Name) {
		c.wrong("name", "found %q, allowed are lower-case letters, digits and single dashes between them", s.Name)
	}
	if len(s.Name) > maxName {
		c.wrong("name", "found %d letters, allowed are %d", len(s.Name), maxName)
	}
	c.topology(&s.Topology)
	c.workload(s)
	for i, code := range s.Promise.Except {
		if !slices.Contains(codes, code) {
			c.wrong(fmt.Sprintf("promise.except[%d]", i), "found %q, allowed is %s%s", code, strings.Join(codes, ", "), quantity.DidYouMean(code, codes))
		}
	}
	env := s.env()
	c.starts(s)
	most := s.Faults.Most(env)
	if most > maxFaults {
		c.wrong("faults", "found a list that makes %d faults, allowed are %d", most, maxFaults)
	} else if s.Swarm != nil && most+s.Swarm.Most(env) > maxFaults {
		c.wrong("swarm.within", "found a swarm of up to %d faults besides the %d of the list, allowed are %d in all", s.Swarm.Most(env), most, maxFaults)
	}
	for _, w := range s.Faults.Check(env) {
		path := fmt.Sprintf("faults[%d]", w.Index)
		if w.Field != "" {
			path += "." + w.Field
		}
		c.wrong(path, "%s", w.Text)
	}
	if s.Swarm != nil {
		for _, w := range s.Swarm.Check(env) {
			path := "swarm"
			if w.Field != "" {
				path += "." + w.Field
			}
			c.wrong(path, "%s", w.Text)
		}
	}
	return c.problems
}

type checker struct {
	doc      *strict.Doc
	problems strict.Problems
}

func (c *checker) wrong(path, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Problem(path, format, args...))
}

// unique checks names and that none comes twice.
func (c *checker) unique(path string, seen map[string]bool, name string) {
	switch {
	case name == "":
		return // reported as missing
	case !entityName.MatchString(name) || strings.Trim(name, ".") == "":
		c.wrong(path, "found %q, allowed are up to 200 letters, digits, dots, dashes and underscores", name)
	case seen[name]:
		c.wrong(path, "found %q a second time, allowed is once", name)
	}
	seen[name] = true
}

func (c *checker) topology(t *Topology) {
	topics := map[string]bool{}
	for i := range t.Topics {
		topic, path := &t.Topics[i], fmt.Sprintf("topology.topics[%d]", i)
		c.unique(path+".name", topics, topic.Name)
		if topic.FlushMessages.Max == quantity.Endless && topic.FlushInterval.Max == quantity.Endless {
			c.wrong(path+".flush_interval", "found never with flush_messages unlimited: no message would ever be visible; allowed is a limit to at least one of them")
		}
		if least := t.Brokers.Count.Min; least > 0 && topic.Replicas.Max > least {
			c.wrong(path+".replicas", "found %v, allowed is the number of brokers (%v) or less", topic.Replicas, t.Brokers.Count)
		}
		if topic.MinISR.Min > topic.Replicas.Min {
			c.wrong(path+".min_isr", "found %v, allowed is the number of replicas (%v) or less", topic.MinISR, topic.Replicas)
		}
		if topic.RetentionBytes.Min < topic.SegmentBytes.Max {
			c.wrong(path+".retention_bytes", "found %v, allowed is the size of a segment (%v) or more: the active segment is never deleted", topic.RetentionBytes, topic.SegmentBytes.Max)
		}
	}
	groups := map[string]bool{}
	for i := range t.Groups {
		group, path := &t.Groups[i], fmt.Sprintf("topology.groups[%d]", i)
		c.unique(path+".name", groups, group.Name)
		read := map[string]bool{}
		for j, name := range group.Topics {
			at := fmt.Sprintf("%s.topics[%d]", path, j)
			if !topics[name] {
				c.wrong(at, "found %q, allowed is %s%s", name, topicNames(t), quantity.DidYouMean(name, strings.Split(topicNames(t), ", ")))
			} else if read[name] {
				c.wrong(at, "found %q a second time, allowed is once", name)
			}
			read[name] = true
		}
		c.idle(path, group)
	}
	for i := range t.Producers {
		p, path := &t.Producers[i], fmt.Sprintf("topology.producers[%d]", i)
		if slices.Contains(p.Idempotent.Options, "yes") {
			if slices.Contains(p.Acks.Options, "0") || slices.Contains(p.Acks.Options, "1") {
				c.wrong(path+".acks", "found %v for an idempotent producer, allowed is all", p.Acks)
			}
			if p.InFlight.Max > sequence.Window {
				c.wrong(path+".in_flight", "found %v for an idempotent producer, allowed is at most %d", p.InFlight, sequence.Window)
			}
		}
		if p.Batch.Max > p.Buffer.Min {
			c.wrong(path+".buffer", "found %v, allowed is the size of a batch (%v) or more", p.Buffer, p.Batch.Max)
		}
	}
}

func (c *checker) workload(s *Scenario) {
	w := &s.Workload
	switch {
	case w.Kind == "lines" && c.doc.Given("workload.duration"):
		c.wrong("workload.duration", "found with kind lines, whose load lasts as long as the file; allowed is to leave it out")
	case w.Kind != "lines" && w.Input != "":
		c.wrong("workload.input", "found with kind %s, allowed is only with kind lines", w.Kind)
	}
	if n := float64(w.Rate.Max) * w.Duration.Max.D().Seconds(); w.Kind != "lines" && w.Duration.Max != quantity.Endless && n > maxMessages {
		c.wrong("workload.rate", "found %v for %v, which makes %.0f messages, allowed are %d", w.Rate, w.Duration, n, maxMessages)
	}
	if topic := strictest(&s.Topology); w.MessageBytes.Max+512 > topic.MaxBatch.Min {
		c.wrong("workload.message_bytes", "found %v, allowed is at most 512B less than the max_batch of topic %s (%v)", w.MessageBytes, topic.Name, topic.MaxBatch)
	}
}

// starts checks that no machine starts when the load is over already.
func (c *checker) starts(s *Scenario) {
	if s.Workload.Kind == "lines" || s.Workload.Duration.Min <= 0 {
		return // how long the load lasts is not known, or reported as wrong
	}
	end := s.Workload.Duration.Min
	within := func(path string, start quantity.Durations) {
		if start.Max >= end {
			c.wrong(path+".start", "found %v, allowed is a time before the end of the load (%v)", start, end)
		}
	}
	t := &s.Topology
	within("topology.coordinators", t.Coordinators.Start)
	within("topology.brokers", t.Brokers.Start)
	for i := range t.Producers {
		within(fmt.Sprintf("topology.producers[%d]", i), t.Producers[i].Start)
	}
	for i := range t.Groups {
		within(fmt.Sprintf("topology.groups[%d]", i), t.Groups[i].Start)
	}
}

// strictest is the topic that accepts the least batch.
func strictest(t *Topology) *Topic {
	least := &t.Topics[0]
	for i := range t.Topics {
		if t.Topics[i].MaxBatch.Min < least.MaxBatch.Min {
			least = &t.Topics[i]
		}
	}
	return least
}

func topicNames(t *Topology) string {
	var names []string
	for i := range t.Topics {
		if t.Topics[i].Name != "" {
			names = append(names, t.Topics[i].Name)
		}
	}
	return strings.Join(names, ", ")
}
