package oracle

import (
	"encoding/json"
	"slices"
	"strings"
)

// What the registry says of the replicas of a topic's partitions, read by the oracles' own eyes: one node a topic, /brokers/topics/<topic>/state.

// PartitionState is who leads a partition and who is in sync.
type PartitionState struct {
	Leader          int32    `json:"leader"` // negative: nobody
	LeaderEpoch     int32    `json:"leader_epoch"`
	ISR             []InSync `json:"isr"`
	ELR             []InSync `json:"elr"`
	ControllerEpoch int32    `json:"controller_epoch"`
}

// InSync is a replica, in one registration of its broker.
type InSync struct {
	ID    int32 `json:"id"`
	Epoch int64 `json:"epoch"`
}

func findMember(list []InSync, id int32) int {
	return slices.IndexFunc(list, func(m InSync) bool { return m.ID == id })
}

// Unclean tells whether next has a leader that need not have what was committed in s: one that was neither in sync nor eligible.
func (s *PartitionState) Unclean(next *PartitionState) bool {
	return next.Leader >= 0 && next.LeaderEpoch > s.LeaderEpoch && findMember(s.ISR, next.Leader) < 0 && findMember(s.ELR, next.Leader) < 0
}

// ParseStatePath reads "/brokers/topics/<topic>/state".
func ParseStatePath(path string) (topic string, ok bool) {
	rest, ok := strings.CutPrefix(path, topicsRoot)
	if !ok {
		return "", false
	}
	topic, ok = strings.CutSuffix(rest, "/state")
	return topic, ok && topic != "" && !strings.Contains(topic, "/")
}

// ParseStates reads a topic's state, by partition; nil when it is of another form.
func ParseStates(data string) []PartitionState {
	var n struct {
		Partitions []PartitionState `json:"partitions"`
	}
	if json.Unmarshal([]byte(data), &n) != nil {
		return nil
	}
	return n.Partitions
}
