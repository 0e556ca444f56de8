package broker

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"faultline/broker/replica"
	coord "faultline/coord/client"
)

// Paths in the coordination service.
const (
	clusterPath = "/cluster"
	clusterID   = clusterPath + "/id" // text
	brokersPath = "/brokers"
	idsPath     = brokersPath + "/ids"    // <id>: ephemeral, brokerNode
	epochsPath  = brokersPath + "/epochs" // <id>: persistent; its version is the epoch of the broker's registration
	topicsPath  = brokersPath + "/topics" // <topic>: persistent, topicNode; <topic>/state: persistent, stateNode; <topic>/<id of the topic>: persistent, empty

	groupsPath = "/consumers" // <group>/offsets/<topic>/<partition>: persistent, an offset in decimal; written by consumers that divide partitions by the registry

	controllerPath      = "/controller"       // ephemeral, controllerNode
	controllerEpochPath = "/controller_epoch" // persistent; its version is the controller epoch
)

// statePath is where the state of a topic's partitions is kept. A topic whose partitions have one replica each has none: who has it leads it.
func statePath(topic string) string { return topicsPath + "/" + topic + "/state" }

// idPath is there as long as the topic with the id is. Whoever changes what the registry holds of a topic, or commits an offset in it, checks that node too: names and versions begin anew with the next topic of the name.
func idPath(topic string, id topicID) string { return topicsPath + "/" + topic + "/" + id.String() }

// stands lets a transaction fail when the topic with the id was deleted.
func stands(topic string, id topicID) coord.Op { return coord.CheckOp(idPath(topic, id), 0) }

// topicID is a random 128-bit number, written as a UUID.
type topicID [16]byte

func newTopicID(rng *rand.Rand) (id topicID) {
	for {
		for i := range id {
			id[i] = byte(rng.Uint32())
		}
		id[6] = id[6]&0x0f | 0x40 // version 4: random
		id[8] = id[8]&0x3f | 0x80
		if id != (topicID{}) {
			return id
		}
	}
}

func (id topicID) String() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func parseTopicID(s string) (id topicID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("topic id %q: want a UUID", s)
	}
	return topicID(b), nil
}

// brokerNode is the registration of a broker.
type brokerNode struct {
	Host        string `json:"host"`
	Port        int    `json:"port"`
	Incarnation int64  `json:"incarnation"`
	Epoch       int64  `json:"epoch"`       // of this registration: no other one of this broker has it
	CleanSince  int64  `json:"clean_since"` // the broker's logs lost nothing since its registration of that epoch
}

// topicNode is the registration of a topic.
type topicNode struct {
	ID         string             `json:"id"`
	Partitions map[string][]int32 `json:"partitions"` // partition id -> broker ids; the first is preferred as leader
	Config     map[string]string  `json:"config,omitempty"`
	// Moves are the reassignments under way, by partition id. Partitions has the replicas that there shall be, then those that leave.
	Moves map[string]move `json:"moves,omitempty"`
}

// move is a reassignment of a partition's replicas: from those that there were to those that there shall be, in the order of preference.
type move struct {
	From []int32 `json:"from"`
	To   []int32 `json:"to"`
}

// leaving are those of the replicas that are to go.
func (m *move) leaving(replicas []int32) []int32 { return without(replicas, m.To) }

// adding are those that come.
func (m *move) adding() []int32 { return without(m.To, m.From) }

// without are the brokers of a list that are not in another.
func without(list, other []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return slices.Contains(other, id) })
}

// topic is a topic of the cluster, as this broker knows it. All but local never changes: a new state is a new value.
type topic struct {
	name     string
	id       topicID
	replicas [][]int32 // broker ids by partition; the first is preferred as leader
	moves    []*move   // reassignments by partition, nil: none
	node     int32     // version of the topic's node
	settings []setting
	policy   policy
	local    []*partition // by partition id; nil: not (yet) open here. Guarded by the broker's lock

	// Of a topic with several replicas.
	states  []replica.State // by partition id; shorter than replicas where the registry has no state yet
	version int32           // of states
}

// replicated tells whether the topic's partitions have a state in the registry.
func (t *topic) replicated() bool {
	return slices.ContainsFunc(t.replicas, func(r []int32) bool { return len(r) > 1 })
}

// leader is the broker that leads a partition, replica.NoLeader when there is none, and the epoch in which it does.
func (t *topic) leader(id int) (broker, epoch int32) {
	switch {
	case len(t.replicas[id]) == 0:
		return replica.NoLeader, onlyEpoch
	case !t.replicated():
		return t.replicas[id][0], onlyEpoch
	case id < len(t.states):
		return t.states[id].Leader, t.states[id].LeaderEpoch
	}
	return replica.NoLeader, onlyEpoch
}

