package disk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what a fault does.
type Kind uint8

const (
	// Error makes operations fail with machine.ErrIO.
	Error Kind = iota + 1
	// Short makes reads and writes of more than one byte move fewer bytes than asked, at least one.
	Short
	// Slow adds Delay to operations.
	Slow
	// Stall blocks operations until the fault is healed; a Sync after its capture, others before any effect. With Count 1 it blocks
	// one operation, without a count all that it names: with neither Ops nor Path the whole disk.
	Stall
	// Full leaves Bytes of free space, counted from when the fault is injected. It hits a write that does not fit.
	Full
	// Rot flips one bit in each durable sector with the given probability, when it is injected.
	Rot
	// Misdirect sends the first page of a write to another page of the same file: the right place reads as before, the
	// wrong one as what was meant. Files of one page are spared.
	Misdirect
	// Lie lets Sync and SyncDir take their time and report success though nothing becomes durable, as a drive does that ignores
	// the order to empty its cache. The next Sync, or SyncDir, without it makes durable what they should have.
	Lie
)

var faultNames = []string{"", "error", "short", "slow", "stall", "full", "rot", "misdirect", "lie"}

// Ops is a set of operations.
type Ops uint16

const (
	OpRead Ops = 1 << iota
	OpWrite
	OpSync
	OpTruncate
	OpOpen   // any Open
	OpCreate // an Open that may make the file
	OpMkdir
	OpRemove
	OpRename // by the old path
	OpReadDir
	OpStat
	OpSyncDir
)

var opNames = []string{"read", "write", "sync", "truncate", "open", "create", "mkdir", "remove", "rename", "readdir", "stat", "syncdir"}

// Fault is an injected fault. Which operations it hits depends on nothing but its own ID, the path and how many
// operations there it has judged before.
type Fault struct {
	ID          string        // unique among the faults in force; also keys its random streams
	Kind        Kind          //
	Ops         Ops           // operations it may hit. 0: read, write and sync for Error, what makes sense for the others
	Path        string        // glob: * and ? stop at slashes, ** does not. "": every path
	Probability float64       // of hitting an operation (Rot: a sector). 0: always
	Count       int           // ends after that many hits. 0: never
	Delay       time.Duration // Slow
	Bytes       int64         // Full
}

// String shows the fault as key=value pairs.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s id=%s", f.Kind, f.ID)
	if f.Ops != 0 {
		fmt.Fprintf(&b, " ops=%s", f.Ops)
	}
	if f.Path != "" {
		fmt.Fprintf(&b, " path=%s", f.Path)
	}
	if f.Probability != 0 {
		fmt.Fprintf(&b, " probability=%g", f.Probability)
	}
	if f.Count != 0 {
		fmt.Fprintf(&b, " count=%d", f.Count)
	}
	switch f.Kind {
	case Slow:
		fmt.Fprintf(&b, " delay=%s", f.Delay)
	case Full:
		fmt.Fprintf(&b, " bytes=%d", f.Bytes)
	}
	return b.String()
}

func (k Kind) String() string { return faultNames[k] }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(faultNames[1:], string(text))
	if i < 0 {
		return fmt.Errorf("disk fault kind %q: must be one of %s", text, strings.Join(faultNames[1:], ", "))
	}
	*k = Kind(i + 1)
	return nil
}

