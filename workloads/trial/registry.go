package trial

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"faultline/broker/group"
	"faultline/sim/machine"
	"faultline/workloads/history"
)

// registry follows what the coordination service holds about brokers and topics, by the transactions that it traced.
type registry struct {
	moves   map[string]map[int32]int     // topic -> partition that is being reassigned -> replicas that it shall have
	topics  map[string]map[int32][]int32 // topic -> partition -> brokers that it is assigned to
	leaders map[string][]int32           // of topics with several replicas, by partition: the broker that leads it, negative: none
	brokers map[int32]bool               // registered now
	owners  map[string]bool              // paths of owner nodes
	applied history.Applied
}

func newRegistry() *registry {
	return &registry{moves: map[string]map[int32]int{}, topics: map[string]map[int32][]int32{}, leaders: map[string][]int32{}, brokers: map[int32]bool{}, owners: map[string]bool{}}
}

const (
	topicsPath  = "/brokers/topics/"
	brokersPath = "/brokers/ids/"
)

// Needs implements [history.Selective].
func (*registry) Needs() history.Steps { return 0 }

// Observe implements history.Observer.
func (g *registry) Observe(e *history.Event) {
	if e.Kind != history.Traced {
		return
	}
	switch e.Trace.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		if !g.applied.Fresh(history.Who{Machine: e.Machine, Incarnation: e.Incarnation}, &e.Trace) {
			return // another server applied it before
		}
	}
	switch e.Trace.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet:
		if topic, ok := strings.CutPrefix(e.Trace.Subject, topicsPath); ok && !strings.Contains(topic, "/") {
			g.topics[topic], g.moves[topic] = parseAssignment(e.Trace.Detail)
		} else if topic, ok := strings.CutSuffix(topic, "/state"); ok {
			g.leaders[topic] = parseLeaders(e.Trace.Detail)
		}
		if id, ok := brokerID(e.Trace.Subject); ok {
			g.brokers[id] = true
		}
		if strings.Contains(e.Trace.Subject, "/owners/") {
			g.owners[e.Trace.Subject] = true
		}
	case machine.ZnodeDeleted:
		if topic, ok := strings.CutPrefix(e.Trace.Subject, topicsPath); ok {
			delete(g.topics, topic)
			delete(g.moves, topic)
			delete(g.leaders, strings.TrimSuffix(topic, "/state"))
		}
		if id, ok := brokerID(e.Trace.Subject); ok {
			delete(g.brokers, id)
		}
		delete(g.owners, e.Trace.Subject)
	}
}

func brokerID(path string) (int32, bool) {
	text, ok := strings.CutPrefix(path, brokersPath)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(text, 10, 32)
	return int32(id), err == nil
}

// parseAssignment reads a topic's znode; see broker for the layout.
func parseAssignment(data string) (out map[int32][]int32, moves map[int32]int) {
	var node struct {
		Partitions map[string][]int32 `json:"partitions"`
		Moves      map[string]struct {
			To []int32 `json:"to"`
		} `json:"moves"`
	}
	out, moves = map[int32][]int32{}, map[int32]int{}
	if json.Unmarshal([]byte(data), &node) != nil {
		return out, moves
	}
	for p, m := range node.Moves {
		if i, err := strconv.ParseInt(p, 10, 32); err == nil {
			moves[int32(i)] = len(m.To)
		}
	}
	for p, replicas := range node.Partitions {
		if i, err := strconv.ParseInt(p, 10, 32); err == nil && len(replicas) > 0 {
			out[int32(i)] = replicas
		}
	}
	return out, moves
}

// moving tells which topic's partitions are being reassigned, "" when none are.
func (g *registry) moving() string {
	for _, topic := range slices.Sorted(maps.Keys(g.moves)) {
		if n := len(g.moves[topic]); n > 0 {
			return fmt.Sprintf("%d partitions of %s are being reassigned", n, topic)
		}
	}
	return ""
}

// copies is how many replicas a partition has, or shall have.
func (g *registry) copies(topic string, partition int32) int {
	if n := g.moves[topic][partition]; n > 0 {
		return n
	}
	return len(g.topics[topic][partition])
}

// parseLeaders reads the leaders out of a topic's state.
func parseLeaders(data string) []int32 {
	var node struct {
		Partitions []struct {
			Leader int32 `json:"leader"`
		} `json:"partitions"`
	}
	if json.Unmarshal([]byte(data), &node) != nil {
		return nil
	}
	var out []int32
	for _, p := range node.Partitions {
		out = append(out, p.Leader)
	}
	return out
}

// leader is the machine that leads a partition, "" when nobody does.
func (g *registry) leader(topic string, partition int32) string {
	replicas := g.topics[topic][partition]
	leaders, replicated := g.leaders[topic]
	switch {
	case len(replicas) == 0:
		return ""
	case !replicated && len(replicas) == 1:
		return brokerName(replicas[0])
	case int(partition) < len(leaders) && leaders[partition] >= 0:
		return brokerName(leaders[partition])
	}
	return ""
}

// offsetsTopic keeps what coordinator groups commit; the leader of a group's partition of it coordinates the group.
const offsetsTopic = "__consumer_offsets"

// coordinator is the machine that coordinates a group, "" when none does.
func (g *registry) coordinator(name string) string {
	n := int32(len(g.topics[offsetsTopic]))
	if n == 0 {
		return ""
	}
	return g.leader(offsetsTopic, group.PartitionOf(name, n))
}

func brokerName(id int32) string { return fmt.Sprintf("%s-%d", roleBroker, id) }

// unowned tells which partition has no owner in a group that reads its topic; "" when each has. Nobody needs to own what may be closed for good.
func (g *registry) unowned(groups map[string]*progress, closed func(partition) bool) string {
	var out []string
	for name, of := range groups {
		if of.coordinated {
			continue // their members' claims are no nodes: the oracles know
		}
		for topic := range of.topics {
			for p := range g.topics[topic] {
				if !closed(partition{topic, p}) && !g.owners[fmt.Sprintf("/consumers/%s/owners/%s/%d", name, topic, p)] {
					out = append(out, fmt.Sprintf("group %s has no owner of %s/%d", name, topic, p))
				}
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return slices.Min(out)
}
