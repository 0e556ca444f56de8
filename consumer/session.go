package consumer

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coord "faultline/coord/client"
	"faultline/sim/machine"
)

// session is one session with the coordination service, from the connection to the end. When it expires, everything
// that it owned is gone, and the group goes on in a new one.
type session struct {
	g          *Group
	client     *coord.Client
	brokers    *coord.Roster[brokerState] // only the rebalance task looks
	members    *coord.Roster[peer]        // only the rebalance task looks
	topics     map[string]topicNodes      // only the rebalance task looks
	dead       atomic.Bool                // it expired
	lease      atomic.Int64               // Uptime until which it is surely alive, as last heard
	registered bool                       // only the rebalance task looks
}

var (
	// errTaken: another session owns the node. A watch waits for its end.
	errTaken = errors.New("owned by another session")
	// errClosing ends a step that makes no sense in a group that is about to close.
	errClosing = errors.New("the group is closing")
	// errLapsed ends a step that only the owner may take: the session may be over.
	errLapsed = errors.New("the session's lease ran out")
	// errMisfortune is what a failpoint reports.
	errMisfortune = errors.New("failpoint")
)

// holds tells whether the session is surely alive: whether its owner may act as such right now. It takes no lock and is no scheduling point.
func (s *session) holds() bool {
	return !s.dead.Load() && time.Duration(s.lease.Load()) > s.g.m.Uptime()
}

// renew asks the client for the lease, which only grows. It is a scheduling point: what was checked before must be checked again.
func (s *session) renew() bool {
	s.lease.Store(int64(s.client.LeaseUntil()))
	return s.holds()
}

func (s *session) commit(targets []target) error { return s.g.commit(s, targets) }

