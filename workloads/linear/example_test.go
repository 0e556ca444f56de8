package linear_test

import (
	"fmt"
	"time"

	"faultline/workloads/linear"
)

// A record that was acked with acks=all must be visible to every later read. Here a reader is told an older end of the log.
func Example() {
	log := linear.NewLog("visits/0", &linear.Budget{})
	first := linear.Batch{Base: 0, Records: 3, Hash: 0xa1 << 56}
	second := linear.Batch{Base: 3, Records: 2, Hash: 0xb2 << 56}
	log.AppendAcked("producer-1", 1*time.Second, 2*time.Second, -1, first)
	log.AppendAcked("producer-1", 3*time.Second, 4*time.Second, -1, second)
	log.Read("consumer-1", 5*time.Second, 6*time.Second, 3)
	log.Saw("consumer-1", 7*time.Second, 8*time.Second, first)
	log.Saw("consumer-1", 7*time.Second, 8*time.Second, second)

	v := log.Check()
	fmt.Println(v.Outcome, v.Invariant)
	fmt.Print(v.Window)
	// Output:
	// violated LIN
	// visits/0 starts as end 3 #0000; these have no order:
	//   [3s 4s]                          producer-1     append 3..4 #b200 acks=all
	//   [5s 6s]                          consumer-1     read: log ends at 3
}
