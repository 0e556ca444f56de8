package broker

import (
	"slices"
	"strings"
	"time"

	"faultline/broker/replica"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// autoCreateWait bounds how long a metadata request waits for the topics that it makes.
const autoCreateWait = 5 * time.Second

// metadata tells the live brokers and the leaders of partitions. A partition's only broker leads it as long as it is registered.
// It answers from what the registry's watches told, so it may be behind by a moment, or by as long as the coordination service
// cannot be reached.
func (c *conn) metadata(req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	b := c.b
	mayCreate := b.cfg.AutoCreateTopics && (req.Version < 4 || req.AllowAutoTopicCreation)
	if mayCreate {
		b.autoCreate(req)
	}
	resp := kmsg.NewPtrMetadataResponse()
	old := b.m.Failpoint("fault/broker/metadata-old") // as before it read the list of brokers for the first time

	b.mu.Lock()
	defer b.mu.Unlock()
	live := b.liveLocked()
	if old {
		live = []liveBroker{{id: b.cfg.ID, host: b.self.Host, port: int32(b.self.Port)}}
	}
	for _, l := range live {
		rb := kmsg.NewMetadataResponseBroker()
		rb.NodeID, rb.Host, rb.Port = l.id, l.host, l.port
		resp.Brokers = append(resp.Brokers, rb)
	}
	if b.id.Cluster != "" {
		resp.ClusterID = kmsg.StringPtr(b.id.Cluster)
	}
	resp.ControllerID = live[0].id // while none is known: but for an election of leaders any broker does what the controller would
	if slices.ContainsFunc(live, func(l liveBroker) bool { return l.id == b.controller }) {
		resp.ControllerID = b.controller
	}

	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		for _, name := range b.names {
			resp.Topics = append(resp.Topics, topicMetadata(b.topics[name], live))
		}
		return resp, nil
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		t, code := b.metadataTarget(rt)
		if t != nil {
			resp.Topics = append(resp.Topics, topicMetadata(t, live))
			continue
		}
		b.m.Mark("mark/broker/metadata-of-unknown-topic")
		mt := kmsg.NewMetadataResponseTopic()
		mt.ErrorCode, mt.Topic, mt.TopicID = code, rt.Topic, rt.TopicID
		resp.Topics = append(resp.Topics, mt)
	}
	return resp, nil
}

// metadataTarget finds the topic that is asked for, by name or by id. The lock is held.
func (b *Broker) metadataTarget(rt *kmsg.MetadataRequestTopic) (*topic, int16) {
	if rt.Topic == nil {
		return b.byID[rt.TopicID], codeUnknownTopicID
	}
	if checkTopicName(*rt.Topic) != nil {
		return nil, codeInvalidTopic
	}
	return b.topics[*rt.Topic], codeUnknownTopicOrPartition
}

func topicMetadata(t *topic, live []liveBroker) kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.TopicID = kmsg.StringPtr(t.name), t.id
	mt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.replicas))
	for i := range t.replicas {
		leader, epoch := t.leader(i)
		mp := &mt.Partitions[i]
		mp.Default()
		mp.Partition = int32(i)
		isLive := func(id int32) bool { return slices.ContainsFunc(live, func(l liveBroker) bool { return l.id == id }) }
		mp.Replicas = t.replicas[i]
		mp.Leader, mp.LeaderEpoch = leader, epoch
		if !isLive(leader) {
			mp.ErrorCode, mp.Leader = codeLeaderNotAvailable, -1
		}
		for _, id := range mp.Replicas {
			if !isLive(id) {
				mp.OfflineReplicas = append(mp.OfflineReplicas, id)
			} else if !t.replicated() || i < len(t.states) && replica.Find(t.states[i].ISR, id) >= 0 {
				mp.ISR = append(mp.ISR, id)
			}
		}
	}
	return mt
}

// autoCreate makes the topics that are asked for and missing, with the default numbers of partitions and replicas. What fails, as while there are too few brokers, is told as an unknown topic: the client asks again.
func (b *Broker) autoCreate(req *kmsg.MetadataRequest) {
	until := b.m.Uptime() + autoCreateWait
	for i := range req.Topics {
		rt := &req.Topics[i]
		if rt.Topic == nil || checkTopicName(*rt.Topic) != nil {
			continue
		}
		b.mu.Lock()
		known := b.topics[*rt.Topic] != nil
		b.mu.Unlock()
		if !known {
			b.createTopic(newTopic{name: strings.Clone(*rt.Topic), partitions: b.cfg.Partitions, copies: b.cfg.Replicas}, until)
		}
	}
}
