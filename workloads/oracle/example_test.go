package oracle_test

import (
	"fmt"
	"time"

	"faultline/workloads/history"
	"faultline/workloads/oracle"
)

// A producer is told that its record is stored for good. No consumer ever gets it.
func Example() {
	promise := &oracle.Promise{
		Producers: []oracle.Producer{{Name: "producer-1", Acks: -1, Ordered: true}},
		Groups:    []oracle.Group{{Name: "readers", Topics: []string{"visits"}}},
	}
	now := time.Duration(0)
	rec := history.NewRecorder(func() time.Duration { return now })
	oracles, delivery := oracle.New(promise, nil)
	for _, o := range oracles {
		rec.Attach(o)
	}

	producer := history.Who{Machine: "producer-1", Incarnation: 1}
	record := history.NewID(0, 0)
	rec.Sent(producer, record, "producer-1", "visits", -1, 0, history.HashRecord(nil, []byte("hello")))
	rec.Acked(producer, record, "visits", 0, 0)
	fmt.Println("waits for:", delivery.Waits())

	now = 30 * time.Second
	for _, o := range oracles {
		o.Finish(oracle.End{At: now})
		for _, v := range o.Violations() {
			fmt.Println(v)
		}
	}
	// Output:
	// waits for: group readers has not processed record 0/0, acked at offset 0 of visits/0; it was handed nothing so far, the log ends at 1
	// DELIVER at 30s: group readers never got record 0/0, which producer-1 sent at 0s and which was acked at offset 0 of visits/0; the group was handed nothing from there on; committed is none, the log starts at 0
}
