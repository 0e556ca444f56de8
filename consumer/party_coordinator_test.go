package consumer

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	broker "faultline/broker/client"
	"faultline/broker/wire"
	"faultline/consumer/member"
	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// Heartbeats and commits go out by one connection, whoever dials first: the coordinator takes no commit by an older one than that of the last, so a member that went back to the older of
// two would never commit again.
func TestOneConnectionToTheCoordinator(t *testing.T) {
	for seed := range uint64(20) {
		w := sim.New(sim.Config{Seed: seed})
		c := virtual.New(w, virtual.Config{})
		c.Add("b0").Boot(func(m machine.Machine) error {
			l, err := m.Listen(9092)
			if err != nil {
				return err
			}
			for {
				nc, err := l.Accept()
				if err != nil {
					return err
				}
				m.Go("versions", func() { tellVersions(nc) })
			}
		})
		var first, second *broker.Conn
		p := &party{m: member.New(member.Config{})}
		c.Add("c0").Boot(func(m machine.Machine) error {
			g := &Group{m: m, cfg: Config{RequestTimeout: time.Second}, mu: m.NewMutex("group")}
			g.wake = m.NewCond("wake", g.mu)
			p.g, p.beating = g, m.NewCond("beat", g.mu)
			m.Sleep(10 * time.Millisecond) // the broker listens
			p.m.Found(0, "b0:9092", nil)
			m.Go("commit", func() { first = p.coordinator(&p.steady, time.Second) })
			second = p.coordinator(&p.steady, time.Second)
			m.Sleep(time.Second)
			return nil
		})
		w.Run(900 * time.Millisecond)
		require.NotNil(t, first, "seed %d", seed)
		require.Same(t, first, second, "seed %d", seed)
		require.Same(t, first, p.steady, "seed %d", seed)
		require.NoError(t, first.Err(), "seed %d", seed)
		w.Close()
	}
}

// tellVersions answers what a client asks first.
func tellVersions(nc net.Conn) {
	for {
		frame, err := wire.ReadFrame(nc, nil, wire.MinRequest, 1<<10)
		if err != nil {
			return
		}
		h, _, err := wire.ParseHeader(frame)
		if err != nil {
			return
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = h.Version
		for _, key := range []int16{kmsg.ApiVersions.Int16(), kmsg.Heartbeat.Int16(), kmsg.OffsetCommit.Int16()} {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: 3})
		}
		if _, err := nc.Write(wire.AppendResponse(nil, h.Correlation, resp)); err != nil {
			return
		}
	}
}
