package assign_test

import (
	"fmt"

	"faultline/consumer/assign"
)

// A third member joins a group of two. What each of the two has to give up is not given to the new one before it is free.
func Example() {
	counts := map[string]int32{"orders": 6}
	a := assign.CooperativeSticky
	subscribe := []string{"orders"}

	members := []assign.Member{{ID: "ann", Topics: subscribe, Generation: -1}, {ID: "bob", Topics: subscribe, Generation: -1}}
	plan := a.Assign(members, counts)
	for generation := int32(1); generation <= 2; generation++ {
		members = nil
		for _, id := range []string{"ann", "bob", "cat"} {
			members = append(members, assign.Member{ID: id, Topics: subscribe, Owned: plan.Of(id), Generation: generation})
		}
		plan = a.Assign(members, counts)
		for _, s := range plan {
			fmt.Println("round", generation, s.Member, len(s.Partitions))
		}
	}
	// Output:
	// round 1 ann 2
	// round 1 bob 2
	// round 1 cat 0
	// round 2 ann 2
	// round 2 bob 2
	// round 2 cat 2
}
