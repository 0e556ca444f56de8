package trial

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"faultline/broker/client"
	coord "faultline/coord/client"
	"faultline/workloads/deploy"
	"faultline/workloads/scenario"
)

// admin is the administrator's machine: it creates topics and adds partitions, each again and again until it worked.
type admin struct {
	r     *run
	node  *node
	coord *coord.Client
	kafka *client.Cluster
	doing map[string]int // topic -> deletions under way
}

func newAdmin(r *run) *admin {
	a := &admin{r: r, doing: map[string]int{}}
	a.node = r.named(roleAdmin, 1, a.main)
	return a
}

const adminPause = 50 * time.Millisecond // between two tries

// main connects, creates the scenario's topics and stays for what comes later.
func (a *admin) main(p *running) error {
	_, zk := p.taps()
	a.coord = coord.Connect(p, coord.Config{Servers: a.r.addrs.Coord, SessionTimeout: 10 * time.Second, Tap: zk, Name: "admin"})
	a.kafka = client.NewCluster(p, a.r.addrs.Brokers, client.Config{ClientID: p.Name(), RequestTimeout: 5 * time.Second})
	for i := range a.r.sc.Topology.Topics {
		t := &a.r.sc.Topology.Topics[i]
		a.insist(func() error {
			return a.create(t.Name, int32(t.Partitions.V()), int16(t.Replicas.V()), deploy.TopicSettings(t))
		})
	}
	a.startClerks(p)
	a.r.w.Later(a.r.prepared)
	l := p.NewMutex("admin")
	c := p.NewCond("nothing to do", l)
	l.Lock()
	for {
		c.Wait()
	}
}

// insist tries until it worked.
func (a *admin) insist(try func() error) {
	for try() != nil {
		a.node.live.Sleep(adminPause)
	}
}

func (a *admin) create(topic string, partitions int32, replicas int16, settings []client.Setting) error {
	err := a.kafka.CreateTopic(topic, partitions, replicas, settings...)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// createTopic makes a topic with the broker's defaults, some time from now.
func (a *admin) createTopic(topic string, partitions int32) {
	a.node.comp.Go("create topic", func() {
		a.insist(func() error { return a.create(topic, partitions, 1, nil) })
	})
}

// addPartitions raises a topic's partitions to total, each with as many replicas as the first has, by writing the registry, as the administrator's tool of that time did.
func (a *admin) addPartitions(topic string, total int32) {
	a.node.comp.Go("add partitions", func() {
		a.insist(func() error { return a.extend(topic, total) })
	})
}

// deleteTopic deletes the topic that has the name now: by its id, so that a request that was held up on its way does not hit the next one.
func (a *admin) deleteTopic(topic string) {
	a.doing[topic]++
	a.node.comp.Go("delete topic", func() {
		var id string
		a.insist(func() error {
			node, _, err := a.topic(topic)
			switch {
			case errors.Is(err, coord.ErrNoNode):
				return nil
			case err != nil:
				return err
			case id != "" && id != node.id():
				return nil // an attempt whose answer was lost deleted it
			}
			id = node.id()
			if err := a.kafka.DeleteTopicID(topicID(id)); err != nil {
				return err
			}
			return errors.New("look whether it is gone")
		})
		a.doing[topic]--
	})
}

// topicNode is the registry's entry of a topic.
type topicNode map[string]json.RawMessage

func (n topicNode) id() (id string) {
	if json.Unmarshal(n["id"], &id) != nil {
		return ""
	}
	return id
}

// topicID is the number that a UUID is.
func topicID(text string) (id [16]byte) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err == nil {
		copy(id[:], b)
	}
	return id
}

// topic reads the registry's entry, and its version.
func (a *admin) topic(topic string) (node topicNode, version int32, err error) {
	data, stat, err := a.coord.Get(topicsPath+topic, false)
	if err == nil {
		err = json.Unmarshal(data, &node)
	}
	return node, stat.Version, err
}

// restoreTopic makes a topic that was deleted again, as the scenario has it.
func (a *admin) restoreTopic(topic string) {
	i := slices.IndexFunc(a.r.sc.Topology.Topics, func(t scenario.Topic) bool { return t.Name == topic })
	t := &a.r.sc.Topology.Topics[i] // the plan was checked
	a.node.comp.Go("restore topic", func() {
		a.insist(func() error {
			if a.doing[topic] > 0 {
				return errors.New("the topic is still being deleted")
			}
			return a.create(topic, int32(t.Partitions.V()), int16(t.Replicas.V()), deploy.TopicSettings(t))
		})
	})
}

// reassign moves every partition of a topic to as many registered brokers as it has replicas now, dealt out one after the other from a broker on.
func (a *admin) reassign(topic, from string) {
	a.node.comp.Go("reassign", func() {
		a.insist(func() error {
			var live []int32
			for id := range a.r.registry.brokers {
				live = append(live, id)
			}
			slices.Sort(live)
			parts := a.r.registry.topics[topic]
			first := slices.IndexFunc(live, func(id int32) bool { return brokerName(id) == from })
			if first < 0 || len(parts) == 0 {
				return fmt.Errorf("%s is not registered, or topic %s not there", from, topic)
			}
			replicas := make([][]int32, len(parts))
			for p := range replicas {
				n := a.r.registry.copies(topic, int32(p))
				if n > len(live) {
					return fmt.Errorf("%d brokers are up, want %d for the replicas of a partition", len(live), n)
				}
				for i := range n {
					replicas[p] = append(replicas[p], live[(first+p+i)%len(live)])
				}
			}
			return a.kafka.Reassign(topic, replicas)
		})
	})
}

func (a *admin) extend(topic string, total int32) error {
	node, version, err := a.topic(topic)
	if err != nil {
		return err
	}
	partitions := map[string][]int32{}
	if err := json.Unmarshal(node["partitions"], &partitions); err != nil {
		return err
	}
	brokers, _, err := a.coord.Children("/brokers/ids", false)
	if err != nil {
		return err
	}
	replicas := max(len(partitions["0"]), 1)
	if len(brokers) < replicas {
		return fmt.Errorf("%d brokers are up, want %d for the replicas of a partition", len(brokers), replicas)
	}
	for i := int32(len(partitions)); i < total; i++ {
		var ids []int32
		for n := range replicas {
			id, err := strconv.ParseInt(brokers[(int(i)+n)%len(brokers)], 10, 32)
			if err != nil {
				return err
			}
			ids = append(ids, int32(id))
		}
		partitions[strconv.Itoa(int(i))] = ids
	}
	if node["partitions"], err = json.Marshal(partitions); err != nil {
		return err
	}
	data, err := json.Marshal(node)
	if err != nil {
		return err
	}
	return a.coord.Multi(coord.CheckOp(topicsPath+topic+"/"+node.id(), 0), coord.SetOp(topicsPath+topic, data, version))
}
