package faults

import (
	"fmt"
	"slices"
	"strings"
)

// The atlas: what the system promises to survive, and what a fault beyond that may take.
//
// A partition with one replica, and a coordination service of one server, have one good copy, on the disk of one machine. So what matters is
// whether that disk gives back what it took. Where there are more copies the atlas takes no credit for them yet: a ruin of the leader's disk, or of any server of
// the coordination service, frees as much as if it were the only one.
//
// Inside the atlas, in any number and order: processes and machines that die, stand still or run slowly, alone or a rack at a time; disks that fail an operation,
// move fewer bytes, are slow, stall or are full; links that are cut, clogged, slow, lossy or reset; clocks that are off, drift (5% at most) or
// jump; sessions that expire; machines that join, topics that grow. A record acknowledged with acks=all survives all of it, one
// acknowledged with acks=1 all but a power loss and a failed flush, and every other invariant holds, as soon as the faults are over.
//
// Beyond it, with what they take ([Ruin]):
//
//	bit-rot, misdirected-write  Bytes    what the machine's disk had durable may read differently while the fault lasts; what a program concludes from that stays
//	lying-disk                  Flushes  what was flushed since it began may be gone with the next power loss
//	replace-disk                Disk     everything that was on the disk
//	corruption                  Wire     what two machines say to each other, for only record batches carry a checksum
//
// On a broker this frees the promises about the partitions on that disk: that acknowledged records are there, at their offsets, in their order, and
// come to every group. A log that lost its end gives its offsets out anew, and a group may skip or see again what lies below the old end. On the coordination
// service's server it frees all that the registry holds: topics, committed offsets, sessions and owners. Disks of producers and consumers
// hold nothing. Corruption frees the offsets and places of all records, and the registry too when it hits a link to the coordination service.
//
// Beyond the atlas safety still holds. Nothing is handed to an application that nobody sent, and nothing with other bytes; no process panics; no
// task hangs; a partition has one owner at a time, unless the registry was hit; and when the faults are over, everything that is not freed comes back.
//
// A swarm in checked mode (the default) stays inside. In overload mode it also draws from the families beyond. What a scenario file asks for is held against the
// atlas fault by fault, as it strikes, so that an excuse exists for what was hit, from then on, and for nothing else.

// Ruin is what a fault beyond the atlas may take from a machine that it hits.
type Ruin uint8

const (
	Nothing Ruin = iota
	Bytes
	Flushes
	Disk
	Wire
)

var ruinNames = [...]string{Nothing: "nothing", Bytes: "bytes", Flushes: "flushes", Disk: "disk", Wire: "wire"}

func (r Ruin) String() string { return ruinNames[r] }

// Ruins tells what a fault of this kind takes from a machine of the role.
func (k Kind) Ruins(role string) Ruin {
	holds := role == "broker" || role == "coord"
	switch {
	case k == Corruption:
		return Wire
	case !holds:
		return Nothing
	case k == BitRot || k == Misdirected:
		return Bytes
	case k == LyingDisk:
		return Flushes
	case k == ReplaceDisk:
		return Disk
	}
	return Nothing
}

// RoleOf is the role of a machine by its name.
func RoleOf(machine string) string {
	// Asked at every event of a run, so not by machineName.
	role, number, ok := strings.Cut(machine, "-")
	if !ok || role == "" || number == "" {
		return ""
	}
	return role
}

// Beyond tells whether a fault may hit a machine in a way that the system does not survive.
func (f Fault) Beyond(env Env) bool {
	for _, m := range reachable(f.Target, env) {
		if f.Kind.Ruins(RoleOf(m)) != Nothing {
			return true
		}
	}
	return false
}

// Beyond lists the numbers (from 1) of the faults that the system does not survive. A plan without any lies inside the atlas.
func (p Plan) Beyond(env Env) []int {
	var out []int
	for i, f := range p {
		if f.Beyond(env) {
			out = append(out, i+1)
		}
	}
	return out
}

// reachable lists the machines that a target may stand for.
func reachable(target string, env Env) []string {
	list, err := terms(target)
	if err != nil {
		return nil
	}
	var out []string
	for _, t := range list {
		switch {
		case t.rack > 0 || t.any == rackRole:
			for _, role := range Roles {
				for _, m := range env.Machines[role] {
					if t.rack == 0 || Rack(m, env.Racks) == t.rack {
						out = append(out, m)
					}
				}
			}
		case t.any != "":
			out = append(out, env.Machines[t.any]...)
		case t.topic != "" || t.group != "":
			out = append(out, env.Machines["broker"]...)
		case strings.HasSuffix(t.text, "-*"):
			out = append(out, env.Machines[t.role]...)
		case slices.Contains(env.Machines[t.role], t.text):
			out = append(out, t.text)
		}
	}
	return out
}

// stay holds a swarm's families against its mode.
func (s *Swarm) stay(env Env) []Wrong {
	var out []Wrong
	if slices.Contains(s.Mode.Options, "overload") {
		return nil
	}
	for i, name := range s.Families {
		for _, f := range Families {
			if f.Name == name && f.Beyond && !(f.Copies && env.replicated()) {
				out = append(out, Wrong{Field: fmt.Sprintf("families[%d]", i), Text: fmt.Sprintf("found %q, which the system does not survive, allowed only with mode: overload", name)})
			}
		}
	}
	return out
}

// Survivable is the condition of a fault that strikes only where the system promises to survive it.
const Survivable = "survivable"

// replicated tells whether some topic's partitions may have several replicas.
func (env Env) replicated() bool {
	return slices.ContainsFunc(env.Topics, func(t TopicInfo) bool { return t.Replicas > 1 })
}
