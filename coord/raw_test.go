package coord_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/coord/jute"
	"faultline/sim/disk"
	"faultline/sim/machine"
)

// raw speaks the protocol by hand.
type raw struct {
	t  *testing.T
	nc net.Conn
	in *jute.PacketReader
}

func dial(t *testing.T, m machine.Machine) *raw {
	nc, err := m.Dial("zk:2181", time.Second)
	require.NoError(t, err)
	return &raw{t, nc, jute.NewPacketReader(nc, jute.MaxPacket)}
}

func (r *raw) write(packets ...[]byte) {
	var b []byte
	for _, p := range packets {
		var mark int
		b, mark = jute.BeginPacket(b)
		b = jute.EndPacket(append(b, p...), mark)
	}
	_, err := r.nc.Write(b)
	require.NoError(r.t, err)
}

func (r *raw) connect(ask jute.ConnectRequest) (jute.ConnectReply, error) {
	if ask.Timeout == 0 {
		ask.Timeout = 6000
	}
	r.write(ask.Append(nil))
	var answer jute.ConnectReply
	packet, err := r.in.Next()
	if err == nil {
		err = answer.Decode(packet)
		answer.Password = append([]byte(nil), answer.Password...)
	}
	return answer, err
}

func (r *raw) next(op jute.OpCode) (jute.Reply, error) {
	var reply jute.Reply
	packet, err := r.in.Next()
	if err != nil {
		return reply, err
	}
	body, err := reply.DecodeHeader(packet)
	require.NoError(r.t, err)
	require.NoError(r.t, reply.DecodeBody(body, op))
	return reply, nil
}

func TestMovedSessionClosesTheOldConnectionAndWhatItStillSends(t *testing.T) {
	for seed := range uint64(10) {
		x := newWorld(t, seed)
		x.up()
		done := false
		x.c.Add("a").Boot(func(m machine.Machine) error {
			m.Sleep(time.Second)
			other, old, moved := dial(t, m), dial(t, m), dial(t, m)
			s, err := old.connect(jute.ConnectRequest{})
			require.NoError(t, err)
			_, err = other.connect(jute.ConnectRequest{})
			require.NoError(t, err)
			get := jute.Request{Xid: 1, Op: jute.OpExists, Path: "/x", Watch: true}
			old.write(get.Append(nil))
			_, err = old.next(jute.OpExists)
			require.NoError(t, err)
			// While the log is slow, requests wait in the queue: first the move, then a late write of the old connection.
			require.NoError(t, x.zk.Disk().Inject(disk.Fault{ID: "slow", Kind: disk.Slow, Ops: disk.OpSync, Delay: 500 * time.Millisecond, Count: 1}))
			create := jute.Request{Xid: 1, Op: jute.OpCreate, Path: "/busy"}
			other.write(create.Append(nil))
			m.Sleep(100 * time.Millisecond)
			attached := false
			m.Go("move", func() {
				again, err := moved.connect(jute.ConnectRequest{SessionID: s.SessionID, Password: s.Password})
				require.NoError(t, err)
				require.Equal(t, s, again)
				attached = true
			})
			m.Sleep(100 * time.Millisecond)
			late := jute.Request{Xid: 2, Op: jute.OpCreate, Path: "/late"}
			old.write(late.Append(nil))
			_, err = old.next(jute.OpCreate)
			require.Error(t, err)
			require.NotContains(t, x.follow.nodes, "/late")
			m.Sleep(time.Second)
			require.True(t, attached)
			// The watch went with the old connection: nothing but the reply comes.
			create = jute.Request{Xid: 1, Op: jute.OpCreate, Path: "/x"}
			moved.write(create.Append(nil))
			reply, err := moved.next(jute.OpCreate)
			require.NoError(t, err)
			require.Equal(t, "/x", reply.Path)
			done = true
			return nil
		})
		x.run(5 * time.Second)
		require.True(t, done)
	}
}

