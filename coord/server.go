package coord

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"faultline/coord/jute"
	"faultline/coord/tree"
	"faultline/sim/machine"
)

// Server is a running coordination server.
type Server struct {
	m        machine.Machine
	cfg      Config
	listener net.Listener
	port     int

	// Of the commit task alone.
	store     *store
	tree      *tree.Tree
	watches   *tree.Watches
	attached  map[int64]*conn // session -> its current connection
	passwords *rand.Rand
	touched   []*conn           // connections with staged output of the batch
	traces    []machine.Event   // of the batch's transactions
	txn       tree.Txn          // reused
	effects   []tree.Effect     // reused
	notices   []tree.Notice     // reused
	results   []jute.StepResult // reused

	lock machine.Mutex
	// Under lock.
	work         machine.Cond // there are requests, or the server stops
	idle         machine.Cond // no task is left
	queue, spare []request
	conns        []*conn
	expiry       *tree.Expiry
	timer        machine.Timer
	timerAt      time.Duration
	tasks        int
	snapshotting bool
	stopping     bool
	err          error
}

// Start recovers the state from the machine's disk and serves it. It returns when the port is open.
func Start(m machine.Machine, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	store, r, err := openStore(m, cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("start coordination server: %w", err)
	}
	listener, err := m.Listen(cfg.Port)
	if err != nil {
		store.file.Close()
		return nil, fmt.Errorf("start coordination server: listen on port %d: %w", cfg.Port, err)
	}
	s := &Server{
		m: m, cfg: cfg, listener: listener, port: portOf(listener, cfg.Port),
		store: store, tree: r.tree, traces: r.untraced, watches: tree.NewWatches(), attached: map[int64]*conn{},
		passwords: m.Rand("coord/password"),
		lock:      m.NewMutex("coord"),
		expiry:    tree.NewExpiry(cfg.TickTime / 10),
	}
	s.work = m.NewCond("coord/work", s.lock)
	s.idle = m.NewCond("coord/idle", s.lock)
	if len(s.traces) > 0 {
		m.Mark("mark/coord/recovered-untraced")
	}
	s.trace()
	s.lock.Lock()
	defer s.lock.Unlock()
	now := m.Uptime()
	for _, id := range r.tree.Sessions() {
		m.Mark("mark/coord/recovered-session")
		timeout, _, _ := r.tree.Session(id)
		s.expiry.Add(id, timeout, now)
	}
	s.arm()
	s.spawn("coord/commit", s.commit)
	s.spawn("coord/accept", s.accept)
	return s, nil
}

// Run starts a server and serves until Stop is called elsewhere (nil) or the server fails.
func Run(m machine.Machine, cfg Config) error {
	s, err := Start(m, cfg)
	if err != nil {
		return err
	}
	return s.Wait()
}

// Port is the port that the server listens on.
func (s *Server) Port() int { return s.port }

// Stop closes all connections and ends the server. The sessions stay: they go on when a server starts on this data within their time-outs.
func (s *Server) Stop() error {
	s.lock.Lock()
	s.stop(nil)
	s.lock.Unlock()
	return s.Wait()
}

// Wait returns when the server has ended: nil after Stop, else the reason, such as a log that cannot be written.
func (s *Server) Wait() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for s.tasks > 0 {
		s.idle.Wait()
	}
	if s.store.file != nil {
		s.store.file.Close()
		s.store.file = nil
	}
	return s.err
}

// stop makes every task end. Under lock.
func (s *Server) stop(reason error) {
	if s.stopping {
		return
	}
	s.stopping, s.err = true, reason
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.work.Broadcast()
	s.listener.Close()
	for _, c := range s.conns {
		c.kill()
	}
}

// spawn starts a task that Wait waits for. Under lock.
func (s *Server) spawn(name string, fn func()) {
	s.tasks++
	s.m.Go(name, func() {
		fn()
		s.lock.Lock()
		if s.tasks--; s.tasks == 0 {
			s.idle.Broadcast()
		}
		s.lock.Unlock()
	})
}

func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		refused := s.m.Failpoint("fault/coord/accept") // as if there were too many
		s.lock.Lock()
		if s.stopping {
			s.lock.Unlock()
			if err == nil {
				nc.Close()
			}
			return
		}
		if err != nil {
			// Such as too many open files: others may close theirs.
			s.lock.Unlock()
			s.m.Sleep(s.cfg.TickTime / 10)
			continue
		}
		if len(s.conns) >= maxConns || refused {
			s.lock.Unlock()
			nc.Close()
			continue
		}
		c := newConn(s, nc)
		s.conns = append(s.conns, c)
		s.spawn("coord/read", func() { s.read(c) })
		s.spawn("coord/write", func() { s.write(c) })
		s.lock.Unlock()
	}
}

// forget removes a connection whose reader has ended. Under lock.
func (s *Server) forget(c *conn) {
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
	}
}

func portOf(l net.Listener, asked int) int {
	if _, port, err := net.SplitHostPort(l.Addr().String()); err == nil {
		if n, err := strconv.Atoi(port); err == nil {
			return n
		}
	}
	return asked
}
