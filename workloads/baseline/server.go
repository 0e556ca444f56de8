package baseline

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"faultline/sim/machine"
)

// Server is a running queue broker.
type Server struct {
	m        machine.Machine
	cfg      Config
	listener net.Listener

	mu       machine.Mutex
	x        *index
	j        *journal
	tidy     machine.Cond // segments may go
	conns    []*conn
	awaiting []*conn // these have answers that wait for the journal
	accepted int64
}

// Run serves until the process ends. It returns an error when the journal cannot be read.
func Run(m machine.Machine, cfg Config) error {
	s, err := Start(m, cfg)
	if err != nil {
		return err
	}
	s.mu.Lock()
	forever := m.NewCond("queue.forever", s.mu)
	for {
		forever.Wait()
	}
}

// Start reads the journal and returns once the server takes connections. It ends with its process.
func Start(m machine.Machine, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	mu := m.NewMutex("queue")
	s := &Server{m: m, cfg: cfg, mu: mu, x: newIndex(), j: newJournal(m, cfg, mu), tidy: m.NewCond("queue.tidy", mu)}
	s.j.told, s.j.opening = s.progress, s.x.bindings
	// The port first: a second server on this machine must not get at the journal.
	var err error
	if s.listener, err = m.Listen(cfg.Port); err != nil {
		return nil, fmt.Errorf("queue: listen on port %d: %w", cfg.Port, err)
	}
	s.mu.Lock()
	err = s.recover()
	s.mu.Unlock()
	if err != nil {
		s.listener.Close()
		return nil, fmt.Errorf("queue: read the journal: %w", err)
	}
	m.Go("queue.journal.write", s.j.write)
	m.Go("queue.journal.sync", s.j.sync)
	m.Go("queue.clean", s.clean)
	m.Go("queue.accept", s.accept)
	m.Go("queue.heartbeat", s.beat)
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// progress is called when the journal got further. The lock is held.
func (s *Server) progress() {
	kept := s.awaiting[:0]
	for _, c := range s.awaiting {
		if c.answerable(0) {
			c.wake.Signal()
		}
		if c.awaits = len(c.answers) > 0; c.awaits {
			kept = append(kept, c)
		}
	}
	clear(s.awaiting[len(kept):])
	s.awaiting = kept
	if s.j.dead() || s.j.sparse() {
		s.tidy.Signal()
	}
}

// accept is the task that takes connections.
func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			s.m.Exit(fmt.Errorf("queue: listen: %w", err))
		}
		if err != nil {
			s.m.Sleep(10 * time.Millisecond) // out of descriptors, say: connections that end will help
			continue
		}
		s.mu.Lock()
		s.accepted++
		c := newConn(s, nc)
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		s.m.Go("queue.read", c.read)
		s.m.Go("queue.write", c.write)
	}
}

// beat is the task that asks all clients for a sign of life and cuts those that give none.
func (s *Server) beat() {
	for {
		s.m.Sleep(s.cfg.Heartbeat / 3)
		s.mu.Lock()
		now := s.m.Uptime()
		for _, c := range slices.Clone(s.conns) {
			if now-c.heard >= s.cfg.Heartbeat {
				c.end()
				continue
			}
			c.ping = true
			c.wake.Signal()
		}
		s.mu.Unlock()
	}
}
