package baseline

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
)

// stage is a world with a server and clients.
type stage struct {
	t      *testing.T
	w      *sim.World
	c      *virtual.Cluster
	server *virtual.Computer
	cfg    Config
	exits  []string // of any machine but regular ends
}

const port = 5672

func newStage(t *testing.T, seed uint64, cfg Config) *stage {
	cfg.Port, cfg.DataDir = port, "queue"
	s := &stage{t: t, w: sim.New(sim.Config{Seed: seed}), cfg: cfg}
	s.c = virtual.New(s.w, virtual.Config{CPU: virtual.CPU{Request: 5 * time.Microsecond, Record: 100 * time.Nanosecond, Syscall: time.Microsecond, Copy: 10e9, Sum: 20e9}})
	s.c.OnExit = func(c *virtual.Computer, err error) {
		if err != nil {
			s.exits = append(s.exits, fmt.Sprint(c.Name(), ": ", err))
		}
	}
	s.server = s.c.Add("server")
	s.boot()
	t.Cleanup(s.w.Close)
	return s
}

func (s *stage) boot() {
	s.server.Boot(func(m machine.Machine) error { return Run(m, s.cfg) })
}

// until runs the world up to a time.
func (s *stage) until(at time.Duration) {
	out := s.w.Run(at)
	require.Equal(s.t, sim.Deadline, out.Kind, out)
	require.Empty(s.t, s.exits)
}

var bindings = []Binding{{"visits", "all"}}

// sending is a machine that sends numbered messages and counts what it is told.
type sending struct {
	confirmed, failed int
	closed            bool
}

func (s *stage) send(name string, from, to int, cfg SenderConfig) *sending {
	out := &sending{}
	s.c.Add(name).Boot(func(m machine.Machine) error {
		cfg.Addr = fmt.Sprintf("server:%d", port)
		if cfg.Queues == nil {
			cfg.Queues = bindings
		}
		cfg.Told = func(err error) {
			if err == nil {
				out.confirmed++
			} else {
				out.failed++
			}
		}
		snd, err := NewSender(m, cfg)
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			if err := snd.Send("visits", []byte(fmt.Sprintf("message %06d", i))); err != nil {
				return err
			}
		}
		err = snd.Close()
		out.closed = true
		m.Sleep(time.Second) // so that the end of the process does not cut off what is under way
		return err
	})
	return out
}

// receiving is a machine that receives.
type receiving struct {
	comp  *virtual.Computer
	got   []string
	again int
	ids   map[uint64]string
}

func (s *stage) receive(name string, cfg ReceiverConfig, hand func(m machine.Machine)) *receiving {
	out := &receiving{comp: s.c.Add(name), ids: map[uint64]string{}}
	out.comp.Boot(func(m machine.Machine) error {
		cfg.Addrs = []string{fmt.Sprintf("server:%d", port)}
		if cfg.Queues == nil {
			cfg.Queues = bindings
		}
		cfg.Hand = func(msg Message) {
			if hand != nil {
				hand(m)
			}
			out.got = append(out.got, string(msg.Value))
			out.ids[msg.ID] = string(msg.Value)
			if msg.Again {
				out.again++
			}
		}
		if _, err := NewReceiver(m, cfg); err != nil {
			return err
		}
		m.Sleep(time.Hour)
		return nil
	})
	return out
}

func messages(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("message %06d", i))
	}
	return out
}

// distinct counts the messages that several receivers got, without repetitions.
func distinct(all ...*receiving) map[string]int {
	out := map[string]int{}
	for _, r := range all {
		for _, v := range r.got {
			out[v]++
		}
	}
	return out
}
