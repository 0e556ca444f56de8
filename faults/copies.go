package faults

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Copies is the account that the rule of copies (atlas.go) is kept by: which broker holds a good copy of which partition at this moment. No plan can know that
// beforehand, for when a broker is in sync again depends on everything else that happens. So it is asked at the moment of the strike. It is plain data; whoever follows
// the registry and the machines tells it.
//
// A copy is lost from the moment at which its broker may have lost what it had not flushed, and away from the moment at which its broker's process ended without closing its logs, until the registry
// lists the broker as in sync, or eligible, with a registration of a later process. The system cannot tell one from the other, and trusts neither.
type Copies struct {
	parts   map[string][]*copies // by topic
	topics  []string             // in order
	brokers map[string]*holder
}

// copies is what a partition has of them.
type copies struct {
	name     string
	replicas []string
	least    int
	listed   []Listed // in-sync replicas and eligible ones
	known    bool     // the registry has a state; before that nothing was acknowledged
}

// Listed is a broker that the registry lists as in sync, or as eligible, in one registration.
type Listed struct {
	Broker string
	Epoch  int64
}

// holder is a broker. Entries of registrations before away, or before lost, are of copies that are.
type holder struct {
	away, lost int64
	started    bool           // a process runs that will register for the first time
	under      [harms + 1]int // active faults by what they may do at any moment
}

const (
	never   = int64(math.MinInt64) // nothing was ever lost
	unknown = int64(math.MaxInt64) // until it registers again
)

// Harm is what a fault does to the copies on a broker.
type Harm uint8

const (
	None   Harm = iota
	Ends        // the process ends without closing its logs, or may
	Loses       // what was not flushed is gone, or may be
	Wipes       // all of it is gone
	Spoils      // it may read differently from what was written, or be less than the broker thinks: of this the system promises nothing, however many other copies there are
	harms  = Spoils
)

// Harm tells what the fault does to the copies on a broker that it hits.
func (f Fault) Harm() Harm {
	switch f.Kind {
	case Crash, Stop, FullDisk:
		return Ends
	case PowerLoss:
		return Loses
	case ReplaceDisk:
		return Wipes
	case BitRot, Misdirected, LyingDisk:
		return Spoils
	case DiskErrors:
		if diskOps[f.Op]&(OpSync|OpSyncDir) != 0 {
			return Loses // pages whose flush fails count as clean, and may be gone
		}
		return Ends
	}
	return None
}

// lasts tells whether the harm may be done at any time while the fault lasts, not when it strikes: a process that is asked to end closes its logs, or is killed over it.
func (f Fault) lasts() bool { return f.Kind == DiskErrors || f.Kind == FullDisk || f.Kind == Stop }

// NewCopies knows of no partition yet.
func NewCopies() *Copies {
	return &Copies{parts: map[string][]*copies{}, brokers: map[string]*holder{}}
}

// Topic tells of a topic's partitions: the brokers that each is assigned to, and how many in-sync replicas acks=all needs. None: the topic is gone.
func (c *Copies) Topic(name string, least int, replicas [][]string) {
	i, known := slices.BinarySearch(c.topics, name)
	if len(replicas) == 0 {
		if known {
			c.topics = slices.Delete(c.topics, i, i+1)
		}
		delete(c.parts, name)
		return
	}
	if !known {
		c.topics = slices.Insert(c.topics, i, name)
	}
	parts := c.parts[name]
	for p, ids := range replicas {
		if p >= len(parts) {
			parts = append(parts, &copies{name: fmt.Sprintf("%s/%d", name, p)})
		}
		parts[p].replicas, parts[p].least = ids, min(least, len(ids))
	}
	c.parts[name] = parts[:len(replicas)]
}

// State tells whom the registry lists for a partition.
func (c *Copies) State(topic string, partition int, listed []Listed) {
	if parts := c.parts[topic]; partition < len(parts) {
		parts[partition].listed, parts[partition].known = listed, true
	}
}

