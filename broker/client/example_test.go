package client_test

import (
	"errors"
	"fmt"
	"time"

	"faultline/broker/client"
	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Produce sends one batch of records to a partition until its outcome is known. This is the loop that every user of a cluster writes: find
// the leader, ask it, and say what was wrong with the metadata. The cluster sees to it that the loop is not a tight one.
func Produce(cluster *client.Cluster, topic string, partition int32, batch []byte) (offset int64, err error) {
	for {
		conn, err := cluster.Leader(topic, partition)
		if errors.Is(err, client.ErrUnknownTopic) || errors.Is(err, client.ErrClosed) {
			return -1, err
		}
		if err != nil {
			continue // nothing was sent
		}
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 5000
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}}}}
		resp, err := conn.Request(req)
		if errors.Is(err, client.ErrNotSent) {
			cluster.Invalidate(topic)
			continue
		}
		if err != nil {
			return -1, err // ErrUnknown: to send it again may append it twice
		}
		p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		switch err := kerr.ErrorForCode(p.ErrorCode); {
		case err == nil:
			return p.BaseOffset, nil
		case errors.Is(err, kerr.NotLeaderForPartition):
			cluster.Invalidate(topic)
		default:
			return -1, err
		}
	}
}

func Example() {
	var m machine.Machine // of the program
	run := func() {
		cluster := client.NewCluster(m, []string{"broker-1:9092", "broker-2:9092"}, client.Config{RequestTimeout: 10 * time.Second})
		defer cluster.Close()
		offset, err := Produce(cluster, "clicks", 0, nil /* a record batch: see package record */)
		fmt.Println(offset, err)
	}
	_ = run
}
