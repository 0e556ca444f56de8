package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is a request that the broker handles, in versions least to most.
type api struct {
	key         int16
	least, most int16
	// handle answers a decoded request; an error ends the connection. nil: the connection has a path for it.
	handle func(*conn, kmsg.Request) (kmsg.Response, error)
	// keeps: what the request holds may be kept when it is answered.
	keeps bool
}

// apis is what ApiVersions tells, by key.
//
// The oldest versions of Produce are told because librdkafka looks for them (KAFKA-18659), though the message formats that they were made for are refused.
var apis []api

func init() { // a literal would refer to itself through ApiVersions
	apis = []api{
		{0, 0, 13, nil, false},
		{1, 4, 18, nil, false},
		{2, 1, 10, handles((*conn).listOffsets), false},
		{3, 0, 13, handles((*conn).metadata), false},
		{8, 2, 10, handles((*conn).offsetCommit), true},
		{9, 1, 10, handles((*conn).offsetFetch), false},
		{10, 0, 5, handles((*conn).findCoordinator), false},
		{11, 0, 9, handles((*conn).joinGroup), true},
		{12, 0, 4, handles((*conn).heartbeat), false},
		{13, 0, 5, handles((*conn).leaveGroup), true},
		{14, 0, 5, handles((*conn).syncGroup), true},
		{15, 0, 5, handles((*conn).describeGroups), false},
		{16, 0, 5, handles((*conn).listGroups), false},
		{18, 0, 4, handles((*conn).apiVersions), false},
		{19, 0, 7, handles((*conn).createTopics), false},
		{20, 0, 6, handles((*conn).deleteTopics), false},
		{22, 0, 5, handles((*conn).initProducerID), false},
		{23, 2, 4, handles((*conn).offsetForLeaderEpoch), false},
		{32, 0, 4, handles((*conn).describeConfigs), false},
		{37, 0, 3, handles((*conn).createPartitions), true},
		{42, 0, 2, handles((*conn).deleteGroups), true},
		{43, 0, 2, handles((*conn).electLeaders), false},
		{45, 0, 1, handles((*conn).alterPartitionReassignments), true},
		{46, 0, 0, handles((*conn).listPartitionReassignments), false},
		{47, 0, 0, handles((*conn).offsetDelete), true},
	}
}

// handles adapts a handler of one request type.
func handles[Req kmsg.Request, Resp kmsg.Response](fn func(*conn, Req) (Resp, error)) func(*conn, kmsg.Request) (kmsg.Response, error) {
	return func(c *conn, req kmsg.Request) (kmsg.Response, error) {
		resp, err := fn(c, req.(Req))
		if err != nil {
			return nil, err
		}
		resp.SetVersion(req.GetVersion())
		return resp, nil
	}
}

func findAPI(key int16) *api {
	for i := range apis {
		if apis[i].key == key {
			return &apis[i]
		}
	}
	return nil
}
