package faults

import (
	"fmt"
	"strings"

	"faultline/faults/quantity"
)

// Kind names what a fault does.
type Kind string

// The kinds. The table below says what each does and which fields it takes.
const (
	Crash          Kind = "crash"
	PowerLoss      Kind = "power-loss"
	Stop           Kind = "stop"
	Start          Kind = "start"
	RollingRestart Kind = "rolling-restart"
	Pause          Kind = "pause"
	Freeze         Kind = "freeze"
	Partition      Kind = "partition"
	Isolate        Kind = "isolate"
	SlowLink       Kind = "slow-link"
	Clog           Kind = "clog"
	SwizzleClog    Kind = "swizzle-clog"
	Loss           Kind = "loss"
	Corruption     Kind = "corruption"
	Reset          Kind = "reset-connections"
	Cut            Kind = "cut-connections"
	SessionExpiry  Kind = "session-expiry"
	ClockJump      Kind = "clock-jump"
	ClockDrift     Kind = "clock-drift"
	DiskErrors     Kind = "disk-error"
	FullDisk       Kind = "disk-full"
	ShortDisk      Kind = "disk-short"
	SlowDisk       Kind = "disk-slow"
	StalledDisk    Kind = "disk-stall"
	BitRot         Kind = "bit-rot"
	Misdirected    Kind = "misdirected-write"
	LyingDisk      Kind = "lying-disk"
	ReplaceDisk    Kind = "replace-disk"
	SlowCPU        Kind = "slow-cpu"
	AddPartitions  Kind = "add-partitions"
	CreateTopic    Kind = "create-topic"
	RenewTopic     Kind = "renew-topic"
	Reassign       Kind = "reassign"
	Misfortune     Kind = "misfortune"
)

// KindInfo documents a kind and says which fields it needs and may have besides at, fault, every and until.
type KindInfo struct {
	Kind  Kind
	About string
	Need  []string
	May   []string
}

