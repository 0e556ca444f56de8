package oracle

import "testing"

// Session 7 is c1's, who asks for /p and gets it.
const oneWriter = `
	start coord; start c1; coord session.opened - - 7 2000000000 1
	c1 call create=x /p 7 0s 0s asked; coord znode.created /p x 0 2; c1 call create=x /p 7 0s 0s ok
`

func TestAskedForAndDone(t *testing.T) {
	for _, story := range []string{
		"c1 call set=y /p 7 0s 0s asked; coord znode.set /p y 1 3; c1 call set=y /p 7 0s 0s ok; c1 call delete /p 7 0s 0s asked; coord znode.deleted /p - 0 4; c1 call delete /p 7 0s 0s ok",
		// Twice, for two.
		"c1 call set=y /p 7 0s 0s asked; c2 call set=y /p 8 0s 0s asked; coord znode.set /p y 1 3; coord znode.set /p y 2 4; c2 call set=y /p 8 0s 0s ok; c1 call set=y /p 7 0s 0s lost",
		// Refused, never sent, unknown: not done; unknown, and done; done for one who crashed.
		"c1 call set=y /p 7 0s 0s asked; c1 call set=y /p 7 0s 0s refused; c1 call set=y /p 7 0s 0s asked; c1 call set=y /p 7 0s 0s unsent; c1 call set=y /p 7 0s 0s asked; c1 call set=y /p 7 0s 0s lost",
		"c1 call set=y /p 7 0s 0s asked; c1 call set=y /p 7 0s 0s lost; +1s; coord znode.set /p y 1 3",
		"c1 call set=y /p 7 0s 0s asked; crash c1; +1s; coord znode.set /p y 1 3",
		// A node with a number, and one whose name only looks like it.
		"c1 call create=y /p/n- 7 0s 0s asked; coord znode.created /p/n-0000000000 y 0 3; c1 call create=y /p/n- 7 0s 0s ok",
		"c1 call create=y /p/0000000007 7 0s 0s asked; coord znode.created /p/0000000007 y 0 3; c1 call create=y /p/0000000007 7 0s 0s ok",
		// Nodes that go with their session.
		"c1 call create=y /e 7 0s 0s asked; coord znode.created /e y 7 3; coord znode.deleted /e - 7 4; coord session.expired - - 7 0 4",
		"c1 call multi(delete) /p 7 0s 0s asked; coord znode.deleted /p - 0 3; c1 call multi(delete) /p 7 0s 0s ok",
		// The service lost something: that is another promise.
		"c1 call set=y /p 7 0s 0s asked; coord znode.set /p y 1 3; crash coord; start coord; coord znode.set /p z 1 3; coord znode.set /p z 2 4",
	} {
		t.Run("", func(t *testing.T) { silent(t, NewAsked(calmly()), oneWriter+story) })
	}
	silent(t, NewAsked(calmly()), "start coord; coord znode.created /p x 0 1; c1 call set=y /p 7 0s 0s ok") // nobody tells what is asked
}

func TestDoneAndNotAskedFor(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"nobody asked", "coord znode.set /p y 1 3", `transaction 3 did at 0s: set /p with the content "y". That is done once now, and asked for, as far as it may have been done, 0 times`},
		{"another content", "c1 call set=y /p 7 0s 0s asked; coord znode.set /p z 1 3", `set /p with the content "z"`},
		{"twice", "c1 call set=y /p 7 0s 0s asked; coord znode.set /p y 1 3; coord znode.set /p y 2 4", "That is done 2 times now, and asked for, as far as it may have been done, once"},
		{"twice, for one who crashed", "c1 call set=y /p 7 0s 0s asked; crash c1; coord znode.set /p y 1 3; coord znode.set /p y 2 4", "transaction 4 did"},
		{"two nodes with a number", "c1 call create=y /p/n- 7 0s 0s asked; coord znode.created /p/n-0000000000 y 7 3; coord znode.created /p/n-0000000001 y 7 4", "transaction 4 did at 0s: created /p/n-"},
		{"done, and refused", "c1 call multi(delete) /p 7 0s 0s asked; coord znode.deleted /p - 0 3; c1 call multi(delete) /p 7 0s 0s refused", "c1 was told at 0s: refused. But this is done once: deleted /p, and asked for, as far as it may have been done, 0 times"},
		{"done, and never sent", "c1 call set=y /p 7 0s 0s asked; coord znode.set /p y 1 3; c1 call set=y /p 7 0s 0s unsent", "c1 was told at 0s: not connected. But this is done once"},
		{"told, and not done", "c1 call set=y /p 7 0s 0s asked; c1 call set=y /p 7 0s 0s ok", "c1 was told at 0s that this is done: set /p with the content \"y\". Others were told so 0 times, and it is done 0 times"},
		{"an ephemeral node that goes while its session lives", "c1 call create=y /e 7 0s 0s asked; coord znode.created /e y 7 3; coord znode.deleted /e - 7 4; coord session.expired - - 8 0 5", "transaction 4 did at 0s: deleted /e."},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewAsked(calmly()), Session, c.says, oneWriter+c.story) })
	}
}