// onEvent runs on the coordination client's task.
func (s *session) onEvent(e coord.Event) {
	g := s.g
	g.m.Failpoint("fault/consumer/event-late")
	if e.Type == coord.EventSession && e.State == coord.StateExpired {
		g.expired(s)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.session != s || e.Type == coord.EventSession && e.State != coord.StateConnected {
		return
	}
	// After a reconnection too: what happened in between may have gone unnoticed.
	g.stale = true
	if e.Type == coord.EventDeleted && e.Path == g.blocker {
		g.unblocked = true
	}
	g.wake.Broadcast()
	for _, st := range g.streams {
		st.more.Broadcast() // one may wait for the lease
	}
}

// expired ends what the session owned: nothing more is handed over, the fetchers stop, and a rebalance is due in a new session.
func (g *Group) expired(s *session) {
	s.dead.Store(true)
	g.mu.Lock()
	if g.session == s {
		if len(g.claims) > 0 {
			g.m.Mark("mark/consumer/expired-with-claims")
		}
		_, conns := g.revokeAll()
		g.stale = true
		g.wake.Broadcast()
		defer closeConns(conns)
	}
	g.mu.Unlock()
}

// enter makes sure that the member is registered in a live session. nil: the group is closing.
func (g *Group) enter() *session {
	for {
		g.mu.Lock()
		s, closing := g.session, g.closing
		g.mu.Unlock()
		if closing {
			return nil
		}
		if s != nil && s.dead.Load() {
			s.client.Close() // there is nothing left to close but the client's own tasks
			s = nil
		}
		if s == nil {
			s = &session{g: g, topics: map[string]topicNodes{}}
			s.client = coord.Connect(g.m, coord.Config{
				Servers:        g.cfg.Coord,
				SessionTimeout: g.cfg.SessionTimeout,
				OnEvent:        s.onEvent,
				Tap:            g.cfg.CoordTap,
				Name:           g.cfg.Group + "/" + g.id,
			})
			s.brokers = coord.NewRoster(s.client, brokersPath, decodeBroker)
			s.members = coord.NewRoster(s.client, g.paths.ids, decodeMember)
			g.mu.Lock()
			g.session = s
			g.mu.Unlock()
		}
		if s.registered {
			return s
		}
		err := s.register()
		if err == nil && g.m.Failpoint("fault/consumer/registered") {
			err = errMisfortune
		}
		if err == nil {
			s.registered = true
			g.trace(machine.ConsumerJoined, g.cfg.Group, s.client.Session())
			return s
		}
		if errors.Is(err, coord.ErrSessionExpired) {
			g.expired(s)
			continue
		}
		if errors.Is(err, errTaken) {
			g.m.Mark("mark/consumer/own-past-registered")
		}
		g.rest(s, g.backoff(0))
	}
}

// register creates the member's node, after the persistent nodes that it, claims, commits and watches need. Nobody needs to have been here
// before: neither brokers nor other members.
func (s *session) register() error {
	g := s.g
	paths := []string{brokersPath, topicsPath, g.paths.ids}
	for _, t := range g.topics {
		paths = append(paths, g.paths.owners+"/"+t, g.paths.offsets+"/"+t)
	}
	for _, p := range paths {
		if err := s.client.EnsurePath(p); err != nil {
			return err
		}
	}
	return s.own(g.paths.id(g.id), g.subscription)
}

// own creates an ephemeral node. When the outcome of that is unknown, or the node exists, it looks whose it is: the node is ours only if this very session
// made it. A node of an earlier session of this member is foreign like any other: it will vanish, but nobody knows when.
//
// errTaken: somebody else has it. After other errors the node may be ours: give it back.
func (s *session) own(path string, data []byte) error {
	for {
		_, err := s.client.Create(path, data, coord.Ephemeral)
		if err == nil {
			return nil
		}
		if !coord.Unknown(err) && !errors.Is(err, coord.ErrNodeExists) {
			return err
		}
		s.g.waitFor(path)
		stat, found, err := s.client.Exists(path, true)
		switch {
		case err != nil:
			return err
		case found && stat.EphemeralOwner == s.client.Session():
			s.g.m.Mark("mark/consumer/create-found-done")
			return nil
		case found:
			return fmt.Errorf("%s: %w", path, errTaken)
		}
	}
}

// giveBack deletes the node if this session made it, and goes on until that is certain: the node is not there, or not ours.
func (s *session) giveBack(path string) error {
	for {
		_, stat, err := s.client.Get(path, false)
		if err == nil {
			if stat.EphemeralOwner != s.client.Session() {
				return nil
			}
			err = s.client.Delete(path, stat.Version)
			if err == nil {
				return nil
			}
		}
		if errors.Is(err, coord.ErrNoNode) {
			return nil
		}
		if !s.g.goOn(s, err) {
			return err
		}
	}
}

// waitFor says which node's deletion ends a rest early.
func (g *Group) waitFor(path string) {
	g.mu.Lock()
	g.blocker, g.unblocked = path, false
	g.mu.Unlock()
}

// rest waits for d, or until the node that was in the way is gone, the session dies or the group begins to close.
func (g *Group) rest(s *session, d time.Duration) {
	if g.m.Failpoint("fault/consumer/rest-short") {
		d = 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	until := g.m.Uptime() + d
	for !g.closing && !g.unblocked && !s.dead.Load() {
		left := until - g.m.Uptime()
		if left <= 0 {
			break
		}
		g.wake.WaitTimeout(left)
	}
	g.unblocked = false
}

// goOn tells whether a step that must be finished is worth another attempt after err, and waits in between. It is not when the session
// is over, or when the group closes and its time to do so is over.
func (g *Group) goOn(s *session, err error) bool {
	if errors.Is(err, coord.ErrSessionExpired) {
		g.expired(s)
		return false
	}
	if errors.Is(err, coord.ErrClosed) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	until := g.m.Uptime() + g.spread(100*time.Millisecond)
	for {
		now := g.m.Uptime()
		if s.dead.Load() || g.closing && now >= g.closeBy {
			return false
		}
		if now >= until {
			return true
		}
		g.wake.WaitTimeout(until - now)
	}
}

// backoff is the pause after the failed attempt of this number, from 0.
func (g *Group) backoff(attempt int) time.Duration {
	d := g.cfg.RebalanceBackoff << min(attempt, 16)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spread(min(d, max(g.cfg.SessionTimeout, g.cfg.RebalanceBackoff)))
}

// spread is a random time from half to three halves of d, so that members that failed together do not try again together. Called with the lock held.
func (g *Group) spread(d time.Duration) time.Duration {
	return d/2 + time.Duration(g.rng.Int64N(int64(d)+1))
}
