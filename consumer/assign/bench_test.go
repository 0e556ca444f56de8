package assign_test

import (
	"fmt"
	"testing"

	"faultline/consumer/assign"
)

// The hundredth member joins a group that has 1000 partitions of 10 topics.
func BenchmarkSticky(b *testing.B) {
	counts := map[string]int32{}
	var topics []string
	for i := range 10 {
		topics = append(topics, fmt.Sprintf("t%d", i))
		counts[topics[i]] = 100
	}
	var members []assign.Member
	for i := range 99 {
		members = append(members, assign.Member{ID: fmt.Sprintf("m%02d", i), Topics: topics})
	}
	plan := assign.Sticky.Assign(members, counts)
	for i := range members {
		members[i].Owned = plan.Of(members[i].ID)
	}
	members = append(members, assign.Member{ID: "new", Topics: topics})
	b.ReportAllocs()
	for b.Loop() {
		assign.Sticky.Assign(members, counts)
	}
}
