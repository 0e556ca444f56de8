package group_test

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"faultline/broker/group"
)

// A consumer commits an offset. The answer waits for the log; another coordinator finds it there.
func Example() {
	cfg := group.Defaults(func() string { return "some-unique-string" })
	now := group.Time{Up: time.Minute, Wall: 1_700_000_000_000}
	c := group.New(cfg)
	c.Loaded(now) // an empty log

	at := kmsg.NewOffsetCommitRequestTopicPartition()
	at.Partition, at.Offset = 0, 42
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 8, "billing", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetCommitRequestTopicPartition{at}}}
	c.Commit(now, 7, commit)

	var log []group.Record
	for effects := c.Effects(); len(effects) > 0; effects = c.Effects() {
		for _, e := range effects {
			switch e.Kind {
			case group.Append:
				log = append(log, e.Records...)
				fmt.Println("appended, and below the high watermark")
				c.Appended(now, e.Token, true)
			case group.Reply:
				resp := e.Response.(*kmsg.OffsetCommitResponse)
				fmt.Println("request", e.Ref, "is answered with code", resp.Topics[0].Partitions[0].ErrorCode)
			}
		}
	}
	c.Unload()

	next := group.New(cfg)
	for _, r := range log {
		if err := next.Load(r); err != nil {
			fmt.Println(err)
		}
	}
	next.Loaded(now)
	got := next.Fetch(&kmsg.OffsetFetchRequestGroup{Group: "billing"})
	fmt.Println(got.Topics[0].Topic, got.Topics[0].Partitions[0].Offset)
	// Output:
	// appended, and below the high watermark
	// request 7 is answered with code 0
	// orders 42
}
