package oracle

import "testing"

// session 7 is c1's; /a is there since transaction 2, /p has no children since 3.
const oneWatcher = `
	start coord; start c1; coord session.opened - - 7 6000000000 1
	coord znode.created /a x 0 2; coord znode.created /p x 0 3
`

func TestWatchesThatTellTheirChange(t *testing.T) {
	for _, story := range []string{
		// Of data, of a node that is waited for, of children.
		"c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 told set /a 7; c1 shown get+ /a 7 4 4; +1h",
		"c1 shown exists+ /a 7 3 2; coord znode.deleted /a - 0 4; c1 told deleted /a 7; c1 shown get! /a 7 4; +1h",
		"c1 shown exists+! /b 7 3; coord znode.created /b - 0 4; c1 told created /b 7; c1 shown exists /b 7 4 4; +1h",
		"c1 shown children+ /p 7 3 3; coord znode.created /p/a - 0 4; c1 told children /p 7; coord znode.deleted /p/a - 0 5; c1 shown children /p 7 5 5; +1h",
		"c1 shown children+ /p 7 3 3; coord znode.deleted /p - 0 4; c1 told deleted /p 7; c1 shown children! /p 7 4; +1h",
		// An answer that was under way shows what was before.
		"c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; +1s; c1 shown get /a 7 3 2; c1 told set /a 7; +1h",
		// The answer that leaves the watch comes after the change that it is behind of.
		"coord znode.set /a y 1 4; c1 shown get+ /a 7 3 2; c1 told set /a 7; c1 shown get /a 7 4 4; +1h",
		// Others' watches, other changes, no watch.
		"c1 shown get+ /a 7 3 2; coord znode.created /a/b y 0 4; coord znode.set /p y 1 5; c1 shown other /p 7 5; +1h",
		"c1 shown children+ /p 7 3 3; coord znode.set /p y 1 4; c1 shown get /p 7 4 4; +1h",
		"c1 shown get /a 7 3 2; coord znode.set /a y 1 4; c1 shown get /a 7 4 4; +1h",
		"c1 shown get+! /b 7 3; coord znode.created /b y 0 4; c1 shown get /b 7 4 4; +1h",
		"c1 shown other+ /a 7 3; coord znode.set /a y 1 4; c1 shown get /a 7 4 4; +1h",
		// Two changes are told as one, behind a new connection.
		"c1 shown get+ /a 7 3 2; coord znode.deleted /a - 0 4; coord znode.created /a z 0 5; c1 told set /a 7; c1 left 7 5; +1h",
		"c1 shown children+ /p 7 3 3; coord znode.deleted /p - 0 4; coord znode.created /p z 0 5; c1 told children /p 7; c1 left 7 5; +1h",
		// What was made and deleted while nobody could tell is not owed, but the next time is.
		"c1 shown exists+! /b 7 3; coord znode.created /b - 0 4; coord znode.deleted /b - 0 5; c1 left 7 5; c1 shown exists! /b 7 5; +1h",
		"c1 shown exists+! /b 7 3; coord znode.created /b - 0 4; coord znode.deleted /b - 0 5; c1 left 7 5; coord znode.created /b - 0 6; c1 told created /b 7; +1h",
		// Deleted twice, by one watch of its data and one of its children: it is one event.
		"c1 shown get+ /p 7 3 3; c1 shown children+ /p 7 3 3; coord znode.deleted /p - 0 4; c1 told deleted /p 7; c1 shown get! /p 7 4; +1h",
		// The session or its process is gone, or something disturbs.
		"c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; coord session.expired - - 7 0 5; +1h",
		"c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; crash c1; +1h",
		"c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; fault 1 x; +1h; healed 1 x; +5s; c1 told set /a 7; +1h",
		"c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; crash coord; +1h; start coord; c1 told set /a 7; c1 left 7 4; +1h",
		"c9 shown get+ /a 9 3 2; coord znode.set /a y 1 4; c9 shown get /a 9 4 4; +1h", // a session that nobody knows
		// The service lost what the client saw: that is another promise.
		"c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; crash coord; start coord; coord znode.set /p x 1 3; c1 shown get /a 7 4 4; +1h",
	} {
		t.Run("", func(t *testing.T) { silent(t, NewWatches(calmly()), oneWatcher+story) })
	}
}

