package oracle

import "testing"

// c1 was answered that /q/i-0000000000 is there, with the content x.
const oneQueue = `
	start coord; start c1; coord session.opened - - 7 2000000000 1; coord znode.created /q - 0 2
	coord znode.created /q/i-0000000000 x 0 3; c1 numbers /q/i- /q/i-0000000000 x ok
`

func TestSequentialNodes(t *testing.T) {
	for _, story := range []string{
		"coord znode.created /q/i-0000000001 y 0 4; c1 numbers /q/i- /q/i-0000000001 y ok; coord znode.created /q/j-0000000002 z 7 5",
		// Numbers are left out, names are made by hand, other parents count for themselves.
		"coord znode.created /q/k - 0 4; coord znode.created /q/i-0000000002 y 0 5; coord znode.created /q/0000000001x - 0 6; coord znode.created /p - 0 7; coord znode.created /p/i-0000000000 - 0 8",
		// A parent of the same name begins anew.
		"coord znode.deleted /q/i-0000000000 - 0 4; coord znode.deleted /q - 0 5; coord znode.created /q - 0 6; coord znode.created /q/i-0000000000 y 0 7; c1 numbers /q/i- /q/i-0000000000 y ok",
		// Nobody knows whether the service chose the number.
		"coord znode.created /p - 0 4; coord znode.created /p/0000000009 - 0 5; coord znode.created /p/0000000008 - 0 6",
		// What the service lost, Sessions tells.
		"coord znode.created /q/i-0000000001 y 0 4; crash coord; start coord; coord znode.set /q x 1 4; coord znode.created /q/i-0000000000 y 0 5",
	} {
		t.Run("", func(t *testing.T) { silent(t, NewSequential(calmly()), oneQueue+story) })
	}
}

func TestSequentialNodesThatAreNone(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"a name comes again", "coord znode.deleted /q/i-0000000000 - 0 4; coord znode.created /q/i-0000000000 y 0 5", "transaction 5 made /q/i-0000000000 at 0s, but /q/i-0000000000, which has as high a number, was made by transaction 3 before"},
		{"a number comes again", "coord znode.created /q/j-0000000000 y 0 4", "transaction 4 made /q/j-0000000000"},
		{"a lower number", "coord znode.created /q/i-0000000002 y 0 4; coord znode.created /q/i-0000000001 y 7 5", "transaction 5 made /q/i-0000000001 at 0s, but /q/i-0000000002"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewSequential(calmly()), Session, c.says, oneQueue+c.story) })
	}
}
