package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A topic "t" with one partition on brokers 1, 2 and 3 (machines b1, b2, b3), led by broker 1.
const threeReplicas = `
	b1 log.opened t/0 - 0 0 1; b2 log.opened t/0 - 0 0 1; b3 log.opened t/0 - 0 0 1
	z znode.created /brokers/ids/1 {"host":"b1","epoch":1,"clean_since":1} 11; z znode.created /brokers/ids/2 {"host":"b2","epoch":1,"clean_since":1} 12
	z znode.created /brokers/ids/3 {"host":"b3","epoch":1,"clean_since":1} 13
	b1 broker.up - - 1; b2 broker.up - - 2; b3 broker.up - - 3
	z znode.created /brokers/topics/t {"partitions":{"0":[1,2,3]}}
`

// leads is the line that tells the state of t.
func leads(leader, epoch int, isr ...int) string {
	var members []string
	for _, id := range isr {
		members = append(members, fmt.Sprintf(`{"id":%d,"epoch":1}`, id))
	}
	return fmt.Sprintf("\nz znode.set /brokers/topics/t/state {\"partitions\":[{\"leader\":%d,\"leader_epoch\":%d,\"isr\":[%s],\"controller_epoch\":1}]}\n",
		leader, epoch, strings.Join(members, ","))
}

// at is a state of the topic with its version.
func at(version int, state string) string {
	return fmt.Sprintf("%s %d\n", strings.TrimSuffix(state, "\n"), version)
}

func replicatedPromise(acks int16) *Promise {
	return &Promise{
		Brokers: []string{"b1", "b2", "b3"}, Coord: []string{"z"}, HealWithin: 30 * time.Second,
		Producers: []Producer{{Name: "p", Acks: acks}}, Groups: []Group{{Name: "g", Topics: []string{"t"}}},
		Topics: []Topic{{Name: "t", Partitions: 1, Replicas: 3, MinISR: 2}},
	}
}

func TestDeliveryOfALeaderMove(t *testing.T) {
	begin := threeReplicas + leads(1, 0, 1, 2, 3) + `
		b1 leader.began t/0 - 0 0 0
		sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.committed t/0 - 1 0 1; acked 0/0 t/0 0
		sent 0/1 t; b1 log.appended t/0 - 1 2; acked 0/1 t/0 1`
	move := leads(2, 1, 2, 3) + `
		b2 leader.began t/0 - 1 1 1
		sent 0/2 t; b2 log.appended t/0 - 1 2; b2 log.committed t/0 - 2 1 1; acked 0/2 t/0 1
		b1 log.truncated t/0 - 2 1
		processed c1 g/t/0 0 0/0; processed c1 g/t/0 1 0/2`
	t.Run("takes what was acked with acks=1 and not committed", func(t *testing.T) {
		silent(t, NewDelivery(replicatedPromise(1), nil), begin+move)
	})
	t.Run("takes nothing that was acked with acks=all", func(t *testing.T) {
		fires(t, NewDelivery(replicatedPromise(-1), nil), Deliver, "offset 1 of t/0 holds record 0/1 (acked) and record 0/2", begin+move)
	})
	t.Run("does not excuse what is sent when the old leader knows", func(t *testing.T) {
		fires(t, NewDelivery(replicatedPromise(1), nil), Deliver, "never got record 0/3", begin+move+`
			+1s; sent 0/3 t; b2 log.appended t/0 - 2 3; acked 0/3 t/0 2; b2 log.committed t/0 - 3 1 1`)
	})
	t.Run("does not show more than some leader committed", func(t *testing.T) {
		fires(t, NewDelivery(replicatedPromise(-1), nil), Dirty, "offset 1 of t/0, but only offsets below 1", begin+`
			b2 log.committed t/0 - 2 0 0
			handed c1 g/t/0 1`)
	})
}

// What a log knows of a producer goes when it begins anew: a batch that is sent again then may be there twice, once before that offset and once behind it.
func TestDeliveryOfALogThatBeginsAnew(t *testing.T) {
	idempotent := func() *Delivery {
		p := replicatedPromise(-1)
		p.Producers[0].Idempotent = true
		return NewDelivery(p, nil)
	}
	story := func(anew string) string {
		return threeReplicas + leads(1, 0, 1, 2, 3) + `
			b1 leader.began t/0 - 0 0 0
			sent 0/0 t; b1 log.appended t/0 - 0 1; b1 log.committed t/0 - 1 0 1
			handed c1 g/t/0 0; processed c1 g/t/0 0 0/0
			b2 log.truncated t/0 - ` + anew + leads(2, 1, 2, 3) + `
			b2 leader.began t/0 - 1 1 1
			b2 log.appended t/0 - 1 2; b2 log.committed t/0 - 2 1 1; acked 0/0 t/0 1
			handed c1 g/t/0 1; processed c1 g/t/0 1 0/0`
	}
	silent(t, idempotent(), story("0 1 1\n"))
	fires(t, idempotent(), Idemp, "record 0/0 is in t/0 at offset 0 and at offset 1", story("2 1 0\n"))
	fires(t, idempotent(), Idemp, "record 0/0 is in t/0 at offset 0 and at offset 1", story("1 2 1\n"))
}

func TestLivenessOfReplicas(t *testing.T) {
	begin := "phase load;" + threeReplicas
	live := func() *Liveness { p := replicatedPromise(-1); return NewLiveness(p, NewDelivery(p, nil)) }
	up := "start b1; start b2; start b3; start z\n"
	silent(t, live(), up+begin+leads(1, 0, 1, 2, 3)+"phase heal; +31s")
	fires(t, live(), Live, "broker 3 is not in sync with t/0, which broker 1 leads", up+begin+leads(1, 0, 1, 2)+"phase heal; +31s")
	fires(t, live(), Live, "t/0 has no leader", up+begin+leads(-1, 1, 1)+"phase heal; +31s")
}
