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
	m            machine.Machine
	cfg          Config
	id           uint64
	incarnation  uint64 // grows with every start
	listener     net.Listener
	peerListener net.Listener // nil: there are no others
	port         int

	store *store // of the disk task; when this server is alone, of the commit task

	// Of the commit task alone.
	replication
	watches   *tree.Watches
	attached  map[int64]*conn // session -> its current connection here
	passwords *rand.Rand
	busy      []*conn           // connections with requests under way
	touched   []*conn           // connections with staged output
	notices   []tree.Notice     // reused
	results   []jute.StepResult // reused

	lock machine.Mutex
	// Under lock.
	work         machine.Cond // there is something for the commit task, or the server stops
	diskWork     machine.Cond // there are jobs, or the server stops
	idle         machine.Cond // no task is left
	queue, spare []*request
	inbox        []letter
	unused       []*request // for reuse
	diskQueue    []*job
	conns        []*conn
	peers        []*peer
	inbounds     []net.Conn
	expiry       *tree.Expiry // nil: another server decides who is late
	timer        machine.Timer
	timerAt      time.Duration
	tasks        int
	snapshotting bool
	stopping     bool
	err          error
}

// Start recovers the state from the machine's disk and serves it. It returns when the port is open. Requests wait until a quorum of the
// ensemble is up.
func Start(m machine.Machine, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	fail := func(err error) (*Server, error) { return nil, fmt.Errorf("start coordination server: %w", err) }
	if err := cfg.check(); err != nil {
		return fail(err)
	}
	store, r, err := openStore(m, cfg.DataDir, uint64(cfg.ID), uint64(len(cfg.Peers)))
	if err != nil {
		return fail(err)
	}
	s := &Server{
		m: m, cfg: cfg, id: uint64(cfg.ID), incarnation: store.number, store: store, watches: tree.NewWatches(), attached: map[int64]*conn{},
		passwords: m.Rand("coord/password"), lock: m.NewMutex("coord"),
	}
	if s.listener, err = m.Listen(cfg.Port); err != nil {
		store.file.Close()
		return fail(fmt.Errorf("listen on port %d: %w", cfg.Port, err))
	}
	s.port = portOf(s.listener, cfg.Port)
	if len(cfg.Peers) > 1 {
		if s.peerListener, err = m.Listen(cfg.peerPort()); err != nil {
			s.listener.Close()
			store.file.Close()
			return fail(fmt.Errorf("listen on port %d for the other servers: %w", cfg.peerPort(), err))
		}
	}
	s.work = m.NewCond("coord/work", s.lock)
	s.diskWork = m.NewCond("coord/disk", s.lock)
	s.idle = m.NewCond("coord/idle", s.lock)
	for i, addr := range cfg.Peers {
		if id := uint64(i + 1); id != s.id {
			s.peers = append(s.peers, &peer{id: id, addr: addr, wake: m.NewCond("coord/link", s.lock)})
		}
	}
	if err := s.replicate(r); err != nil {
		return fail(err)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.post(letter{kind: letterPulse})
	s.spawn("coord/commit", s.commit)
	s.spawn("coord/accept", s.accept)
	if !s.alone() {
		s.spawn("coord/disk", s.writeDisk)
		s.spawn("coord/accept-peer", s.acceptPeers)
	}
	for _, p := range s.peers {
		s.spawn("coord/link", func() { s.talk(p) })
	}
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
	s.expireNobody()
	s.work.Broadcast()
	s.diskWork.Broadcast()
	s.listener.Close()
	if s.peerListener != nil {
		s.peerListener.Close()
	}
	for _, p := range s.peers {
		p.cut()
		p.wake.Broadcast()
	}
	for _, nc := range s.inbounds {
		nc.Close()
	}
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
