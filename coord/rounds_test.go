package coord

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
	"faultline/coord/packed"
	"faultline/coord/replica"
)

// A round is served by the answer to it, once what it must see is applied; what joins meanwhile is the next one.
func TestRounds(t *testing.T) {
	r := rounds{open: 1}
	require.False(t, r.Close(0), "nobody joined")
	require.EqualValues(t, 1, r.Join(7))
	require.EqualValues(t, 1, r.Join(7))
	require.EqualValues(t, 1, r.Join(8))
	require.True(t, r.Close(10))
	require.Equal(t, []int64{7, 8}, r.heard)
	require.EqualValues(t, 2, r.Join(7), "too late for the round under way")
	require.True(t, r.Close(20))
	require.EqualValues(t, 1, r.asked)
	require.False(t, r.Settle(100), "not told")
	r.Told(2, 5)
	r.Told(0, 5)
	require.False(t, r.Settle(100), "an answer to another round")
	require.True(t, r.Overdue(15, 4))
	require.False(t, r.Unanswered(15, 4), "it was not sent")
	r.sent, r.sentAt = true, 12
	require.True(t, r.Unanswered(17, 4))
	r.Told(1, 5)
	r.Told(1, 3)
	require.False(t, r.Overdue(time.Hour, 4), "told, but not applied")
	require.False(t, r.Settle(4))
	require.True(t, r.Settle(5))
	require.EqualValues(t, 1, r.confirmed)
	require.True(t, r.Close(30))
	require.EqualValues(t, 2, r.asked)
	require.Equal(t, []int64{7}, r.heard)
	require.False(t, r.sent)
	require.False(t, r.Settle(100), "the answer to the round before is none to this one")
}

func TestQueries(t *testing.T) {
	var q queries
	_, ok := q.Begin()
	require.False(t, ok)
	q.Ask(question{1, 10})
	q.Ask(question{2, 20})
	first, ok := q.Begin()
	require.True(t, ok)
	q.Ask(question{1, 11})
	_, ok = q.Begin()
	require.False(t, ok, "one at a time")
	require.Empty(t, q.Answer([]byte("whatever")))
	require.Equal(t, []question{{1, 10}, {2, 20}}, q.Answer(first))
	require.Empty(t, q.Answer(first))
	second, ok := q.Begin()
	require.True(t, ok)
	require.Empty(t, q.Answer(first), "of the query before")
	q.Reset()
	require.Empty(t, q.Answer(second), "of an earlier reign")
}

// What is not applied is sent again on every new route, and only then.
func TestOutbox(t *testing.T) {
	o := outbox{first: 1}
	var rs []*request
	for range 5 {
		r := &request{size: 10}
		rs = append(rs, r)
		o.Add(r)
	}
	a, b := route{leader: 1, term: 1, link: 1}, route{leader: 1, term: 1, link: 2}
	first, batch := o.Take(a, 30)
	require.EqualValues(t, 1, first)
	require.Equal(t, rs[:3], batch)
	first, batch = o.Take(a, 30)
	require.EqualValues(t, 4, first)
	require.Equal(t, rs[3:], batch)
	_, batch = o.Take(a, 30)
	require.Empty(t, batch)
	var done []*request
	o.Through(2, func(r *request) { done = append(done, r) })
	require.Equal(t, rs[:2], done)
	require.Nil(t, o.At(2))
	require.Same(t, rs[2], o.At(3))
	require.Nil(t, o.At(6))
	first, batch = o.Take(b, 1000)
	require.EqualValues(t, 3, first)
	require.Equal(t, rs[2:], batch)
	o.Through(9, func(*request) {})
	require.Empty(t, o.requests)
	first, batch = o.Take(a, 1)
	require.EqualValues(t, 6, first)
	require.Empty(t, batch)
}

// FuzzFrames: no bytes of another server make this one panic.
func FuzzFrames(f *testing.F) {
	f.Add(appendMessage(nil, local(1)))
	c := openCommand()
	batch := replica.Batch{Origin: 2, Incarnation: 1, First: 1, Count: 1, Commands: c.Append(nil)}
	f.Add(batch.Append(appendSessions(nil, []int64{1, -1})))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMessage(b, []uint64{1, 2, 3}); err == nil {
			again, err := decodeMessage(appendMessage(nil, m), []uint64{1, 2, 3})
			require.NoError(t, err)
			require.Equal(t, appendMessage(nil, m), appendMessage(nil, again))
		}
		d := packed.Reader{Rest: b, Wrap: jute.ErrMalformed}
		readSessions(&d)
		if x, rest, err := replica.DecodeBatch(d.Rest); err == nil && whole(&x) {
			require.NoError(t, replica.New().Apply(append(replica.BeginEntry(nil, 0), d.Rest[:len(d.Rest)-len(rest)]...), nil, func(*replica.Outcome) error { return nil }))
		}
	})
}