// Kinds documents every kind, in the order in which people should meet them.
var Kinds = []KindInfo{
	{Crash, "The process dies and starts again when the fault ends; its memory is gone, what it wrote but did not sync survives in the page cache.", []string{"target"}, []string{"for"}},
	{PowerLoss, "The machine loses power and starts again when the fault ends; what was not synced may be gone, in part or whole. A rack that loses power is one fault.", []string{"target"}, []string{"for"}},
	{Stop, "The process is asked for a regular stop and starts again when the fault ends: a consumer leaves its group and comes back.", []string{"target"}, []string{"for"}},
	{Start, "A spare machine starts its process for the first time, and stops it when the fault ends: a consumer joins its group. A spare broker stays, for partitions may be placed on it.", []string{"target"}, []string{"for"}},
	{RollingRestart, "The machines of the target are restarted one after the other, each down for the given time.", []string{"target", "for"}, []string{"gap", "how"}},
	{Pause, "The process stands still, as in a long garbage collection; the clocks and the network stack go on: what is sent to it is acknowledged.", []string{"target"}, []string{"for"}},
	{Freeze, "The whole machine stands still, as a stalled virtual machine does: nothing is sent or acknowledged, its sessions and leases run out meanwhile, and then it goes on where it was.", []string{"target"}, []string{"for"}},
	{Partition, "The network between target and peer drops everything. With every the link flaps.", []string{"target", "peer"}, []string{"for", "way"}},
	{Isolate, "The network between the target and every other machine drops everything; several targets still reach each other.", []string{"target"}, []string{"for", "way"}},
	{SlowLink, "The network between target and peer gets slow; at least one of latency, spread and bandwidth must be given.", []string{"target"}, []string{"peer", "for", "way", "latency", "spread", "shape", "bandwidth"}},
	{Clog, "What is sent between target and peer waits until the fault ends, and then arrives.", []string{"target"}, []string{"peer", "for", "way"}},
	{SwizzleClog, "The machines of the target are clogged one after the other in random order, all of them for the given time, and then released one after the other in another random order.", []string{"target", "for", "gap"}, nil},
	{Loss, "Messages between target and peer are lost: TCP sends them again, later, holds up what follows, and at last gives up.", []string{"target", "probability"}, []string{"peer", "for", "way"}},
	{Corruption, "One bit of a message between target and peer is flipped, and TCP's checksum does not see it.", []string{"target", "probability"}, []string{"peer", "for", "way", "after"}},
	{Reset, "Open connections between target and peer are reset, once.", []string{"target"}, []string{"peer"}},
	{Cut, "Open connections between target and peer break, once, in the middle of a message: after so many more bytes.", []string{"target"}, []string{"peer", "after"}},
	{SessionExpiry, "The target is cut off from the coordination service for longer than its session time-out.", []string{"target"}, []string{"for", "way"}},
	{ClockJump, "The target's wall clock jumps, once; its monotonic clock does not.", []string{"target", "by"}, nil},
	{ClockDrift, "The target's clocks run too fast or too slow.", []string{"target", "drift"}, []string{"for"}},
	{DiskErrors, "Disk operations fail with an input/output error.", []string{"target"}, []string{"for", "op", "path", "probability", "count"}},
	{FullDisk, "Writes that need more space than is free fail because none is left.", []string{"target"}, []string{"for", "free"}},
	{ShortDisk, "Reads and writes move fewer bytes than asked, without an error, as the operating system allows.", []string{"target"}, []string{"for", "op", "path", "probability", "count"}},
	{SlowDisk, "Disk operations take longer.", []string{"target", "latency"}, []string{"for", "op", "path", "probability"}},
	{StalledDisk, "Disk operations do not end until the fault ends: all that are hit, or the first few (count).", []string{"target"}, []string{"for", "op", "path", "count"}},
	{BitRot, "One bit is flipped in a share of the sectors that are on disk; they read so until they are written again or the fault ends.", []string{"target", "probability"}, []string{"for", "path", "count"}},
	{Misdirected, "The first page of a write lands on another page of the file; both read wrong until they are written again or the fault ends.", []string{"target"}, []string{"for", "path", "probability", "count"}},
	{LyingDisk, "Fsync reports success and makes nothing durable: a power loss takes what only such calls have covered.", []string{"target"}, []string{"for"}},
	{ReplaceDisk, "The machine loses power, and starts again with a new, empty disk when the fault ends.", []string{"target"}, []string{"for"}},
	{SlowCPU, "The target's CPU is slower.", []string{"target", "factor"}, []string{"for"}},
	{AddPartitions, "An administrator gives a topic more partitions.", []string{"topic", "partitions"}, nil},
	{CreateTopic, "An administrator creates a topic.", []string{"topic", "partitions"}, nil},
	{RenewTopic, "An administrator deletes a topic, and creates it anew as it was in the beginning when the fault ends.", []string{"topic", "for"}, nil},
	{Reassign, "An administrator moves every partition of a topic to the brokers that are registered then, dealt out one after the other from the target on: new replicas are added, and when they are in sync the others go.", []string{"topic", "target"}, nil},
	{Misfortune, "Places in the programs now and then take long, up to latency, and then their early way out, on every machine that passes them.", []string{"place", "probability"}, []string{"for", "latency"}},
}

// Info looks a kind up.
func (k Kind) Info() (KindInfo, bool) {
	for _, i := range Kinds {
		if i.Kind == k {
			return i, true
		}
	}
	return KindInfo{}, false
}

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText accepts the kinds of the table.
func (k *Kind) UnmarshalText(text []byte) error {
	names := make([]string, len(Kinds))
	for i, info := range Kinds {
		names[i] = string(info.Kind)
		if names[i] == string(text) {
			*k = info.Kind
			return nil
		}
	}
	return fmt.Errorf("found %q, allowed is %s%s", text, strings.Join(names, ", "), quantity.DidYouMean(string(text), names))
}
