// Package faults is what may go wrong in a world. A [Plan] is data: a list of faults, each with its start, duration, target and
// parameters. It comes from a scenario file or from the swarm generator, prints as the YAML that it parses from, and is
// put into effect on a [Target].
//
// Times count from the start of the load. Every fault ends at the heal phase at the latest: [Injection.HealAll]. What the system survives
// of it, and what not, is the atlas (atlas.go).
package faults

import (
	"faultline/faults/quantity"
)

// Plan is a list of faults. The order has no meaning but for faults that begin at the same instant: they begin in this order.
type Plan []Fault

// Fault is one fault, or a rule that makes several (every). A field that its kind does not take must be zero; kinds.go says which
// kind takes what. Ranges and "any" targets are drawn by [Plan.Draw].
type Fault struct {
	// When it begins, counted from the start of the load.
	At quantity.Durations `yaml:"at" min:"0s" need:"true"`
	// What happens.
	Kind Kind `yaml:"fault" need:"true"`
	// Whom it hits: a machine (broker-1), a pattern (consumer-*), one that the seed picks (any broker), the leader of a
	// partition at that time (leader of visits/0), the broker that coordinates a group (coordinator of readers), all machines of a rack (rack-2, any rack), or several of these with commas between.
	Target string `yaml:"target"`
	// The other side of a network fault, written like a target. Left out: every other machine.
	Peer string `yaml:"peer"`
	// Direction of a network fault as seen from the target: both ways (default), only what it sends (out), only what it receives (in).
	Way string `yaml:"way" oneof:"both|out|in"`
	// How long it lasts. Left out: until the heal phase (session-expiry: a little longer than the session time-out).
	For quantity.Durations `yaml:"for" min:"1us"`
	// Repeats the fault: the time from one begin to the next, drawn anew each time.
	Every quantity.Durations `yaml:"every" min:"1ms"`
	// With every: no repetition begins after this time.
	Until quantity.Durations `yaml:"until" min:"0s"`
	// Time from one machine to the next: of a rolling-restart from the end of one to the begin of the next (default 0s), of a
	// swizzle-clog from one begin, or end, to the next.
	Gap quantity.Durations `yaml:"gap" min:"1ms"`
	// How a rolling-restart takes a machine down (default: stop).
	How string `yaml:"how" oneof:"stop|crash|power-loss"`
	// Latency that a slow link or disk adds to each message or operation; the most that a misfortune takes.
	Latency quantity.Durations `yaml:"latency" min:"1us" max:"1m"`
	// How much more than its latency a slow link adds to a message at most, drawn per message (default: nothing).
	Spread quantity.Durations `yaml:"spread" min:"1us" max:"1m"`
	// How the spread is drawn: each part of it as likely as another (uniform, default), or little most times and much now and then (heavy-tail).
	Shape string `yaml:"shape" oneof:"uniform|heavy-tail"`
	// Bandwidth that is left on a slow link.
	Bandwidth quantity.Bandwidths `yaml:"bandwidth" min:"1B/s"`
	// How far the wall clock jumps; back when negative.
	By quantity.Durations `yaml:"by"`
	// How much faster the clock runs; slower when negative.
	Drift quantity.Percents `yaml:"drift" min:"-5%" max:"5%"`
	// Which disk operations are hit: read, write (also truncate) and fsync (also of directories), which together are data, the default; one of the others;
	// or all there are.
	Op string `yaml:"op" oneof:"data|all|read|write|fsync|truncate|open|create|mkdir|remove|rename|readdir|stat|syncdir"`
	// Which files are hit, by a pattern on the path (* stops at a slash, ** does not). Default: all.
	Path string `yaml:"path"`
	// Where in the programs a misfortune strikes: a failpoint, such as fault/consumer/fetched, or several with commas between. They are listed
	// at the end of this page.
	Place string `yaml:"place"`
	// Share of the operations, passages, messages or sectors that are hit (default 100%).
	Probability quantity.Percents `yaml:"probability" min:"0.0001%" max:"100%"`
	// At most so many operations, or sectors, are hit (default: no limit).
	Count quantity.Counts `yaml:"count" min:"1"`
	// Bytes that a full disk has left when the fault begins (default: none).
	Free quantity.Sizes `yaml:"free" min:"1B" max:"1GiB"`
	// Bytes that still pass before a connection is cut; bytes at the beginning of each message that corruption spares, and with them all shorter messages
	// (default: none).
	After quantity.Sizes `yaml:"after" min:"1B" max:"1GiB"`
	// How many times slower the CPU is.
	Factor quantity.Counts `yaml:"factor" min:"2" max:"1000"`
	// Strikes only if the system promises to survive it, as things are at that moment (docs/fault-model.md, the atlas); else it is held back, and the timeline says so. A swarm
	// in checked mode writes this where partitions have several replicas.
	If string `yaml:"if" oneof:"survivable"`
	// Topic of add-partitions, create-topic, renew-topic and reassign.
	Topic string `yaml:"topic"`
	// Partitions that the topic has afterwards.
	Partitions quantity.Counts `yaml:"partitions" min:"1" max:"64"`
}