func (o Ops) String() string {
	var names []string
	for i, name := range opNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// UnmarshalText reads a comma-separated list of operations.
func (o *Ops) UnmarshalText(text []byte) error {
	*o = 0
	for name := range strings.SplitSeq(string(text), ",") {
		i := slices.Index(opNames, strings.TrimSpace(name))
		if i < 0 {
			return fmt.Errorf("disk operation %q: must be one of %s", name, strings.Join(opNames, ", "))
		}
		*o |= 1 << i
	}
	return nil
}

// Active is a fault in force.
type Active struct {
	Fault
	Hits int // operations it has hit (Rot: sectors)
	Last Hit // the latest of them
}

// Hit is what a fault did to one operation.
type Hit struct {
	At   time.Duration // world time; 0 for Rot, which hits when it is injected
	Op   Ops           // 0: none, the sector rotted by itself
	Path string
	// Short, Full: bytes asked for and moved. Misdirect: the page meant and the page that was hit, by number. Rot: the sector, by number, and the bit in it.
	From, To int64
}

// String shows the fault and what it has done, for people.
func (a Active) String() string {
	s := a.Fault.String()
	h := a.Last
	switch {
	case a.Hits == 0:
		return s + ": no hit"
	case a.Kind == Rot:
		return fmt.Sprintf("%s: %d hits, the last: sector %d of %s, bit %d", s, a.Hits, h.From, h.Path, h.To)
	}
	s = fmt.Sprintf("%s: %d hits, the last at %s: %s of %s", s, a.Hits, h.At, h.Op, h.Path)
	switch a.Kind {
	case Short, Full:
		s += fmt.Sprintf(", %d of %d bytes", h.To, h.From)
	case Misdirect:
		s += fmt.Sprintf(", page %d went to page %d", h.From, h.To)
	}
	return s
}

type active struct {
	Active
	m       *Model
	seq     int64                 // order of injection
	healed  bool                  // no longer in force
	streams map[string]*rand.Rand // by path
	limit   int64                 // Full: bytes that may be used in all
	held    []func()              // Stall: wake the operations that wait
}

// Inject puts a fault in force. It fails when its ID is taken or it says nothing that could happen. A fault that was left out
// is ignored.
func (m *Model) Inject(f Fault) error {
	switch {
	case f.ID == "" || slices.ContainsFunc(m.faults, func(a *active) bool { return a.ID == f.ID }):
		return fmt.Errorf("disk %s: fault %q: needs an id of its own", m.name, f)
	case f.Kind < Error || f.Kind > Lie:
		return fmt.Errorf("disk %s: fault %s: kind %d is none", m.name, f.ID, f.Kind)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("disk %s: fault %s: probability %g is not between 0 and 1", m.name, f.ID, f.Probability)
	case f.Count < 0 || f.Delay < 0 || f.Bytes < 0:
		return fmt.Errorf("disk %s: fault %q: negative count, delay or bytes", m.name, f)
	case m.leftOut[f.ID]:
		return nil
	case f.Kind == Rot && m.world == nil && len(m.root.names) > 0:
		return fmt.Errorf("disk %s: fault %s: no process has used the disk yet, so there is no world to draw from", m.name, f.ID)
	}
	if f.Ops == 0 {
		switch f.Kind {
		case Error:
			f.Ops = OpRead | OpWrite | OpSync
		case Short:
			f.Ops = OpRead | OpWrite
		case Misdirect:
			f.Ops = OpWrite
		case Lie:
			f.Ops = OpSync | OpSyncDir
		case Slow, Stall:
			f.Ops = ^Ops(0)
		}
	}
	m.faultSeq++
	a := &active{Active: Active{Fault: f}, m: m, seq: m.faultSeq, streams: map[string]*rand.Rand{}, limit: m.used*PageBytes + f.Bytes}
	m.faults = append(m.faults, a)
	if f.Kind == Rot {
		m.rot(a)
	}
	return nil
}

// Heal ends a fault, takes back what reads differently because of it and lets go what it stalls. It reports whether the fault was in force.
func (m *Model) Heal(id string) bool {
	i := slices.IndexFunc(m.faults, func(a *active) bool { return a.ID == id })
	if i < 0 {
		return false
	}
	a := m.faults[i]
	m.faults = slices.Delete(m.faults, i, i+1)
	a.healed = true
	m.heal(id)
	for _, wake := range a.held {
		wake()
	}
	a.held = nil
	return true
}

// HealAll ends every fault.
func (m *Model) HealAll() {
	for len(m.faults) > 0 {
		m.Heal(m.faults[0].ID)
	}
}

// LeaveOut makes a later Inject of these faults do nothing.
func (m *Model) LeaveOut(ids ...string) {
	for _, id := range ids {
		m.leftOut[id] = true
	}
}

// Faults lists the faults in force in the order of their injection.
func (m *Model) Faults() []Active {
	list := make([]Active, len(m.faults))
	for i, a := range m.faults {
		list[i] = a.Active
	}
	return list
}

// capacity is how many bytes the disk holds, negative for any number, and the fault that says so, if one does.
func (m *Model) capacity() (limit int64, by *active) {
	limit = -1
	if m.cfg.Capacity > 0 {
		limit = m.cfg.Capacity
	}
	for _, a := range m.faults {
		if a.Kind == Full && (limit < 0 || a.limit < limit) {
			limit, by = a.limit, a
		}
	}
	return limit, by
}

// hits draws whether the fault hits an operation.
func (a *active) hits(op Ops, path string) bool {
	if a.Ops&op == 0 || a.spent() || a.Path != "" && !match(a.Path, path) {
		return false
	}
	return a.Probability == 0 || a.draw(path).Float64() < a.Probability
}

// hit takes note of a hit.
func (a *active) hit(h Hit) {
	a.Hits++
	a.Last = h
}

func (a *active) spent() bool { return a.Count > 0 && a.Hits >= a.Count }

func (a *active) draw(path string) *rand.Rand {
	r := a.streams[path]
	if r == nil {
		r = a.m.world.Stream("disk/fault", a.m.name+"/"+path+"/"+a.ID)
		a.streams[path] = r
	}
	return r
}
