package oracle

import (
	"testing"
	"time"
)

// session 7 is c1's and owns two nodes.
const oneSession = `
	start coord; start c1; coord session.opened - - 7 6000000000
	coord znode.created /consumers/g/ids/c1 {} 7; c1 consumer.joined g c1 7; own g/t/0 c1 7
`

func TestSessionsThatLiveKeepTheirNodes(t *testing.T) {
	for _, story := range []string{
		"claimed c1 g/t/0 0; handed c1 g/t/0 0; handed c1 g/t/0 1; +1h",
		// It expires, with all that is its own.
		"+7s; disown g/t/0 7; coord znode.deleted /consumers/g/ids/c1 - 7; coord session.expired - - 7; +1h",
		"coord znode.deleted /consumers/g/ids/c1 - 7 90; disown g/t/0 7; +1ns; coord session.closed - - 7 0 90; +1h",
		// Nodes are deleted because somebody asks.
		"+1s; disown g/t/0 7; +1s; c1 call delete /consumers/g/owners/t/0 7 500ms 2s ok; +1h",
		"+1s; disown g/t/0 7; +1s; c1 call delete /consumers/g/owners/t/0 7 500ms 600ms lost; +1h",
		"+1s; disown g/t/0 7; +1s; c2 call multi(delete) /consumers/g/owners/t/0 8 500ms 2s ok; +1h",
		"c1 call get /x 7 0s 0s ok; +1s; disown g/t/0 7; crash c2; +1h",                                // it asked and died
		"c1 call get /x 7 0s 0s ok; crash c2; +1s; disown g/t/0 7; +1h; coord znode.deleted /x - 0 99", // its request was under way
		"+1s; disown g/t/0 7; +1h",                            // without tap nobody knows
		"+1s; c1 call get /x 7 0s 1s ok; disown g/t/0 7; +1m", // the answer may be under way at the end
		"coord znode.created /persistent x 0; coord znode.deleted /persistent - 0; c1 call get /x 7 0s 0s ok; +1h",         // not ephemeral
		"coord session.expired - - 9; coord session.opened - - 9 6000000000; coord znode.created /x x 9; +1h",              // an id that is used again
		"+7s; disown g/t/0 7; coord znode.deleted /consumers/g/ids/c1 - 7; coord session.expired - - 7; handed c0 g/t/0 0", // a consumer that nobody knows is Ownership's
	} {
		t.Run("", func(t *testing.T) { silent(t, NewSessions(calmly()), oneSession+story) })
	}
}

func TestSessionsAndTheirNodes(t *testing.T) {
	expire := "+7s; disown g/t/0 7; coord znode.deleted /consumers/g/ids/c1 - 7; coord session.expired - - 7; "
	for _, c := range []struct{ name, story, says string }{
		{"a node survives expiry", "+7s; disown g/t/0 7; coord session.expired - - 7", "ephemeral /consumers/g/ids/c1 survives its session 0x7, which ended at 7s"},
		{"a node survives closing", "disown g/t/0 7; coord session.closed - - 7", "ephemeral /consumers/g/ids/c1 survives"},
		{"made by an ended session", expire + "own g/t/0 c1 7", "ephemeral /consumers/g/owners/t/0 was made by session 0x7, which ended at 7s"},
		{"made by no session", "own g/t/1 c9 9", "was made by session 0x9, which was never opened"},
		{"removed without being asked", "+1s; c1 call get /x 7 0s 1s ok; disown g/t/0 7; +1h", "ephemeral /consumers/g/owners/t/0 went at 1s though its session 0x7 lived and nobody asked"},
		{"the request was for another node", "+1s; disown g/t/0 7; +1s; c1 call delete /consumers/g/owners/t/1 7 500ms 2s ok; +1h", "nobody asked"},
		{"the request came later", "+1s; disown g/t/0 7; +2s; c1 call delete /consumers/g/owners/t/0 7 2s 3s ok; +1h", "nobody asked"},
		{"the request was refused", "+1s; disown g/t/0 7; +1s; c1 call delete /consumers/g/owners/t/0 7 500ms 2s refused; +1h", "nobody asked"},
		{"expired too early", "+10s; c1 call get /x 7 9s 10s ok; +4s; disown g/t/0 7; coord znode.deleted /consumers/g/ids/c1 - 7; coord session.expired - - 7", "session 0x7 expired at 14s, though it was heard of at 9s and its time-out is 6s"},
		{"served after its end", expire + "+2s; c1 call get /x 7 8s 9s ok", "get of /x succeeded for session 0x7 of c1 from 8s to 9s, though it ended at 7s"},
		{"handed over after its end", "handed c1 g/t/0 0;" + expire + "handed c1 g/t/0 1", "c1 on c1 is handed offset 1 of g/t/0, though its session 0x7 ended at 7s"},
		{"expired though all is well", "+18s; disown g/t/0 7; coord znode.deleted /consumers/g/ids/c1 - 7; coord session.expired - - 7", "session 0x7 of c1 expired at 18s, though its process is up and nothing disturbs since 0s"},
		{"a broker's expired though all is well", "start b1; coord session.opened - - 1 6000000000; coord znode.created /brokers/ids/1 {} 1; b1 broker.up - - 1; +18s; coord znode.deleted /brokers/ids/1 - 1; coord session.expired - - 1", "session 0x1 of b1 expired"},
		{"the service lost a transaction", "coord znode.created /x - 0 90; coord znode.set /x a 1 91; crash coord; start coord; coord znode.set /x a 1 91; coord znode.set /x b 2 92; crash coord; start coord; coord znode.set /x c 2 92", "the coordination service lost transaction 92 and what came after: it is znode.set of /x now"},
		{"never expires", "c1 call get /x 7 0s 0s ok; +1s; crash c1; +12s; request p 1s", "session 0x7 still lives at 13s, though its process on c1 is gone since 1s"},
		{"never expires, at the end", "+1s; crash c1; +12s", "session 0x7 still lives at 13s"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewSessions(calmly()), Session, c.says, oneSession+c.story) })
	}
}

