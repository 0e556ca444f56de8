package consumer

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	coord "faultline/coord/client"
)

// The registries that all groups share; brokers write them.
const (
	brokersPath = "/brokers/ids"
	topicsPath  = "/brokers/topics"
)

// registry names the nodes of one group.
type registry struct {
	ids, owners, offsets string
}

func newRegistry(group string) registry {
	root := "/consumers/" + group
	return registry{ids: root + "/ids", owners: root + "/owners", offsets: root + "/offsets"}
}

func (r registry) id(member string) string { return r.ids + "/" + member }

func (r registry) owner(topic string, partition int32) string {
	return r.owners + "/" + topic + "/" + strconv.Itoa(int(partition))
}

// home holds the group's offsets of a topic.
func (r registry) home(topic string) string { return r.offsets + "/" + topic }

func (r registry) offset(topic string, partition int32) string {
	return r.home(topic) + "/" + strconv.Itoa(int(partition))
}

// subscription is the data of a member's node, in the layout of Kafka's own registry consumer.
type subscription struct {
	Version int            `json:"version"`
	Topics  map[string]int `json:"subscription"` // topic -> streams
}

func encodeSubscription(topics map[string]int) []byte {
	b, err := json.Marshal(subscription{Version: 1, Topics: topics})
	if err != nil {
		panic(err) // a map of strings to ints always encodes
	}
	return b
}

// decodeMember reads a member's node.
func decodeMember(id string, data []byte, _ coord.Stat) (peer, error) {
	var s subscription
	if err := json.Unmarshal(data, &s); err != nil {
		return peer{}, fmt.Errorf("subscription %.100q: %w", data, err)
	}
	m := peer{id: id}
	for _, t := range sortedTopics(s.Topics) {
		m.topics = append(m.topics, subscribed{t, s.Topics[t]})
	}
	return m, nil
}

// decodeBroker reads a broker's node.
func decodeBroker(id string, data []byte, stat coord.Stat) (brokerState, error) {
	var b struct {
		Host string `json:"host"`
		Port int    `json:"port"`
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return brokerState{}, fmt.Errorf("broker %.100q: %w", data, err)
	}
	if b.Host == "" || b.Port <= 0 {
		return brokerState{}, fmt.Errorf("broker %.100q: it has no host or port", data)
	}
	return brokerState{id, net.JoinHostPort(b.Host, strconv.Itoa(b.Port)), stat.Czxid}, nil
}

// topicNode is there as long as the topic with the id is; the next one of its name has another.
func topicNode(topic, id string) string { return topicsPath + "/" + topic + "/" + id }

// topicID tells a topic from those that had its name before. Zero: the brokers tell none.
type topicID [16]byte

// decodeTopicID reads a UUID; zero: it is none.
func decodeTopicID(text string) (id topicID) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(id) {
		return id
	}
	return topicID(b)
}

// short is what traces have of it.
func (id topicID) short() int64 { return int64(binary.BigEndian.Uint64(id[:])) }

// placement is a partition and the broker that leads it.
type placement struct {
	partition int32
	leader    string // broker id, as its node is named
}

// decodeTopic returns the topic's identity and its partitions, sorted, each led by its first replica. replicated: there are several replicas, so the leaders are told by the topic's state.
func decodeTopic(data []byte) (id string, parts []placement, replicated bool, err error) {
	var t struct {
		ID         string             `json:"id"`
		Partitions map[string][]int32 `json:"partitions"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return "", nil, false, fmt.Errorf("topic %.100q: %w", data, err)
	}
	for _, name := range sortedTopics(t.Partitions) {
		p, err := strconv.ParseInt(name, 10, 32)
		if err != nil || p < 0 {
			return "", nil, false, fmt.Errorf("topic %.100q: %q is no partition number", data, name)
		}
		if replicas := t.Partitions[name]; len(replicas) > 0 {
			parts = append(parts, placement{int32(p), strconv.Itoa(int(replicas[0]))})
			replicated = replicated || len(replicas) > 1
		}
	}
	slices.SortFunc(parts, func(a, b placement) int { return int(a.partition) - int(b.partition) })
	return t.ID, parts, replicated, nil
}

// decodeLeaders gives each partition the leader that the state of topic id names; "" where there is none, or where the state is another topic's.
func decodeLeaders(data []byte, id string, parts []placement) error {
	var s struct {
		ID         string `json:"id"`
		Partitions []struct {
			Leader int32 `json:"leader"`
		} `json:"partitions"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("state of a topic %.100q: %w", data, err)
	}
	for i := range parts {
		p := &parts[i]
		p.leader = ""
		if n := int(p.partition); s.ID == id && n < len(s.Partitions) && s.Partitions[n].Leader >= 0 {
			p.leader = strconv.Itoa(int(s.Partitions[n].Leader))
		}
	}
	return nil
}

func encodeOffset(offset int64) []byte { return strconv.AppendInt(nil, offset, 10) }

func decodeOffset(data []byte) (int64, error) {
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("committed offset %.100q: want a decimal number, 0 or more", data)
	}
	return n, nil
}
