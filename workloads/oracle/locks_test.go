package oracle

import "testing"

// Sessions 7 and 8 are those of c1 and c2, who wait for the lock /l in this order.
const oneLock = `
	start coord; start c1; start c2; coord session.opened - - 7 2000000000 1; coord session.opened - - 8 2000000000 2; coord znode.created /l - 0 3
	coord znode.created /l/b-0000000004 - 7 4; coord znode.created /l/a-0000000005 - 8 5
`

func TestLocksThatOneHolds(t *testing.T) {
	for _, story := range []string{
		"c1 lock.acted /l /l/b-0000000004 7; c1 lock.acted /l /l/b-0000000004 7; coord znode.deleted /l/b-0000000004 - 7 6; c2 lock.acted /l /l/a-0000000005 8",
		// The holder is gone.
		"coord znode.deleted /l/b-0000000004 - 7 6; coord session.expired - - 7 0 6; c2 lock.acted /l /l/a-0000000005 8",
		// A server that is behind traces what is known.
		"coord znode.deleted /l/b-0000000004 - 7 6; start coord-2; coord-2 znode.created /l/b-0000000004 - 7 4; c2 lock.acted /l /l/a-0000000005 8",
		// Other locks, and what is not numbered.
		"coord znode.created /m - 0 6; coord znode.created /m/a-0000000000 - 8 7; c2 lock.acted /m /m/a-0000000000 8; c1 lock.acted /l /l/b-0000000004 7",
		"coord znode.created /l/a - 8 6; coord znode.created /l/0000000000 - 0 7; c1 lock.acted /l /l/b-0000000004 7",
	} {
		t.Run("", func(t *testing.T) { silent(t, NewLocks(calmly()), oneLock+story) })
	}
}

func TestLocksThatSeveralHold(t *testing.T) {
	for _, c := range []struct{ name, invariant, story, says string }{
		{"out of turn", Own1, "c2 lock.acted /l /l/a-0000000005 8", "c2 acts under the lock /l by /l/a-0000000005 at 0s, but /l/b-0000000004 of session 0x7 comes before it"},
		{"a number that comes a second time", Own1, "c1 lock.acted /l /l/b-0000000004 7; coord znode.created /l/c-0000000003 - 8 6; c1 lock.acted /l /l/b-0000000004 7", "/l/c-0000000003 of session 0x8 comes before it"},
		{"after giving it back", Own1, "coord znode.deleted /l/b-0000000004 - 7 6; c1 lock.acted /l /l/b-0000000004 7", "which its session 0x7 does not have"},
		{"by the node of another", Own1, "c2 lock.acted /l /l/b-0000000004 8", "which its session 0x8 does not have"},
		{"after the session", Session, "coord znode.deleted /l/b-0000000004 - 7 6; coord session.expired - - 7 0 6; c1 lock.acted /l /l/b-0000000004 7", "though its session 0x7 has ended"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewLocks(calmly()), c.invariant, c.says, oneLock+c.story) })
	}
}
