package assign

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// noteHead begins the user data of an assignment that has a note.
const noteHead = "divided"

// Note adds to the leader's own assignment how many partitions of each topic its plan divides. A static leader that restarts gets its assignment back and may make no other (KIP-814): by the note it
// knows whether a topic has got more partitions since. Other implementations leave the user data of an assignment alone.
func Note(assignment []byte, counts map[string]int32) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	if a.ReadFrom(assignment) != nil {
		return assignment
	}
	topics := make([]string, 0, len(counts))
	// order: sorted below
	for t := range counts {
		topics = append(topics, t)
	}
	slices.Sort(topics)
	note := noteHead
	for _, t := range topics {
		note += " " + t + "=" + strconv.Itoa(int(counts[t])) // no name of a topic has a space or an equals sign
	}
	a.UserData = []byte(note)
	return a.AppendTo(nil)
}

// Noted reads a note. False: the assignment has none.
func Noted(assignment []byte) (counts map[string]int32, ok bool) {
	a := kmsg.NewConsumerMemberAssignment()
	if len(assignment) == 0 || a.ReadFrom(assignment) != nil {
		return nil, false
	}
	words := strings.Split(string(a.UserData), " ")
	if words[0] != noteHead {
		return nil, false
	}
	counts = map[string]int32{}
	for _, w := range words[1:] {
		topic, number, _ := strings.Cut(w, "=")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 0 {
			return nil, false
		}
		counts[topic] = int32(n)
	}
	return counts, true
}
