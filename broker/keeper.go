package broker

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	coord "faultline/coord/client"
)

// What keeps the keeper busy.
const (
	keepBackoff    = 100 * time.Millisecond
	keepBackoffMax = 2 * time.Second
)

// session is one session with the coordination service and what is still to be done in it. Guarded by the broker's lock.
type session struct {
	client   *coord.Client
	live     *coord.Roster[registration] // only the keeper looks
	number   int                         // events of earlier sessions are ignored
	expired  bool
	list     bool            // the list of topics may have changed
	read     bool            // it was read once, so that our logs are open
	dirty    map[string]bool // topics that may have changed
	brokers  bool            // the list of brokers may have changed
	register bool            // we may not be registered
	// controller: there may be none.
	controller bool
}

// keep is the keeper task: it goes from session to session.
func (b *Broker) keep() {
	swept := false
	for fails := 0; ; fails++ {
		s := b.openSession()
		if s == nil {
			return
		}
		for {
			did, err := b.work(s, &swept)
			switch {
			case err == nil && !did:
				b.awaitWork(s)
			case err == nil:
				fails = 0
			case isFatal(err):
				b.fail(err)
				return
			default:
				b.m.Mark("mark/broker/keeper-retries")
				b.tellWait(err)
				b.pause(fails)
				fails++
			}
			b.mu.Lock()
			over, stopping := s.expired, b.stopping
			b.mu.Unlock()
			if stopping {
				return // Stop closes the client
			}
			if over {
				b.m.Mark("mark/broker/session-expired")
				break
			}
		}
		s.client.Close() // its session is gone already
		b.pause(fails)
	}
}

// tellWait tells whoever started the broker why it is not up yet.
func (b *Broker) tellWait(reason error) {
	b.mu.Lock()
	up := b.up
	b.mu.Unlock()
	if !up && b.cfg.Waits != nil {
		b.cfg.Waits(reason)
	}
}

// fatal marks an error that no further attempt can mend.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

func isFatal(err error) bool {
	var f fatal
	return errors.As(err, &f)
}

// openSession begins a new session in which everything is to be done; nil when the broker stops.
func (b *Broker) openSession() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopping {
		return nil
	}
	number := b.session.number + 1
	b.session = session{number: number, list: true, brokers: true, register: true, controller: true, dirty: map[string]bool{}}
	for _, name := range b.names {
		b.session.dirty[name] = true // its watch went with the old session
	}
	b.session.client = coord.Connect(b.m, coord.Config{
		Servers: b.cfg.Coord, SessionTimeout: b.cfg.SessionTimeout, Tap: b.cfg.CoordTap,
		OnEvent: func(e coord.Event) { b.onEvent(number, e) },
		Name:    fmt.Sprintf("broker-%d", b.cfg.ID),
	})
	b.session.live = coord.NewRoster(b.session.client, idsPath, decodeRegistration)
	return &b.session
}

// onEvent notes what a watch or the session says.
func (b *Broker) onEvent(number int, e coord.Event) {
	b.m.Failpoint("fault/broker/event-late")
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.session
	if s.number != number {
		return
	}
	switch {
	case e.Type == coord.EventSession:
		s.expired = s.expired || e.State == coord.StateExpired
	case e.Path == topicsPath:
		s.list = true
	case strings.HasPrefix(e.Path, topicsPath+"/"):
		name, _, _ := strings.Cut(e.Path[len(topicsPath)+1:], "/")
		s.dirty[name] = true
		s.list = true
	case e.Path == controllerPath:
		s.controller = true
	case strings.HasPrefix(e.Path, idsPath):
		s.brokers = true
	}
	b.changed.Broadcast()
}

// awaitWork blocks until there is something to do.
func (b *Broker) awaitWork(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.stopping && !s.expired && !s.list && !s.brokers && !s.register && !s.controller {
		b.changed.Wait()
	}
}

// pause waits after a failure, longer after more of them. Stop ends it.
func (b *Broker) pause(fails int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := min(keepBackoff<<min(fails, 10), keepBackoffMax)
	wait += time.Duration(b.rng.Int64N(int64(wait/4) + 1))
	for end := b.m.Uptime() + wait; !b.stopping; {
		left := end - b.m.Uptime()
		if left <= 0 {
			return
		}
		b.changed.WaitTimeout(left)
	}
}

// work does one thing that is to be done and reports whether there was any. Logs are opened before the broker registers, in each session: what changes after that must not keep it from it.
func (b *Broker) work(s *session, swept *bool) (did bool, err error) {
	if b.m.Failpoint("fault/broker/work") {
		return false, errMisfortune
	}
	b.mu.Lock()
	read, list, brokers, register, controller := s.read, s.list, s.brokers, s.register, s.controller
	expired := s.expired || b.stopping
	b.mu.Unlock()
	switch {
	case expired:
		return false, nil
	case !*swept:
		if err := b.agreeOnCluster(s.client); err != nil {
			return false, err
		}
		if err := b.syncTopics(s); err != nil {
			return false, err
		}
		if err := b.sweep(); err != nil {
			return false, err
		}
		*swept = true
		b.clean = false // said of the logs that were there; what is opened from now on is not among them
		b.mu.Lock()
		b.serving = true
		b.mu.Unlock()
		return true, nil
	case !read:
		return true, b.syncTopics(s)
	case brokers:
		return true, b.syncBrokers(s)
	case register:
		return true, b.register(s)
	case controller:
		return true, b.standForController(s)
	case list: // last: where states change all the time it is due all the time
		return true, b.syncTopics(s)
	}
	return false, nil
}

// agreeOnCluster compares the cluster's id with that of the data directory. Each is made when it is missing. That they agree is what
// allows to drop the logs of topics that the coordination service does not know.
func (b *Broker) agreeOnCluster(cl *coord.Client) error {
	if err := cl.EnsurePath(topicsPath); err != nil {
		return err
	}
	if err := cl.EnsurePath(idsPath); err != nil {
		return err
	}
	for _, p := range []string{epochsPath, clusterPath, controllerEpochPath, fmt.Sprintf("%s/%d", epochsPath, b.cfg.ID)} {
		if err := cl.EnsurePath(p); err != nil {
			return err
		}
	}
	b.mu.Lock()
	fresh := newTopicID(b.rng).String()
	b.mu.Unlock()
	if _, err := cl.Create(clusterID, []byte(fresh), 0); err != nil && !errors.Is(err, coord.ErrNodeExists) {
		return err
	}
	if b.m.Failpoint("fault/broker/cluster-agreed") {
		return errMisfortune
	}
	data, _, err := cl.Get(clusterID, false)
	if err != nil {
		return err
	}
	b.mu.Lock()
	id := b.id
	b.mu.Unlock()
	switch id.Cluster {
	case string(data):
		return nil
	case "":
		id.Cluster = string(data)
		if err := writeFile(b.m.Disk(), path.Join(b.cfg.DataDir, metaFile), id.encode()); err != nil {
			return fatal{err}
		}
		b.mu.Lock()
		b.id = id
		b.mu.Unlock()
		return nil
	}
	return fatal{fmt.Errorf("data directory %s belongs to cluster %s, the coordination service is that of cluster %s: "+
		"correct its address, restore its data, or give the broker an empty directory", b.cfg.DataDir, id.Cluster, data)}
}
