package peers

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStompFrames(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     frame
		err      string
	}{
		{"a body of a length may have zeros in it", "MESSAGE\nid:7\ncontent-length:3\n\na\x00b\x00", frame{"MESSAGE", map[string]string{"id": "7", "content-length": "3"}, []byte("a\x00b")}, ""},
		{"a body without a length ends at a zero", "\n\r\nRECEIPT\r\nreceipt-id:1\r\n\r\nab\x00", frame{"RECEIPT", map[string]string{"receipt-id": "1"}, []byte("ab")}, ""},
		{"headers are escaped, and the first of a name counts", "MESSAGE\na:x\\cy\\\\n\\n\na:2\n\n\x00", frame{"MESSAGE", map[string]string{"a": "x:y\\n\n"}, []byte{}}, ""},
		{"an error", "ERROR\nmessage:no such queue\n\nqueue x\n\x00", frame{}, "the server says: no such queue queue x"},
		{"a length that is none", "MESSAGE\ncontent-length:-1\n\n\x00", frame{}, `MESSAGE has the content-length "-1", want 0 to 67108864`},
		{"a body that is longer than its length", "MESSAGE\ncontent-length:1\n\nabc\x00", frame{}, "MESSAGE does not end where its content-length says"},
		{"a header without a colon", "MESSAGE\nabc\n\n\x00", frame{}, `MESSAGE has the header "abc", want key:value`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &stomp{r: bufio.NewReader(strings.NewReader(c.in))}
			f, err := s.next()
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, f)
		})
	}
}

// FuzzStomp: what is written is read again, and nothing that comes makes a reader panic.
func FuzzStomp(f *testing.F) {
	f.Add("MESSAGE", "ack", "a:b\\\n", []byte("x\x00y"))
	f.Add("ERROR\n\nx\x00", "content-length", "99999999999999999999", []byte{})
	f.Fuzz(func(t *testing.T, command, key, value string, body []byte) {
		raw := &stomp{r: bufio.NewReader(strings.NewReader(command + "\n" + key + ":" + value + "\n\n" + string(body)))}
		for range 3 {
			if _, err := raw.next(); err != nil {
				break
			}
		}
		var w stomp
		w.add("SEND", body, "value", value)
		r := &stomp{r: bufio.NewReader(bytes.NewReader(w.out))}
		got, err := r.next()
		require.NoError(t, err)
		require.Equal(t, "SEND", got.command)
		require.Equal(t, value, got.headers["value"])
		require.True(t, bytes.Equal(body, got.body))
	})
}
