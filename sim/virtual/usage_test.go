package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/disk"
	"faultline/sim/machine"
	"faultline/sim/net"
	"faultline/sim/virtual"
)

// What is busy across an edge of the window counts as far as it is inside; what is queued behind something else counts when it is served.
func TestUsageIsWhatIsBusyInTheWindow(t *testing.T) {
	const ms = time.Millisecond
	w := sim.New(sim.Config{Seed: 1})
	defer w.Close()
	c := virtual.New(w, virtual.Config{
		CPU:  virtual.CPU{Cores: 2, Request: 10 * ms},
		Disk: disk.Config{WriteBandwidth: 4096 * 100, Seek: 5 * ms, Flush: 50 * ms},
		Net:  net.Config{Latency: net.Distribution{Min: ms, Max: ms}, Bandwidth: 100_000, Receive: 100_000, MTU: 1500, Packet: time.Microsecond, NoSlowStart: true},
	})
	a, b := c.Add("a"), c.Add("b")
	c.Watch(sim.Window{From: 100 * ms, To: 200 * ms})
	b.Boot(func(m machine.Machine) error {
		l, err := m.Listen(1)
		require.NoError(t, err)
		nc, err := l.Accept()
		require.NoError(t, err)
		m.Sleep(190*ms - m.Uptime())
		_, err = nc.Write(make([]byte, 1000)) // 1090 bytes with headers, 10.9 ms
		return err
	})
	a.Boot(func(m machine.Machine) error {
		nc, err := m.Dial("b:1", time.Second)
		require.NoError(t, err)
		m.Sleep(95*ms - m.Uptime())
		for range 3 { // two at once, from 95 to 105; the third from 105 to 115
			m.Go("worker", func() { m.Work(machine.Work{Requests: 1}) })
		}
		m.Sleep(120*ms - m.Uptime())
		for range 2 {
			m.Work(machine.Work{Requests: 1}) // to 140
		}
		require.NoError(t, write(m, "x", "text", true)) // a page of 10 ms, a seek; then the folder's seek
		_, err = nc.Read(make([]byte, 1000))
		return err
	})
	w.Run(forever)
	u := a.Usage()
	require.Equal(t, 2, u.Cores)
	require.Equal(t, 5*ms+5*ms+10*ms+20*ms, u.CPU)
	require.Equal(t, 20*ms, u.Task)
	require.Equal(t, "main", u.TaskName)
	require.Equal(t, 15*ms, u.Disk, "the folder's seek comes after the file's flush, at 205 ms")
	require.Equal(t, 9*ms, u.Takes, "from 191 ms")
	require.Equal(t, 10*ms, b.Usage().Sends)
}
