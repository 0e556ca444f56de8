package faults

import (
	"fmt"
	"slices"
	"strings"
)

// The atlas: what the system promises to survive, and what a fault beyond that may take.
//
// Inside the atlas, in any number and order: processes and machines that die, stand still or run slowly, alone or a rack at a time; disks that fail an operation,
// move fewer bytes, are slow, stall or are full; links that are cut, clogged, slow, lossy or reset; clocks that are off, drift (5% at most) or
// jump; sessions that expire; machines that join, topics that grow. Every invariant holds as soon as the faults are over, and a record acknowledged with acks=all survives. One acknowledged with acks=1
// survives where there is one replica, all but a power loss and a failed flush; where there are several, as long as its leader stays.
//
// What a loss takes depends on what else holds the same:
//
//   - One copy. A partition with one replica acknowledges (acks=all) what is on its disk, and so does a coordination service of one server. No loss of page caches takes anything, a disk that does
//     not give back what it took does.
//   - Ensembles. A coordination server answers for nothing that is not on its disk. However many of them die, stand still or are cut off, nothing is lost; without a majority nothing
//     moves, and goes on when the faults are over. A server that lost what was on its disk has forgotten its vote and entries that a majority counts on, and may help to elect a leader that does not
//     have them. Raft survives that of no server, be it one of five: beyond.
//   - Replicas. A record acknowledged with acks=all is in the page caches of min.insync.replicas brokers (M) at least, and need not be on any disk. So at most M-1 brokers of a partition at a time may
//     have lost what they had not flushed (power loss, replaced disk, failing flush), each counted until it is in sync again. As long as one is counted, those whose process ended without closing its logs
//     count as well: neither the broker nor the controller can tell one from the other. With M=1 none may. That more than M are in sync earns no credit: the leader may let them go at any moment.
//     When the next one may strike depends on everything else that goes on. So a fault of a swarm in checked mode says "if: survivable", and the account ([Copies]) is asked as it strikes: it waits for
//     its moment, or never comes. A disk may also be replaced then, of a broker that has no partition for itself alone.
//
// Beyond it, with what they take ([Ruin]):
//
//	bit-rot, misdirected-write  Bytes    what the machine's disk had durable may read differently while the fault lasts; what a program concludes from that stays
//	lying-disk                  Flushes  what was flushed since it began may be gone with the next power loss
//	replace-disk                Disk     everything that was on the disk
//	corruption                  Wire     what two machines say to each other, for only record batches carry a checksum
//
// On a broker this frees the promises about the partitions on that disk: that acknowledged records are there, at their offsets, in their order, and
// come to every group. A log that lost its end gives its offsets out anew, and a group may skip or see again what lies below the old end. A partition with several replicas is freed as a whole by decay and lies, for the batches'
// checksums cover neither offset nor leader epoch, and a follower goes by its leader's; and by a loss of too many copies; a replaced disk alone frees that copy and nothing else. On a coordination service's
// server it frees all that the registry holds: topics, committed offsets, sessions and owners. Disks of producers and consumers
// hold nothing. Corruption frees the offsets and places of all records, and the registry too when it hits a link to the coordination service.
//
// Beyond the atlas safety still holds. Nothing is handed to an application that nobody sent, and nothing with other bytes; no process panics; no
// task hangs; a partition has one owner at a time, unless the registry was hit; and when the faults are over, everything that is not freed comes back.
//
// A swarm in checked mode (the default) stays inside. In overload mode it also draws from the families beyond, and asks no account. What a scenario file asks for is held against the
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

// takesCopies tells whether the fault may take a copy where there are several.
func (f Fault) takesCopies(env Env) bool {
	return f.Harm() != None && env.replicated() && slices.ContainsFunc(reachable(f.Target, env), func(m string) bool { return RoleOf(m) == "broker" })
}

// replicated tells whether some topic's partitions may have several replicas.
func (env Env) replicated() bool {
	return slices.ContainsFunc(env.Topics, func(t TopicInfo) bool { return t.Replicas > 1 })
}
