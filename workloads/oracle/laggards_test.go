package oracle

import (
	"testing"
	"time"
)

func TestLaggards(t *testing.T) {
	const begin = "start b1; start b2; start b3; start z;" + threeReplicas
	began := begin + leads(1, 0, 1, 2, 3) + `
		b1 leader.began t/0 - 0 0 0; +3s
		b1 log.appended t/0 - 0 5; b2 log.appended t/0 - 0 5; b3 log.appended t/0 - 0 5; request p 1s; +1s; request p 1s
		b1 log.appended t/0 - 5 9; b2 log.appended t/0 - 5 9; request p 1s; +1s; b3 log.appended t/0 - 5 7; request p 1s; +2s; `
	of := func(change func(*Promise)) Oracle {
		p := replicatedPromise(-1)
		p.ReplicaLag, p.SessionTimeout = time.Second, 2*time.Second
		if change != nil {
			change(p)
		}
		c := NewCluster(p)
		q := NewQuorum(c)
		return leaning{NewLaggards(q), on(c, q)}
	}
	const says = "b1 leads t/0 and had what lies below 9 at 5s, but b3, which is in sync, has had no more than what lies below 7 since, and is still in sync; the lag that replicas are allowed is 1s"
	fires(t, of(nil), Live, says, began+"request p 1s")
	fires(t, of(nil), Live, says, began+"fault 1 {fault: crash, target: b3, for: 1s}; request p 1s")                // it hits somebody else
	fires(t, of(nil), Live, says, began+"fault 1 {fault: slow-link, target: b3, peer: b1}; request p 1s")           // or keeps the follower away
	fires(t, of(nil), Live, says, began+"fault 1 {fault: partition, target: b1, peer: b2, peer: b3}; request p 1s") // or all of them
	fires(t, of(nil), Live, says, began+"fault 1 {fault: clog, target: z, peer: b3}; request p 1s")
	for _, c := range []string{
		"b3 log.appended t/0 - 7 9; +1h; request p 1s",                       // it has caught up
		leads(1, 0, 1, 2) + "+1h; request p 1s",                              // it was taken out
		leads(2, 1, 2, 3) + "+1h; request p 1s",                              // another leads
		"fault 1 {fault: pause, target: b1}; +1h; request p 1s",              // the leader is hit
		"fault 1 {fault: partition, target: z, peer: b1}; +1h; request p 1s", // or cannot reach the registry
		"fault 1 {fault: misfortune, place: fault/x}; +1h; request p 1s",     // or nobody knows
		"fault 1 {fault: isolate, target: b1}; +1h; request p 1s",
		"fault 1 {fault: slow-link, target: b1, peer: b2, peer: z}; +1h; request p 1s",
		"z znode.deleted /brokers/ids/1 - 1; +1h; request p 1s",                                // it has no session, so it cannot
		"pause b1; +1h; request p 1s",                                                          // it stands still
		"fault 1 {fault: pause, target: b1}; healed 1 x; +2s; request p 1s; +1s; request p 1s", // or did
	} {
		silent(t, of(nil), began+c)
	}
	silent(t, of(func(p *Promise) { p.ReplicaLag = 2 * time.Second }), began+"request p 1s")
}