// stateNode is the state of a topic's partitions. One node for all of a topic: it changes as a whole, with a condition on its version.
type stateNode struct {
	ID         string          `json:"id"`         // of the topic
	Partitions []replica.State `json:"partitions"` // by partition id
}

func encodeStates(id topicID, states []replica.State) []byte {
	data, err := json.Marshal(stateNode{id.String(), states})
	if err != nil {
		panic(err) // numbers always encode
	}
	return data
}

// decodeStates reads the states of a topic. ours: they are those of the topic with the id, not of another one of that name.
func decodeStates(topic string, id topicID, data []byte) (states []replica.State, ours bool, err error) {
	var n stateNode
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, false, fmt.Errorf("state of topic %s: %w", topic, err)
	}
	for i := range n.Partitions {
		if s := &n.Partitions[i]; len(s.ISR) == 0 || s.LeaderEpoch < 0 {
			return nil, false, fmt.Errorf("state of topic %s: partition %d has no in-sync replica or a negative epoch", topic, i)
		}
	}
	return n.Partitions, n.ID == id.String(), nil
}

// setting is an entry of a topic's configuration.
type setting struct{ name, value string }

// encode makes the node of a topic.
func (t *topic) encode() []byte {
	n := topicNode{ID: t.id.String(), Partitions: map[string][]int32{}}
	for p, r := range t.replicas {
		n.Partitions[strconv.Itoa(p)] = r
	}
	for p, m := range t.moves {
		if m != nil {
			if n.Moves == nil {
				n.Moves = map[string]move{}
			}
			n.Moves[strconv.Itoa(p)] = *m
		}
	}
	for _, s := range t.settings {
		if n.Config == nil {
			n.Config = map[string]string{}
		}
		n.Config[s.name] = s.value
	}
	data, err := json.Marshal(n) // sorts the keys of maps
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return data
}

// decodeTopic reads the node of a topic.
func decodeTopic(name string, data []byte) (*topic, error) {
	var n topicNode
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, fmt.Errorf("registration of topic %s: %w", name, err)
	}
	id, err := parseTopicID(n.ID)
	if err != nil {
		return nil, fmt.Errorf("registration of topic %s: %w", name, err)
	}
	t := &topic{name: name, id: id, replicas: make([][]int32, len(n.Partitions)), moves: make([]*move, len(n.Partitions)), version: -1}
	for _, key := range slices.Sorted(maps.Keys(n.Partitions)) {
		brokers := n.Partitions[key]
		p, err := strconv.Atoi(key)
		if err != nil || p < 0 || p >= len(t.replicas) {
			return nil, fmt.Errorf("registration of topic %s: partition %q of %d", name, key, len(t.replicas))
		}
		t.replicas[p] = brokers
		if m, ok := n.Moves[key]; ok {
			t.moves[p] = &m
		}
	}
	// order: sorted below
	for key, value := range n.Config {
		t.settings = append(t.settings, setting{key, value})
	}
	slices.SortFunc(t.settings, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	t.local = make([]*partition, len(t.replicas))
	return t, nil
}

// decodeTopic reads the node of a topic and applies its settings to the defaults.
func (b *Broker) decodeTopic(name string, data []byte) (*topic, error) {
	t, err := decodeTopic(name, data)
	if err != nil {
		return nil, err
	}
	t.policy = b.cfg.policy()
	for _, s := range t.settings {
		_ = s.apply(&t.policy) // CreateTopics checked them; what another version wrote and this one does not know is left out
	}
	return t, nil
}

// liveBroker is a registered broker.
type liveBroker struct {
	id   int32
	host string
	port int32

	epoch, cleanSince int64 // see brokerNode
}

// maxTopicName bounds names so that <topic>-<partition>.deleted is a legal file name.
const maxTopicName = 200

// checkTopicName says what is wrong with a topic's name.
func checkTopicName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("topic name %q is not allowed", name)
	case len(name) > maxTopicName:
		return fmt.Errorf("topic name of %d characters: want at most %d", len(name), maxTopicName)
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-') {
			return fmt.Errorf("topic name %q: %q is not allowed, want letters, digits, '.', '_' or '-'", name, r)
		}
	}
	return nil
}

// partitionDir is the name of a partition's directory.
func partitionDir(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

// parsePartitionDir is its inverse.
func parsePartitionDir(dir string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(dir, '-')
	if i <= 0 {
		return "", 0, false
	}
	p, err := strconv.ParseInt(dir[i+1:], 10, 32)
	if err != nil || p < 0 || partitionDir(dir[:i], int32(p)) != dir {
		return "", 0, false
	}
	return dir[:i], int32(p), true
}