func TestWatchesThatDoNot(t *testing.T) {
	for _, c := range []struct{ name, story, says string }{
		{"the new data comes first", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 shown get /a 7 4 4; c1 told set /a 7",
			"session 0x7 on c1 has a watch at /a since transaction 2, and the answer to get of /a shows it transaction 4 at 0s, but it was not told that it was set by transaction 4 at 0s"},
		{"so does what is behind it", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; coord znode.set /p y 1 5; c1 shown get /p 7 5 5; c1 told set /a 7", "the answer to get of /p shows it transaction 5"},
		{"and what is written", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 shown other /p 7 5; c1 told set /a 7", "the answer to a request shows it transaction 5"},
		{"the answer lies about the last transaction", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 shown get /a 7 3 4", "shows it transaction 4"},
		{"the second change", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 told set /a 7; c1 shown get+ /a 7 4 4; coord znode.set /a z 2 5; c1 shown get /a 7 5 5", "at /a since transaction 4"},
		{"a creation", "c1 shown exists+! /b 7 3; coord znode.created /b - 0 4; c1 shown get /b 7 4 4", "was not told that it was created by transaction 4"},
		{"a deletion", "c1 shown exists+ /a 7 3 2; coord znode.deleted /a - 0 4; c1 shown get! /a 7 4", "was not told that it was deleted by transaction 4"},
		{"a child", "c1 shown children+ /p 7 3 3; coord znode.created /p/a - 0 4; c1 shown children /p 7 4 4", "at the children of /p since transaction 3, and the answer to children of /p shows it transaction 4 at 0s, but it was not told that a child was made or deleted by transaction 4"},
		{"the end of the parent", "c1 shown children+ /p 7 3 3; coord znode.deleted /p - 0 4; c1 shown children! /p 7 4", "was not told that it was deleted by transaction 4"},
		{"left again though it changed", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 left 7 4", "the answer that all watches are left again shows it transaction 4"},
		{"waited for and there", "c1 shown exists+! /b 7 3; coord znode.created /b - 0 4; coord znode.deleted /b - 0 5; coord znode.created /b - 0 6; c1 left 7 6", "created by transaction 4"},
		{"waited for, and deleted too late to be missed", "c1 shown exists+! /b 7 3; coord znode.created /b - 0 4; c1 left 7 4; coord znode.deleted /b - 0 5", "created by transaction 4"},
		{"nobody says that the watches are left again", "c1 shown exists+! /b 7 3; coord znode.created /b - 0 4; coord znode.deleted /b - 0 5; c1 shown other /p 7 5", "created by transaction 4"},
		{"never", "c1 shown get+ /a 7 3 2; +1s; coord znode.set /a y 1 4; +20s; request p 1s", "was not told by 21s that it was set by transaction 4 at 1s, though nothing disturbs since 0s and its time-out is 6s"},
		{"never, until the end", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; fault 1 x; +1h; healed 1 x; +20s", "though nothing disturbs since 1h0m0s"},
		{"nothing happened", "c1 shown get+ /a 7 3 2; c1 told set /a 7", "session 0x7 on c1 is told at 0s: set /a, but its watch is at /a since transaction 2, and no such thing happened since"},
		{"nothing happened behind it", "coord znode.set /a y 1 4; c1 shown get+ /a 7 4 4; c1 told set /a 7", "no such thing happened since"},
		{"something else happened", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 told deleted /a 7", "told at 0s: deleted /a"},
		{"not what was waited for", "c1 shown exists+! /b 7 3; coord znode.created /b y 0 4; c1 told set /b 7", "told at 0s: set /b"},
		{"twice", "c1 shown get+ /a 7 3 2; coord znode.set /a y 1 4; c1 told set /a 7; coord znode.set /a y 1 5; c1 told set /a 7", "told at 0s: set /a, but has no watch there"},
		{"of children, who asked for data", "c1 shown get+ /p 7 3 3; coord znode.created /p/a - 0 4; c1 told children /p 7", "has no watch there"},
	} {
		t.Run(c.name, func(t *testing.T) { fires(t, NewWatches(calmly()), Session, c.says, oneWatcher+c.story) })
	}
}

// What many changes push out of memory is owed all the same.
func TestWatchesOverManyChanges(t *testing.T) {
	text := oneWatcher + "c1 shown exists+ /a 7 3 2"
	for i := range 5 * changesKept {
		text += "; coord znode.set /a y " + itoa(int64(i+1)) + " " + itoa(int64(i+4))
	}
	fires(t, NewWatches(calmly()), Session, "was set by transaction 4 at 0s", text+"; c1 shown get /a 7 400 323")
	silent(t, NewWatches(calmly()), text+"; c1 told set /a 7; c1 shown get /a 7 400 323")
}
