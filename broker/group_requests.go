package broker

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"faultline/broker/group"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The requests of consumer groups. A connection handles one request at a time, so a join or a sync that waits holds up only its own client.

// inGroup hands a request to the coordinator of its group; refused makes the answer of a broker that is not.
func inGroup[Req kmsg.Request, Resp kmsg.Response](c *conn, id string, req Req, refused func(code int16) Resp, call func(co *group.Coordinator, now group.Time, ref group.Ref)) (Resp, error) {
	s, code := c.b.shardOf(id)
	if code != 0 {
		return refused(code), nil
	}
	if err := c.heldUp(s); err != nil {
		var none Resp
		return none, err
	}
	resp := s.ask(call)
	if resp == nil {
		return refused(codeNotCoordinator), nil
	}
	return resp.(Resp), nil
}

// errFromBefore ends a connection that was made before this broker began to coordinate the group that a request is of. What the client sent by it may have been held up on the way while another broker
// coordinated: a commit would set back later ones, a join would begin a rebalance that nobody waits for. Nothing else tells: the generation may be the same. A client that goes on makes another connection.
var errFromBefore = errors.New("a group's request by a connection from before this broker began to coordinate it")

func (c *conn) heldUp(s *shard) error {
	if c.number > s.before {
		return nil
	}
	c.b.m.Mark("mark/broker/group-from-before")
	return errFromBefore
}

func (c *conn) joinGroup(req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, error) {
	refused := func(code int16) *kmsg.JoinGroupResponse {
		r := kmsg.NewPtrJoinGroupResponse()
		r.ErrorCode = code
		return r
	}
	from := group.Client{ID: string(c.clientID), Host: c.nc.RemoteAddr().String()}
	return inGroup(c, req.Group, req, refused, func(co *group.Coordinator, now group.Time, ref group.Ref) { co.Join(now, ref, from, req) })
}

func (c *conn) syncGroup(req *kmsg.SyncGroupRequest) (*kmsg.SyncGroupResponse, error) {
	refused := func(code int16) *kmsg.SyncGroupResponse {
		r := kmsg.NewPtrSyncGroupResponse()
		r.ErrorCode = code
		return r
	}
	return inGroup(c, req.Group, req, refused, func(co *group.Coordinator, now group.Time, ref group.Ref) { co.Sync(now, ref, req) })
}

func (c *conn) heartbeat(req *kmsg.HeartbeatRequest) (*kmsg.HeartbeatResponse, error) {
	refused := func(code int16) *kmsg.HeartbeatResponse {
		r := kmsg.NewPtrHeartbeatResponse()
		r.ErrorCode = code
		return r
	}
	return inGroup(c, req.Group, req, refused, func(co *group.Coordinator, now group.Time, ref group.Ref) { co.Heartbeat(now, ref, req) })
}

func (c *conn) leaveGroup(req *kmsg.LeaveGroupRequest) (*kmsg.LeaveGroupResponse, error) {
	refused := func(code int16) *kmsg.LeaveGroupResponse {
		r := kmsg.NewPtrLeaveGroupResponse()
		r.ErrorCode = code
		return r
	}
	return inGroup(c, req.Group, req, refused, func(co *group.Coordinator, now group.Time, ref group.Ref) { co.Leave(now, ref, req) })
}

func (c *conn) offsetCommit(req *kmsg.OffsetCommitRequest) (*kmsg.OffsetCommitResponse, error) {
	refused := func(code int16) *kmsg.OffsetCommitResponse {
		r := kmsg.NewPtrOffsetCommitResponse()
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		return r
	}
	s, code := c.b.shardOf(req.Group)
	if code != 0 {
		return refused(code), nil
	}
	if err := c.heldUp(s); err != nil {
		return nil, err
	}
	for i := range req.Topics {
		c.b.name(req.Version >= 10, &req.Topics[i].Topic, &req.Topics[i].TopicID)
	}
	resp := s.ask(func(co *group.Coordinator, now group.Time, ref group.Ref) {
		if s.overtaken(req.MemberID, c.number) {
			s.answers[ref] = refused(codeNotCoordinator)
			return
		}
		co.Commit(now, ref, req)
	})
	if resp == nil {
		return refused(codeNotCoordinator), nil
	}
	return resp.(*kmsg.OffsetCommitResponse), nil
}

// name completes what a request says of a topic, by its name or its id. A topic that this broker does not know has no name after that if it was told by its id, and no id if it was told by its name.
func (b *Broker) name(byID bool, name *string, id *[16]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case byID:
		*name = ""
		if t := b.byID[*id]; t != nil {
			*name = t.name
		}
	default:
		*id = topicID{}
		if t := b.topics[*name]; t != nil {
			*id = t.id
		}
	}
}

func (c *conn) offsetDelete(req *kmsg.OffsetDeleteRequest) (*kmsg.OffsetDeleteResponse, error) {
	refused := func(code int16) *kmsg.OffsetDeleteResponse {
		r := kmsg.NewPtrOffsetDeleteResponse()
		r.ErrorCode = code
		return r
	}
	return inGroup(c, req.Group, req, refused, func(co *group.Coordinator, now group.Time, ref group.Ref) { co.DeleteOffsets(now, ref, req) })
}

