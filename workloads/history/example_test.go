package history_test

import (
	"fmt"
	"os"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// A run tells its recorder what happens. Here the last events are kept and printed, and all of them are written as JSON lines.
func Example() {
	now := time.Duration(0)
	rec := history.NewRecorder(func() time.Duration { return now })
	last := history.NewRing(100)
	file := history.NewWriter(os.Stdout)
	rec.Attach(last)
	rec.Attach(file)

	producer, broker := history.Who{Machine: "producer-1", Incarnation: 1}, history.Who{Machine: "broker-1", Incarnation: 2}
	id := history.NewID(0, 7)
	rec.Sent(producer, id, "producer-1", "visits", -1, 0, history.HashRecord(nil, []byte("hello")))
	now += 3 * time.Millisecond
	rec.Traced(broker, machine.Event{Kind: machine.LogVisible, Subject: "visits/2", A: 42})
	rec.Acked(producer, id, "visits", 2, 41)

	file.Flush()
	last.Each(func(e *history.Event) { fmt.Println(e) })
	// Output:
	// {"seq":1,"at":0,"kind":"sent","machine":"producer-1","incarnation":1,"id":"0/7","hash":"26c7827d889f6da3","producer":"producer-1","topic":"visits","partition":-1}
	// {"seq":2,"at":3000000,"kind":"traced","machine":"broker-1","incarnation":2,"trace":{"kind":"log.visible","subject":"visits/2","a":42}}
	// {"seq":3,"at":3000000,"kind":"acked","machine":"producer-1","incarnation":1,"id":"0/7","topic":"visits","partition":2,"offset":41}
	//     0.000000s  producer-1     sent 0/7 by producer-1 to visits
	//     0.003000s  broker-1#2     log.visible visits/2 (42, 0, 0)
	//     0.003000s  producer-1     acked 0/7 at visits/2 offset 41
}
