package net_test

import (
	stdnet "net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
	"faultline/sim/net"
)

func TestAcceptBacklog(t *testing.T) {
	p := newPair(t, 1, net.Config{Backlog: 2})
	p.w.Go(p.sp, "server", func() {
		l, _ := p.server.Listen(1)
		p.sleep(2 * time.Second)
		for {
			l.Accept()
		}
	})
	var at []time.Duration
	for range 3 {
		p.dial(func(c stdnet.Conn) { at = append(at, p.w.Now()) })
	}
	p.finish(t)
	require.Len(t, at, 3)
	require.Less(t, at[1], 10*ms, "two find room")
	require.InDelta(t, 3, at[2].Seconds(), 0.01, "the third attempt of the other does, once the program accepts")
}

func TestPortInUse(t *testing.T) {
	p := newPair(t, 1, net.Config{})
	p.serve(echoAll)
	p.dial(func(c stdnet.Conn) {
		_, err := p.server.Listen(1)
		require.ErrorIs(t, err, machine.ErrAddressInUse, "another listener")
		mine := c.LocalAddr().(net.Addr).Port()
		_, err = p.client.Listen(mine)
		require.ErrorIs(t, err, machine.ErrAddressInUse, "a dialled connection")
		l, err := p.server.Listen(mine)
		require.NoError(t, err, "each host has ports of its own")
		l.Close()
		c.Close()
		p.sleep(time.Second)
		l, err = p.client.Listen(mine)
		require.NoError(t, err, "free again")
		l.Close()
	})
	p.finish(t)
}

func TestPortsRunOut(t *testing.T) {
	p := newPair(t, 1, net.Config{})
	p.w.Go(p.cp, "client", func() {
		for port := 32768; port <= 60999; port++ {
			_, err := p.client.Listen(port)
			require.NoError(t, err)
		}
		_, err := p.client.Listen(0)
		require.ErrorIs(t, err, machine.ErrAddressInUse)
	})
	p.serve(echoAll)
	p.w.Go(p.cp, "dial", func() {
		p.sleep(time.Second)
		_, err := p.client.Dial("server:1", time.Second)
		require.ErrorIs(t, err, machine.ErrAddressInUse)
	})
	p.finish(t)
}