func TestSessionsExpireInTime(t *testing.T) {
	expire := "disown g/t/0 7; coord znode.deleted /consumers/g/ids/c1 - 7; coord session.expired - - 7; "
	heard := "+10s; c1 call get /x 7 9s 10s ok; "
	silent(t, NewSessions(calmly()), oneSession+heard+"+5s;"+expire)
	silent(t, NewSessions(calmly()), oneSession+"+10s; c1 call get /x 7 9s 10s lost; +4s;"+expire) // nobody knows whether it was heard
	// A ping counts like a request, and its answer may come late.
	ping := "+10s; c1 alive 7 9s; "
	silent(t, NewSessions(calmly()), oneSession+ping+"+5s;"+expire+"c1 alive 7 8900ms")
	fires(t, NewSessions(calmly()), Session, "session 0x7 expired at 14s, though it was heard of at 9s and its time-out is 6s", oneSession+ping+"+4s;"+expire)
	fires(t, NewSessions(calmly()), Session, "session 0x7 expired at 14s, though it was heard of at 9s and its time-out is 6s", oneSession+"+14s;"+expire+"+1s; c1 alive 7 9s")
	fires(t, NewSessions(calmly()), Session, "session 0x7 expired at 14s, though it was heard of at 9s and its time-out is 6s", oneSession+"+14s;"+expire+"+1s; c1 call get /x 7 9s 15s ok")
	fires(t, NewSessions(calmly()), Session, "it was told to live for session 0x7 of c1 from 15s to 16s, though it ended at 14s", oneSession+"+14s;"+expire+"+2s; c1 alive 7 15s")
	drifting := calmly()
	drifting.Drift = 0.05
	silent(t, NewSessions(drifting), oneSession+heard+"+4700ms;"+expire)
	fires(t, NewSessions(drifting), Session, "expired at 14.698s", oneSession+heard+"+4698ms;"+expire)
	// A clock that changed its rate may make the service begin the time-out anew, once.
	silent(t, NewSessions(drifting), oneSession+"+1s; crash c1; fault 1 x; +1h; healed 1 x; +17s;"+expire)
	fires(t, NewSessions(drifting), Session, "session 0x7 still lives", oneSession+"+1s; crash c1; fault 1 x; +1h; healed 1 x; +18s; request p 1s")
	fires(t, NewSessions(calmly()), Session, "session 0x7 still lives", oneSession+"+1s; crash c1; fault 1 x; +1h; healed 1 x; +12s; request p 1s")
	// The process is gone, but the service cannot know as long as something disturbs.
	silent(t, NewSessions(calmly()), oneSession+"+1s; crash c1; +10s;"+expire+"+1h")
	silent(t, NewSessions(calmly()), oneSession+"+1s; crash c1; fault 1 x; +1h; healed 1 x; +10s;"+expire)
	silent(t, NewSessions(calmly()), oneSession+"+1s; crash c1; crash coord; +1h; start coord; +10s;"+expire)
	// Its process restarts and opens another session; the old one must go all the same.
	fires(t, NewSessions(calmly()), Session, "session 0x7 still lives", oneSession+"+1s; crash c1; start c1; coord session.opened - - 8 6000000000; c1 consumer.joined g c1 8; +12s")
}

func TestSessionsGetTheTimeOutThatTheyAskFor(t *testing.T) {
	granted := func(timeout time.Duration) *Promise {
		p := calmly()
		p.Granted = map[string]time.Duration{"c1": timeout}
		return p
	}
	silent(t, NewSessions(granted(6*time.Second)), oneSession)
	silent(t, NewSessions(granted(6*time.Second)), oneSession+"coord session.opened - - 8 2000000000; c2 call get /x 8 0s 0s ok") // of a machine that may have any
	fires(t, NewSessions(granted(2*time.Second)), Session, "session 0x7 of c1 got a time-out of 6s, for what it asked it should be 2s", oneSession)
}
