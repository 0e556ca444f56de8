package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
	"faultline/coord/tree"
)

// TestScripts applies entries that a script gives, a batch of one server a line, and shows what each command came to:
//
//	server.incarnation first: command; command; ...
//	expire session ...
//
// Commands: open; attach SESSION [wrong]; set SESSION SEAT PATH [VERSION]; create SESSION SEAT PATH; close SESSION SEAT. Two states get the same
// entries; one of them is saved and loaded after each, and both must stay the same.
func TestScripts(t *testing.T) {
	var s, other *State
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s, other = New(), New()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				entry := parseEntry(t, line)
				require.NoError(t, s.Apply(entry, nil, func(o *Outcome) error { describe(&out, o); return nil }))
				require.NoError(t, other.Apply(entry, nil, func(*Outcome) error { return nil }))
				loaded, err := Decode(other.Append(nil))
				require.NoError(t, err)
				other = loaded
				require.Equal(t, s.Append(nil), other.Append(nil))
			}
			if out.Len() == 0 {
				return "nothing\n"
			}
			return out.String()
		})
	})
}

func parseEntry(t *testing.T, line string) []byte {
	head, rest, _ := strings.Cut(line, ":")
	if sessions, ok := strings.CutPrefix(head, "expire "); ok {
		var ids []int64
		for _, word := range strings.Fields(sessions) {
			var id int64
			_, err := fmt.Sscan(word, &id)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		return ExpireEntry(1000, ids)
	}
	var b Batch
	_, err := fmt.Sscanf(head, "%d.%d %d", &b.Origin, &b.Incarnation, &b.First)
	require.NoError(t, err, line)
	for _, text := range strings.Split(rest, ";") {
		c := parseCommand(t, strings.Fields(text))
		b.Commands = c.Append(b.Commands)
		b.Count++
	}
	return b.Append(BeginEntry(nil, 1000))
}

func parseCommand(t *testing.T, words []string) (c Command) {
	number := func(i int) (n int64) {
		_, err := fmt.Sscan(words[i], &n)
		require.NoError(t, err)
		return n
	}
	switch words[0] {
	case "open":
		return Command{Kind: Open, Timeout: 4000, Password: [16]byte{1}}
	case "attach":
		c = Command{Kind: Attach, Session: number(1), Password: [16]byte{1}}
		if len(words) > 2 {
			c.Password[0] = 2
		}
		return c
	case "close":
		return Command{Kind: Close, Session: number(1), Seat: number(2)}
	case "set", "create":
		step := tree.Step{Op: jute.OpSetData, Path: words[3], Data: "x", Version: -1}
		if words[0] == "create" {
			step = tree.Step{Op: jute.OpCreate, Path: words[3], Flags: jute.FlagEphemeral}
		} else if len(words) > 4 {
			step.Version = int32(number(4))
		}
		return Command{Kind: Change, Session: number(1), Seat: number(2), Steps: []tree.Step{step}}
	}
	t.Fatalf("unknown command %q", words)
	return c
}

func describe(out *strings.Builder, o *Outcome) {
	if o.Origin == 0 {
		fmt.Fprintf(out, "silent: ")
	} else {
		fmt.Fprintf(out, "%d.%d/%d: ", o.Origin, o.Incarnation, o.Seq)
	}
	switch {
	case o.Fenced:
		fmt.Fprintf(out, "fenced")
	case o.Code != jute.OK:
		fmt.Fprintf(out, "refused: %v", o.Code)
	default:
		fmt.Fprintf(out, "session %d seat %d", o.Session, o.Seat)
	}
	if o.Txn != nil {
		fmt.Fprintf(out, ", transaction %d", o.Txn.Zxid)
	}
	for _, e := range o.Effects {
		fmt.Fprintf(out, ", %s version %d", e.Path, e.Stat.Version)
	}
	fmt.Fprintln(out)
}

func TestDamagedEntriesAreRefused(t *testing.T) {
	entry := parseEntry(t, "1.1 1: open; set 1 1 /; create 1 1 /a; close 1 1")
	for n := range len(entry) {
		if n < 2 {
			continue
		}
		_ = New().Apply(entry[:n], nil, func(*Outcome) error { return nil }) // no panic
	}
	require.ErrorIs(t, New().Apply([]byte("Z\x02"), nil, nil), tree.ErrCorrupt)
	require.NoError(t, New().Apply(nil, nil, nil))
	state := New()
	require.NoError(t, state.Apply(entry[:], nil, func(*Outcome) error { return nil }))
	saved := state.Append(nil)
	for n := range len(saved) {
		_, err := Decode(saved[:n])
		require.ErrorIs(t, err, tree.ErrCorrupt)
	}
}