func (c *Copies) broker(name string) *holder {
	h := c.brokers[name]
	if h == nil {
		h = &holder{away: never, lost: never}
		c.brokers[name] = h
	}
	return h
}

// Registered tells that a broker registered, and since which registration its logs lost nothing by its own account.
func (c *Copies) Registered(broker string, epoch, cleanSince int64) {
	h := c.broker(broker)
	if !h.started {
		return
	}
	h.started = false
	if h.away == unknown {
		h.away = cleanSince
	}
	if h.lost == unknown {
		h.lost = epoch
	}
}

// Started tells that a broker's process began, Ended that it ended, in whatever way, Failed that one of its logs did.
func (c *Copies) Started(broker string) { c.broker(broker).started = true }

// Ended: see Started.
func (c *Copies) Ended(broker string) {
	h := c.broker(broker)
	h.away, h.started = unknown, false
	c.Failed(broker)
}

// Failed: see Started. What a failed flush takes is gone at once.
func (c *Copies) Failed(broker string) {
	if h := c.broker(broker); h.under[Loses] > 0 {
		c.Lost(broker)
	}
}

// Lost tells that what the broker had not flushed may be gone.
func (c *Copies) Lost(broker string) {
	h := c.broker(broker)
	h.away, h.lost = unknown, unknown
}

// Under tells that a fault begins, or ends, under which the harm may be done to the broker at any moment.
func (c *Copies) Under(broker string, harm Harm, begins bool) {
	if begins {
		c.broker(broker).under[harm]++
	} else {
		c.broker(broker).under[harm]--
	}
}

// Short lists the partitions that the harm, done to these brokers now, would leave with fewer good copies than they need.
func (c *Copies) Short(harm Harm, brokers []string) []string {
	if harm == None {
		return nil
	}
	var out []string
	for _, topic := range c.topics {
		for _, p := range c.parts[topic] {
			if c.short(p, harm, brokers) {
				out = append(out, p.name)
			}
		}
	}
	return out
}

// short is the rule. Only who makes it worse is told so.
func (c *Copies) short(p *copies, harm Harm, brokers []string) bool {
	switch hit := slices.ContainsFunc(p.replicas, func(b string) bool { return slices.Contains(brokers, b) }); {
	case len(p.replicas) == 1:
		return hit && harm == Wipes // what it has not flushed nobody has seen yet; for a disk that decays or lies the atlas stands by itself
	case harm == Spoils:
		return hit
	}
	lost, away, worse := 0, 0, false
	for _, name := range p.replicas {
		h, entry := c.broker(name), p.entry(name)
		now := None
		if h.away > entry && h.away != never || h.under[Ends] > 0 {
			now = Ends
		}
		if h.lost > entry && h.lost != never || h.under[Loses] > 0 {
			now = Loses
		}
		then := now
		if slices.Contains(brokers, name) {
			then = max(now, min(harm, Loses))
		}
		switch {
		case then == Loses:
			lost++
		case then == Ends:
			away++
		}
		worse = worse || then > now
	}
	return p.known && worse && lost > 0 && lost+away >= p.least
}

// entry is the registration in which the broker is listed, below all if it is not.
func (p *copies) entry(broker string) int64 {
	for _, l := range p.listed {
		if l.Broker == broker {
			return l.Epoch
		}
	}
	return never
}

// String draws the account: a line for each partition, good copies first.
func (c *Copies) String() string {
	var out strings.Builder
	for _, topic := range c.topics {
		for _, p := range c.parts[topic] {
			fmt.Fprintf(&out, "%s needs %d of %s:", p.name, p.least, strings.Join(p.replicas, ", "))
			for _, name := range p.replicas {
				h, entry, is := c.broker(name), p.entry(name), "good"
				switch {
				case h.lost > entry && h.lost != never || h.under[Loses] > 0:
					is = "lost"
				case h.away > entry && h.away != never || h.under[Ends] > 0:
					is = "away"
				case entry == never:
					is = "behind"
				}
				fmt.Fprintf(&out, " %s", is)
			}
			out.WriteByte('\n')
		}
	}
	return out.String()
}
