package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestBudgetOfRebalances(t *testing.T) {
	capped := calmly()
	capped.RebalancesPerChange = 3
	attempts := func(n int) string { return strings.Repeat("c1 consumer.rebalance g - 1; ", n) }
	change := func(n int) (s string) {
		for i := range n {
			s += fmt.Sprintf("coord znode.created /consumers/g/ids/x%d {} 9; ", i)
		}
		return s
	}
	silent(t, NewBudget(capped), attempts(3))
	silent(t, NewBudget(capped), change(2)+attempts(9))
	silent(t, NewBudget(capped), "start c1; start c2;"+attempts(9))
	silent(t, NewBudget(calmly()), attempts(1000))
	fires(t, NewBudget(capped), Budget, "group g made 4 rebalance attempts for 0 changes of members, brokers and topics and 0 disturbances; the limit is 3 for each", attempts(4))
	fires(t, NewBudget(capped), Budget, "made 10 rebalance attempts for 2 changes", change(2)+attempts(20))
	// Changes of another group's members do not count; those of brokers do.
	fires(t, NewBudget(capped), Budget, "made 4", "coord znode.created /consumers/h/ids/x {} 9;"+attempts(4))
	silent(t, NewBudget(capped), "coord znode.created /brokers/ids/1 {} 9;"+attempts(6))
}

func TestBudgetOfRequests(t *testing.T) {
	capped := calmly()
	capped.RequestsPerSecond = 3
	silent(t, NewBudget(capped), "request c1 0s; request c1 100ms; request c1 200ms; request c2 0s; request c1 1s; request c1 1101ms")
	silent(t, NewBudget(capped), "request c1 900ms; request c1 0s; request c1 950ms; request c1 1s") // they end in another order than they begin
	silent(t, NewBudget(calmly()), strings.Repeat("request c1 0s;", 100))
	fires(t, NewBudget(capped), Budget, "c1 sent 4 requests to brokers in the second before 999ms; the limit is 3", "request c1 0s; request c1 100ms; request c1 200ms; request c1 999ms")
	if got := judge(t, NewBudget(capped), strings.Repeat("request c1 0s;", 100)); len(got) != 1 {
		t.Fatal("told once a second", got)
	}
}

func TestBudgetOfProduceRequests(t *testing.T) {
	capped := calmly()
	capped.Produce = 20 * time.Millisecond
	requests := func(n int, acks, took string) string {
		return strings.Repeat(fmt.Sprintf("produce p1 %s %s; ", acks, took), n)
	}
	silent(t, NewBudget(capped), requests(300, "1", "20ms")+requests(4, "1", "90ms"))
	silent(t, NewBudget(capped), requests(300, "-1", "90ms")) // whoever asks for a flush waits for it
	silent(t, NewBudget(calmly()), requests(300, "1", "90ms"))
	fires(t, NewBudget(capped), Budget, "5 of 301 produce requests with acks=1 took longer than 20ms, allowed is one in a hundred; the slowest, of p1, took 90ms",
		requests(296, "1", "1ms")+requests(5, "1", "90ms"))
	fires(t, NewBudget(capped), Budget, "2 of 2 produce requests", requests(2, "1", "21ms"))
}
