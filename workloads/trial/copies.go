package trial

import (
	"encoding/json"
	"strconv"
	"strings"

	"faultline/faults"
	"faultline/sim/machine"
	"faultline/workloads/history"
	"faultline/workloads/oracle"
)

// stock tells the account of copies what the registry holds and what becomes of the brokers. It implements history.Observer.
type stock struct {
	copies  *faults.Copies
	applied history.Applied
}

// Needs implements [history.Selective].
func (*stock) Needs() history.Steps { return 0 }

// Observe implements history.Observer.
func (s *stock) Observe(e *history.Event) {
	switch e.Kind {
	case history.MachineStarted, history.MachineExited, history.MachineCrashed, history.Traced:
	default:
		return
	}
	if e.Kind != history.Traced || e.Trace.Kind == machine.LogFailed {
		if faults.RoleOf(e.Machine) != roleBroker {
			return
		}
		switch e.Kind {
		case history.MachineStarted:
			s.copies.Started(e.Machine)
		case history.MachineExited:
			s.copies.Ended(e.Machine)
		case history.MachineCrashed:
			s.copies.Ended(e.Machine)
			if e.Power {
				s.copies.Lost(e.Machine)
			}
		case history.Traced:
			s.copies.Failed(e.Machine)
		}
		return
	}
	switch t := &e.Trace; t.Kind {
	case machine.ZnodeCreated, machine.ZnodeSet, machine.ZnodeDeleted:
		if s.applied.Fresh(history.Who{Machine: e.Machine, Incarnation: e.Incarnation}, t) {
			s.znode(t)
		}
	}
}

func (s *stock) znode(t *machine.Event) {
	if topic, ok := oracle.ParseStatePath(t.Subject); ok {
		for i, state := range oracle.ParseStates(t.Detail) {
			var listed []faults.Listed
			for _, list := range [][]oracle.InSync{state.ISR, state.ELR} {
				for _, m := range list {
					listed = append(listed, faults.Listed{Broker: brokerName(m.ID), Epoch: m.Epoch})
				}
			}
			s.copies.State(topic, i, listed)
		}
		return
	}
	if id, ok := brokerID(t.Subject); ok {
		var node struct {
			Epoch      int64 `json:"epoch"`
			CleanSince int64 `json:"clean_since"`
		}
		if t.Kind != machine.ZnodeDeleted && json.Unmarshal([]byte(t.Detail), &node) == nil {
			s.copies.Registered(brokerName(id), node.Epoch, node.CleanSince)
		}
		return
	}
	if topic, ok := strings.CutPrefix(t.Subject, topicsPath); ok && !strings.Contains(topic, "/") {
		least, replicas := parseCopies(t.Detail)
		if t.Kind == machine.ZnodeDeleted {
			replicas = nil
		}
		s.copies.Topic(topic, least, replicas)
	}
}

// parseCopies reads from a topic's node who has replicas and how many must be in sync.
func parseCopies(data string) (least int, replicas [][]string) {
	var node struct {
		Config map[string]string `json:"config"`
	}
	least = 1
	if json.Unmarshal([]byte(data), &node) == nil {
		if n, err := strconv.Atoi(node.Config["min.insync.replicas"]); err == nil {
			least = n
		}
	}
	assigned, _ := parseAssignment(data)
	for p := range int32(len(assigned)) {
		var names []string
		for _, id := range assigned[p] {
			names = append(names, brokerName(id))
		}
		replicas = append(replicas, names)
	}
	return least, replicas
}