// offsetFetch tells committed offsets, of one group (versions below 8) or of several.
func (c *conn) offsetFetch(req *kmsg.OffsetFetchRequest) (*kmsg.OffsetFetchResponse, error) {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if req.Version >= 8 {
		for i := range req.Groups {
			resp.Groups = append(resp.Groups, c.fetchOffsets(&req.Groups[i], req.Version >= 10))
		}
		return resp, nil
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = req.Group
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.Partitions = t.Topic, t.Partitions
		one.Topics = append(one.Topics, rt)
	}
	if req.Topics != nil && one.Topics == nil {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	g := c.fetchOffsets(&one, false)
	resp.ErrorCode = g.ErrorCode
	for _, t := range g.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

func (c *conn) fetchOffsets(req *kmsg.OffsetFetchRequestGroup, byID bool) kmsg.OffsetFetchResponseGroup {
	s, code := c.b.shardOf(req.Group)
	if code != 0 {
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = req.Group, code
		return g
	}
	for i := range req.Topics {
		c.b.name(byID, &req.Topics[i].Topic, &req.Topics[i].TopicID)
	}
	until := c.b.leaseUntil()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leads(until) {
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = req.Group, codeNotCoordinator
		return g
	}
	return s.co.Fetch(req)
}

func (c *conn) describeGroups(req *kmsg.DescribeGroupsRequest) (*kmsg.DescribeGroupsResponse, error) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range req.Groups {
		s, code := c.b.shardOf(id)
		if code != 0 {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode = id, code
			resp.Groups = append(resp.Groups, g)
			continue
		}
		s.mu.Lock()
		resp.Groups = append(resp.Groups, s.co.Describe(id))
		s.mu.Unlock()
	}
	return resp, nil
}

func (c *conn) listGroups(req *kmsg.ListGroupsRequest) (*kmsg.ListGroupsResponse, error) {
	resp := kmsg.NewPtrListGroupsResponse()
	for _, s := range c.b.allShards() {
		s.mu.Lock()
		groups, code := s.co.List(req.StatesFilter, req.TypesFilter)
		s.mu.Unlock()
		if code != 0 {
			resp.ErrorCode = code
		}
		resp.Groups = append(resp.Groups, groups...)
	}
	return resp, nil
}

func (c *conn) deleteGroups(req *kmsg.DeleteGroupsRequest) (*kmsg.DeleteGroupsResponse, error) {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range req.Groups {
		s, code := c.b.shardOf(id)
		if code != 0 {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = id, code
			resp.Groups = append(resp.Groups, g)
			continue
		}
		one := s.ask(func(co *group.Coordinator, now group.Time, ref group.Ref) { co.DeleteGroup(now, ref, id, req.Version) })
		if one == nil {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = id, codeNotCoordinator
			resp.Groups = append(resp.Groups, g)
			continue
		}
		resp.Groups = append(resp.Groups, one.(*kmsg.DeleteGroupsResponse).Groups...)
	}
	return resp, nil
}

// allShards lists the shards here by partition.
func (b *Broker) allShards() []*shard {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*shard
	for _, s := range b.shards { // order: sorted below
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y *shard) int { return int(x.p.id) - int(y.p.id) })
	return out
}

// Coordinators are asked for by group.
const coordinatorOfGroup = 0

// findCoordinator tells which broker coordinates a group. The first question makes the offsets topic.
func (c *conn) findCoordinator(req *kmsg.FindCoordinatorRequest) (*kmsg.FindCoordinatorResponse, error) {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	keys := req.CoordinatorKeys
	if req.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	for _, key := range keys {
		rc := kmsg.NewFindCoordinatorResponseCoordinator()
		rc.Key, rc.NodeID = key, -1
		if req.CoordinatorType != coordinatorOfGroup {
			rc.ErrorCode = codeInvalidRequest
		} else if l, ok := c.b.coordinator(key); ok {
			rc.NodeID, rc.Host, rc.Port = l.id, l.host, l.port
		} else {
			rc.ErrorCode = codeCoordinatorNotAvailable
		}
		resp.Coordinators = append(resp.Coordinators, rc)
	}
	if req.Version < 4 {
		rc := &resp.Coordinators[0]
		resp.ErrorCode, resp.NodeID, resp.Host, resp.Port = rc.ErrorCode, rc.NodeID, rc.Host, rc.Port
		resp.Coordinators = nil
	}
	return resp, nil
}

// coordinator is the broker that leads the group's partition of the offsets topic.
func (b *Broker) coordinator(id string) (liveBroker, bool) {
	b.mu.Lock()
	t := b.topics[offsetsTopic]
	copies := b.cfg.OffsetsReplicas
	if copies == 0 {
		copies = max(min(3, len(b.live)), 1)
	}
	enough := copies <= len(b.live)
	b.mu.Unlock()
	if t == nil && !enough {
		return liveBroker{}, false // made now it would have fewer replicas for ever
	}
	if t == nil {
		settings := []setting{{"cleanup.policy", "compact"}}
		if b.cfg.OffsetsLeastISR > 0 {
			settings = append(settings, setting{"min.insync.replicas", strconv.Itoa(b.cfg.OffsetsLeastISR)})
		}
		settings = append(settings, setting{"segment.bytes", strconv.FormatInt(b.cfg.OffsetsSegmentBytes, 10)})
		b.createTopic(newTopic{name: offsetsTopic, partitions: b.cfg.OffsetsPartitions, copies: copies, settings: settings}, b.m.Uptime()+5*time.Second)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t = b.topics[offsetsTopic]; t == nil {
		return liveBroker{}, false
	}
	leader, _ := t.leader(int(group.PartitionOf(id, int32(len(t.replicas)))))
	live := b.liveLocked()
	i := slices.IndexFunc(live, func(l liveBroker) bool { return l.id == leader })
	if i < 0 {
		return liveBroker{}, false
	}
	return live[i], true
}