func TestLateSessionThatSpeaksWhileTheLogIsSlowIsReprieved(t *testing.T) {
	x := newWorld(t, 1)
	x.up()
	done := false
	x.c.Add("a").Boot(func(m machine.Machine) error {
		m.Sleep(time.Second)
		late, other := dial(t, m), dial(t, m)
		_, err := late.connect(jute.ConnectRequest{Timeout: 2000})
		require.NoError(t, err)
		_, err = other.connect(jute.ConnectRequest{})
		require.NoError(t, err)
		m.Sleep(1900 * time.Millisecond)
		require.NoError(t, x.zk.Disk().Inject(disk.Fault{ID: "slow", Kind: disk.Slow, Ops: disk.OpSync, Delay: time.Second, Count: 1}))
		create := jute.Request{Xid: 1, Op: jute.OpCreate, Path: "/busy"}
		other.write(create.Append(nil))
		m.Sleep(500 * time.Millisecond) // its deadline and the grace pass while the log is busy
		ping := jute.Request{Xid: jute.XidPing, Op: jute.OpPing}
		late.write(ping.Append(nil))
		reply, err := late.next(jute.OpPing)
		require.NoError(t, err)
		require.Equal(t, jute.XidPing, reply.Xid)
		require.Zero(t, x.follow.expired)
		_, err = late.next(0) // silent from now on
		require.Error(t, err)
		require.Equal(t, 1, x.follow.expired)
		done = true
		return nil
	})
	x.run(20 * time.Second)
	require.True(t, done)
}

func TestStrangersAndLiarsAreTurnedAway(t *testing.T) {
	x := newWorld(t, 1)
	x.up()
	done := false
	x.c.Add("a").Boot(func(m machine.Machine) error {
		m.Sleep(time.Second)
		good, err := dial(t, m).connect(jute.ConnectRequest{})
		require.NoError(t, err)
		for _, ask := range []jute.ConnectRequest{
			{SessionID: good.SessionID, Password: make([]byte, jute.PasswordLen)},
			{SessionID: good.SessionID, Password: good.Password[:15]},
			{SessionID: good.SessionID},
			{SessionID: 99, Password: good.Password},
		} {
			r := dial(t, m)
			answer, err := r.connect(ask)
			require.NoError(t, err)
			require.Zero(t, answer.Timeout)
			require.Zero(t, answer.SessionID)
			_, err = r.next(0)
			require.Error(t, err)
		}
		_, err = dial(t, m).connect(jute.ConnectRequest{LastZxid: 1000})
		require.Error(t, err, "a client from the future")
		r := dial(t, m)
		_, err = r.nc.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		_, err = r.next(0)
		require.Error(t, err)

		r = dial(t, m)
		_, err = r.connect(jute.ConnectRequest{})
		require.NoError(t, err)
		bad := jute.Request{Xid: 1, Op: jute.OpCreate, Path: "/x"}
		unknown := jute.Request{Xid: 2, Op: 77}
		ping := jute.Request{Xid: jute.XidPing, Op: jute.OpPing}
		r.write(bad.Append(nil)[:20], unknown.Append(nil), ping.Append(nil))
		for _, want := range []jute.Reply{{Xid: 1, Code: jute.MarshallingError}, {Xid: 2, Code: jute.Unimplemented}, {Xid: jute.XidPing}} {
			reply, err := r.next(0)
			require.NoError(t, err)
			reply.Zxid = 0
			require.Equal(t, want, reply)
		}
		// One that never says who it is is closed in the end.
		r = dial(t, m)
		_, err = r.next(0)
		require.Error(t, err)
		done = true
		return nil
	})
	x.run(time.Minute)
	require.True(t, done)
}

func TestOneWhoDoesNotReadIsReadNoFurther(t *testing.T) {
	x := newWorld(t, 1)
	x.up()
	sent := 0
	x.c.Add("a").Boot(func(m machine.Machine) error {
		m.Sleep(time.Second)
		r := dial(t, m)
		_, err := r.connect(jute.ConnectRequest{})
		require.NoError(t, err)
		path := "/" + strings.Repeat("x", 4000) // so that few requests fill the network
		create := jute.Request{Xid: 1, Op: jute.OpCreate, Path: path, Data: make([]byte, 100_000)}
		r.write(create.Append(nil))
		get := jute.Request{Xid: 2, Op: jute.OpGetData, Path: path}
		for range 2000 {
			r.write(get.Append(nil))
			sent++
		}
		return nil
	})
	x.run(5 * time.Second)
	require.Less(t, sent, 1000, "the server keeps replies without bound")
}
