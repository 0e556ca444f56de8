package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"faultline/broker/log"
	"faultline/broker/replica"
	"faultline/sim/machine"
)

// partition is a partition whose log is here.
type partition struct {
	topic   *topic
	id      int32
	name    string       // "topic/partition"
	log     *log.Log     // nil: it could not be opened
	offline error        // why
	waiting [2][]*waiter // fetches that wait for more, by audience; guarded by waits.mu
	told    [2]int       // how often they were told that there is; likewise

	replicated bool // there are, or were, several replicas: what is visible is what is committed
	mu         machine.Mutex
	moved      machine.Cond // on mu: the high watermark or the role changed
	// Guarded by mu.
	leader  *replica.Leader // nil: this broker does not lead
	epoch   int32           // leader epoch of the role
	version int32           // of the registry's state that the role is from
	node    int32           // and of the topic's node: the replicas are from there
	hw      int64           // high watermark as far as this broker knows
	retired bool            // its log is being dropped: it has no role any more, and nothing is told of it

	shown atomic.Pointer[standing] // the latest, for readers without mu; set under it
}

// standing is what readers need to know of a partition's role.
type standing struct {
	leads bool
	epoch int32
	hw    int64
}

// show lets readers see what changed. Call with mu, at each change of the role or of the high watermark.
func (p *partition) show() { p.shown.Store(&standing{p.leader != nil, p.epoch, p.hw}) }

// lasting is a name that no partition of another topic of the same name has.
func (p *partition) lasting() string { return fmt.Sprintf("%v/%d", p.topic.id, p.id) }

// waits is where fetches wait for logs to grow.
type waits struct {
	mu      machine.Mutex
	stopped bool // the broker stops: nobody waits any more
}

// audience is who fetches, and so what it waits for.
type audience int

const (
	consumers audience = iota // for visible records
	followers                 // for any
)

// waiter is one waiting fetch.
type waiter struct {
	woken machine.Cond // on waits.mu
	fired bool         // it was told of something
}

// fire wakes all fetches that wait for the partition: whatever they asked, the answer may be another one.
func (w *waits) fire(p *partition) {
	w.mu.Lock()
	p.tell(consumers)
	p.tell(followers)
	w.mu.Unlock()
}

// grown wakes those that wait for what the partitions have more of. Call it when that can be seen: who looks with the lock before sees it too.
func (w *waits) grown(to audience, parts ...*partition) {
	if len(parts) == 0 {
		return
	}
	w.mu.Lock()
	for _, p := range parts {
		p.tell(to)
	}
	w.mu.Unlock()
}

// tell makes those that wait for the partition look again. The lock is held.
func (p *partition) tell(to audience) {
	p.told[to]++
	for _, wt := range p.waiting[to] {
		if !wt.fired {
			wt.fired = true
			wt.woken.Signal()
		}
	}
}

// retire takes the partition's role: whoever waits in it is sent away.
func (b *Broker) retire(p *partition) {
	p.mu.Lock()
	p.retired, p.leader = true, nil
	p.show()
	p.moved.Broadcast()
	p.mu.Unlock()
	b.waits.fire(p) // they look again and find it gone
}

// openPartition opens the log of a partition of t. A directory that belongs to another topic of that name is dropped first.
// The partition is offline when its log is damaged; other errors are the disk's.
func (b *Broker) openPartition(t *topic, id int32) (*partition, error) {
	p := &partition{topic: t, id: id, name: fmt.Sprintf("%s/%d", t.name, id), version: -1, replicated: t.replicated(), mu: b.m.NewMutex("broker.partition")}
	p.moved = b.m.NewCond("broker.partition.moved", p.mu)
	dir := path.Join(b.cfg.DataDir, partitionDir(t.name, id))
	if err := b.claimDir(p.name, dir, t.id); errors.Is(err, log.ErrDamaged) {
		return b.damaged(p, err), nil
	} else if err != nil {
		return nil, fmt.Errorf("open %s/%d: %w", t.name, id, err)
	}
	b.m.Failpoint("fault/broker/claimed-slow")
	l, err := log.Open(b.m, dir, t.name, id, t.policy.Config, b.clean)
	if errors.Is(err, log.ErrDamaged) {
		return b.damaged(p, err), nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s/%d: %w", t.name, id, err)
	}
	p.log = l
	p.hw = l.Start()
	if p.replicated {
		p.hw = min(max(p.hw, b.loadedHW[p.lasting()]), l.End())
		b.m.Trace(machine.Event{Kind: machine.HighWatermark, Subject: p.name, A: p.hw, B: -1})
	}
	p.show()
	l.OnVisible(func() {
		err := l.State().Err
		switch {
		case err != nil:
			p.mu.Lock()
			p.moved.Broadcast()
			p.mu.Unlock()
			b.waits.fire(p)
			b.logFailed(p, err)
		case !p.replicated:
			b.waits.grown(consumers, p)
		}
	})
	return p, nil
}

// damaged is the partition, offline: what is on disk is not what was written, and nobody here can tell what is right.
func (b *Broker) damaged(p *partition, err error) *partition {
	b.m.Mark("mark/broker/damaged-log")
	p.offline = err
	b.m.Trace(machine.Event{Kind: machine.LogFailed, Subject: fmt.Sprintf("%s/%d", p.topic.name, p.id), Detail: err.Error()})
	return p
}

// claimDir makes sure that dir is there and belongs to the topic id. The id is durable before the log gets its first byte, so a
// directory without one holds nothing. log.ErrDamaged: whose it is cannot be read.
func (b *Broker) claimDir(subject, dir string, id topicID) error {
	d := b.m.Disk()
	claimed := machine.Event{Kind: machine.LogClaimed, Subject: subject, Detail: id.String()}
	name := path.Join(dir, topicIDFile)
	text, err := readFile(d, name)
	if err == nil {
		have, err := decodeTopicIDFile(text)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", log.ErrDamaged, name, err)
		}
		if have == id {
			b.m.Trace(claimed)
			return nil
		}
		if err := dropDir(d, dir); err != nil {
			return fmt.Errorf("drop what topic id %v left: %w", have, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.m.Trace(claimed)
	if err := machine.MakeDir(d, dir); err != nil {
		return err
	}
	return writeFile(d, name, fmt.Sprintf("version: 0\ntopic_id: %v\n", id))
}

func decodeTopicIDFile(text string) (topicID, error) {
	for _, line := range strings.Split(text, "\n") {
		if value, ok := strings.CutPrefix(line, "topic_id: "); ok {
			return parseTopicID(strings.TrimSpace(value))
		}
	}
	return topicID{}, errors.New("no line topic_id")
}

// dropDir removes the directory of a log that is not open, at one stroke.
func dropDir(d machine.Disk, dir string) error {
	in := machine.Parent(dir)
	if err := log.RemoveDeleted(d, in); err != nil {
		return err
	}
	if err := d.Rename(dir, dir+log.DeletedSuffix); err != nil {
		return err
	}
	if err := d.SyncDir(in); err != nil {
		return err
	}
	return log.RemoveDeleted(d, in)
}
