package oracle

import (
	"math"
	"slices"
	"time"

	"faultline/sim/machine"
	"faultline/workloads/history"
)

// Ruins follows what faults beyond the atlas of what the system survives (docs/fault-model.md) have taken of the promises so far. An oracle asks it
// before it tells. An excuse begins with the fault, holds for the machine that was hit, and for no rule that the fault cannot touch:
//
//   - a broker's disk that decays (bytes), lost what was flushed (flushes, from the next power loss on) or was replaced frees the logs on it: which records they hold, at
//     which offsets, and what follows from that for the groups; and the broker may refuse to start, or to open a log, on what it finds there. It does not free other brokers'
//     logs, nor who owns what, nor that what is handed over was sent, with these bytes;
//   - a partition with several replicas is freed as a whole by a fault that takes more of its copies than the system survives, or that lets one of them decay or lie: then nobody can
//     tell which copy is right. A replica that is merely gone, by a replaced disk too, frees nothing as long as enough are left;
//   - a wire that changes bytes frees offsets and places of all records, for any request may ask for something else than was meant;
//   - a ruined disk of the coordination service, or such a wire to it, frees all that the registry holds. What is left then: nothing that nobody sent or
//     with other bytes is handed over, nothing panics, nothing hangs.
//
// All oracles of a run share one, which is shown each event before they are.
type Ruins struct {
	recordless
	coord    map[string]bool
	machines map[string]*ruined
	parts    map[place]bool    // with several replicas, that are freed
	ids      map[string]string // machine -> id of the broker there
	records  bool
	registry bool
	took     string // machine whose flushed bytes the latest event may have taken
}

// ruined is the state of one machine's disk.
type ruined struct {
	bytes   map[int]bool // active faults under which durable bytes may read differently
	flushes map[int]bool // active faults under which nothing becomes durable
	exposed bool         // something that counts as durable may be gone with the next power loss
	hurt    bool         // what a process keeps there may be damaged for good
}

// forever is the end of what has none yet.
const forever = time.Duration(math.MaxInt64)

// NewRuins knows of no ruin yet.
func NewRuins(p *Promise) *Ruins {
	r := &Ruins{coord: map[string]bool{}, machines: map[string]*ruined{}, parts: map[place]bool{}, ids: map[string]string{}}
	for _, m := range p.Coord {
		r.coord[m] = true
	}
	return r
}

// Observe implements [history.Observer].
func (r *Ruins) Observe(e *history.Event) {
	r.took = ""
	switch e.Kind {
	case history.MachineRuined, history.MachineMended, history.MachineWiped:
	case history.PartitionRuined:
		r.parts[place{e.Topic, e.Partition}] = true
		return
	case history.Traced:
		r.traced(&e.Trace, e.Machine)
		return
	case history.MachineCrashed:
		if m := r.machines[e.Machine]; m != nil && e.Power && m.exposed {
			r.took = e.Machine
			m.exposed = len(m.flushes) > 0
		}
		return
	default:
		return
	}
	if e.Kind == history.MachineRuined && e.Text == "wire" {
		r.records = true
		r.registry = r.registry || r.coord[e.Machine]
		return
	}
	if e.Text == "wire" {
		return
	}
	r.registry = r.registry || r.coord[e.Machine]
	m := r.machines[e.Machine]
	if m == nil {
		m = &ruined{bytes: map[int]bool{}, flushes: map[int]bool{}}
		r.machines[e.Machine] = m
	}
	if e.Kind == history.MachineWiped {
		m.hurt, m.exposed = len(m.bytes)+len(m.flushes) > 0, len(m.flushes) > 0
		return
	}
	m.hurt = true
	active := m.bytes
	if e.Text == "flushes" {
		active = m.flushes
	}
	if e.Kind == history.MachineRuined {
		active[e.Number] = true
	} else {
		delete(active, e.Number)
	}
	m.exposed = m.exposed || len(m.flushes) > 0
}

// traced follows which partitions come to a broker whose disk is ruined already.
func (r *Ruins) traced(t *machine.Event, on string) {
	switch t.Kind {
	case machine.BrokerUp:
		r.ids[on] = itoa(t.A)
	case machine.ZnodeCreated, machine.ZnodeSet:
		topic, ok := parseName(t.Subject, topicsRoot)
		if !ok || len(r.machines) == 0 {
			return
		}
		for p, replicas := range parseTopic(t.Detail) { // order: no matter
			for name, m := range r.machines {
				if m.hurt && len(replicas) > 1 && slices.Contains(replicas, r.ids[name]) {
					r.parts[place{topic, p}] = true
				}
			}
		}
	}
}

// Any tells whether anything was ever ruined.
func (r *Ruins) Any() bool { return r != nil && (len(r.machines) > 0 || len(r.parts) > 0 || r.records) }

// Spoilt tells whether any disk or wire was ever ruined.
func (r *Ruins) Spoilt() bool { return r != nil && (len(r.machines) > 0 || r.records) }

// Partition tells whether the records of a partition with several replicas are promised no more: which there are, at which offsets, and that it comes back.
func (r *Ruins) Partition(topic string, partition int32) bool {
	return r != nil && (r.parts[place{topic, partition}] || r.Records())
}

// of is Partition.
func (r *Ruins) of(p place) bool {
	if r == nil || len(r.parts) == 0 {
		return r.Records()
	}
	return r.Partition(BaseTopic(p.topic), p.partition)
}

// Registry tells whether nothing that the registry holds, or that follows from it, is promised any more.
func (r *Ruins) Registry() bool { return r != nil && r.registry }

// Records tells whether offsets and places of records are promised no more.
func (r *Ruins) Records() bool { return r != nil && (r.records || r.registry) }

// Disk tells whether the machine's disk may now give back something else than what was made durable on it, or will after a power loss.
func (r *Ruins) Disk(machine string) bool {
	if r == nil {
		return false
	}
	m := r.machines[machine]
	return m != nil && (len(m.bytes) > 0 || m.exposed)
}

// Decays tells whether the machine's disk may now read differently from what is on it.
func (r *Ruins) Decays(machine string) bool {
	return r != nil && r.machines[machine] != nil && len(r.machines[machine].bytes) > 0
}

// Exposed tells whether what was flushed on the machine may not survive the next power loss.
func (r *Ruins) Exposed(machine string) bool {
	return r != nil && r.machines[machine] != nil && r.machines[machine].exposed
}

// Took tells whether the event that was observed last, a power loss, may have taken what was flushed on the machine.
func (r *Ruins) Took(machine string) bool { return r != nil && r.took != "" && r.took == machine }

// Touched tells whether a fault beyond the atlas ever hit the machine's disk.
func (r *Ruins) Touched(machine string) bool { return r != nil && r.machines[machine] != nil }

// Hurt tells whether the machine's disk was ever ruined, and not replaced since. What a server keeps there may be damaged for good, and then it rightly refuses to go
// on by guessing: it may stay down, or keep a log closed, until somebody looks at it.
func (r *Ruins) Hurt(machine string) bool {
	return r != nil && r.machines[machine] != nil && r.machines[machine].hurt
}
