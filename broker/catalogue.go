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
)

// Paths in the coordination service.
const (
	clusterPath = "/cluster"
	clusterID   = clusterPath + "/id" // text
	brokersPath = "/brokers"
	idsPath     = brokersPath + "/ids"    // <id>: ephemeral, brokerNode
	topicsPath  = brokersPath + "/topics" // <topic>: persistent, topicNode
)

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
}

// topicNode is the registration of a topic.
type topicNode struct {
	ID         string             `json:"id"`
	Partitions map[string][]int32 `json:"partitions"` // partition id -> broker ids; the first leads
	Config     map[string]string  `json:"config,omitempty"`
}

// topic is a topic of the cluster, as this broker knows it. All but local never changes: a new state is a new value.
type topic struct {
	name     string
	id       topicID
	leaders  []int32 // broker id by partition; -1: a hole
	settings []setting
	local    []*partition // by partition id; nil: not (yet) open here. Guarded by the broker's lock
}

// setting is an entry of a topic's configuration.
type setting struct{ name, value string }

// encodeTopic makes the node of a topic.
func encodeTopic(id topicID, leaders []int32, settings []setting) []byte {
	n := topicNode{ID: id.String(), Partitions: map[string][]int32{}}
	for p, b := range leaders {
		n.Partitions[strconv.Itoa(p)] = []int32{b}
	}
	for _, s := range settings {
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
	t := &topic{name: name, id: id, leaders: make([]int32, len(n.Partitions))}
	for i := range t.leaders {
		t.leaders[i] = -1
	}
	for _, key := range slices.Sorted(maps.Keys(n.Partitions)) {
		brokers := n.Partitions[key]
		p, err := strconv.Atoi(key)
		if err != nil || p < 0 || p >= len(t.leaders) {
			return nil, fmt.Errorf("registration of topic %s: partition %q of %d", name, key, len(t.leaders))
		}
		if len(brokers) > 0 {
			t.leaders[p] = brokers[0]
		}
	}
	// order: sorted below
	for key, value := range n.Config {
		t.settings = append(t.settings, setting{key, value})
	}
	slices.SortFunc(t.settings, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	t.local = make([]*partition, len(t.leaders))
	return t, nil
}

// liveBroker is a registered broker.
type liveBroker struct {
	id   int32
	host string
	port int32
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
