package oracle

import (
	"strings"
	"testing"
	"time"
)

// outcomes judges a producer that has 2 s to deliver a record and waits 100 ms for an answer: each record has its outcome within 4.6 s.
func outcomes() Oracle {
	return NewOutcomes(&Promise{Producers: []Producer{
		{Name: "p", Keyed: true, DeliveryTimeout: 2 * time.Second, RequestTimeout: 100 * time.Millisecond},
		{Name: "p1", Keyed: true},
		{Name: "p2"},
	}})
}

func TestOutcomesThatComeInTime(t *testing.T) {
	for _, story := range []string{
		"sent 0/0 t; sent 0/1 t; +4500ms; acked 0/0 t/0 0; failed 0/1 t/0: delivery timed out",
		"sent 0/0 t; +1h; acked 0/0 t/0 0",                  // it may have been in Send until then
		"sent 0/0 t; +1h; sent 0/1 t; +4s; acked 0/0 t/0 0", // likewise
		"sent 0/0 t; sent 0/1 t; +4s; crash p; +1h",         // nobody can tell any more
		"sent 1/0 t; sent 1/1 t; +1h; acked 1/0 t/0 0",      // no time-out is known
		"sent 0/0 t; sent 0/1 t; fault 1 {fault: pause, target: p}; +1h; acked 0/0 t/0 0",
		"sent 0/0 t; sent 0/1 t; +1s; fault 1 {fault: pause, target: p}; +1h; healed 1 x; +4s; acked 0/0 t/0 0",
		"sent 0/0 t; sent 0/1 t; fault 1 {fault: misfortune, place: fault/producer/report-slow}; +1h; healed 1 x; +4s; acked 0/0 t/0 0",
	} {
		t.Run("", func(t *testing.T) { silent(t, outcomes(), story) })
	}
}

func TestOutcomesThatComeTooLate(t *testing.T) {
	for _, c := range []struct{ story, says string }{
		{"sent 0/0 t; sent 0/1 t; +4700ms; acked 0/0 t/0 0", "record 0 of p on p, sent to t at 0s, is acked"},
		{"sent 0/0 t; sent 0/1 t; +4700ms; failed 0/0 t/0: delivery timed out", "is failed t/0: delivery timed out at 4.7s, 4.7s after"},
		{"sent 0/0 t; sent 0/1 t; +4700ms; unknown 0/0", "is unknown"},
		{"sent 0/0 t; +1s; sent 0/1 t; +5s", "record 0 of p on p, sent to t at 0s, is without an outcome at 6s, 5s after"},
		{"sent 0/0 t; sent 0/1 t; fault 1 {fault: pause, target: b1}; fault 2 {fault: isolate, target: p}; +4700ms; acked 0/0 t/0 0", "is acked"}, // the producer itself goes on
		{"sent 0/0 t; sent 0/1 t; fault 1 {fault: pause, target: p}; +1s; healed 1 x; +4700ms; acked 0/0 t/0 0", "4.7s after"},
	} {
		t.Run(strings.Fields(c.says)[1], func(t *testing.T) { fires(t, outcomes(), Live, c.says, c.story) })
	}
}

const grows = `coord znode.created /brokers/topics/t {"partitions":{"0":[1],"1":[1]}} 0 1; `

func TestWhereKeysGo(t *testing.T) {
	for _, story := range []string{
		"sent 0/0 t 7; sent 0/1 t 8; sent 1/0 t 7; acked 0/0 t/1 0; acked 0/1 t/0 0; acked 1/0 t/1 1",
		"sent 0/0 t; sent 0/1 t; acked 0/0 t/0 0; acked 0/1 t/1 0",     // no keys
		"sent 2/0 t 7; sent 2/1 t 7; acked 2/0 t/0 0; acked 2/1 t/1 0", // it goes by something else
		"sent 0/0 t 7; sent 0/1 u 7; acked 0/0 t/0 0; acked 0/1 u/1 0",
		"sent 0/0 t 7; sent 0/1 t 7; acked 0/0 t/0 0; unknown 0/1 no partition",
		`sent 0/0 t 7; acked 0/0 t/0 0; coord znode.set /brokers/topics/t {"partitions":{"0":[1],"1":[1],"2":[1]}} 1 2; sent 0/1 t 7; acked 0/1 t/2 0`,
	} {
		t.Run("", func(t *testing.T) { silent(t, outcomes(), grows+story) })
	}
	fires(t, outcomes(), Order, "record 1/0 of p1 goes to t/0, but one with the same key, 7, went to partition 1, and the topic always had 2",
		grows+"sent 0/0 t 7; sent 1/0 t 7; acked 0/0 t/1 0; acked 1/0 t/0 0")
	fires(t, outcomes(), Order, "goes to t/0", grows+"sent 0/0 t 7; sent 0/1 t 7; acked 0/0 t/1 0; failed 0/1 t/0: no leader")
}
