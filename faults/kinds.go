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
	Crash         Kind = "crash"
	PowerLoss     Kind = "power-loss"
	Stop          Kind = "stop"
	Start         Kind = "start"
	Pause         Kind = "pause"
	Partition     Kind = "partition"
	Isolate       Kind = "isolate"
	SlowLink      Kind = "slow-link"
	Clog          Kind = "clog"
	Reset         Kind = "reset-connections"
	SessionExpiry Kind = "session-expiry"
	ClockJump     Kind = "clock-jump"
	ClockDrift    Kind = "clock-drift"
	DiskErrors    Kind = "disk-error"
	FullDisk      Kind = "disk-full"
	ShortDisk     Kind = "disk-short"
	SlowDisk      Kind = "disk-slow"
	StalledDisk   Kind = "disk-stall"
	SlowCPU       Kind = "slow-cpu"
	AddPartitions Kind = "add-partitions"
	CreateTopic   Kind = "create-topic"
	Misfortune    Kind = "misfortune"
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
	{Crash, "The process dies and starts again when the fault ends; what it wrote but did not sync survives in the page cache.", []string{"target"}, []string{"for"}},
	{PowerLoss, "The machine loses power and starts again when the fault ends; what was not synced may be gone, in part or whole.", []string{"target"}, []string{"for"}},
	{Stop, "The process is asked for a regular stop and starts again when the fault ends: a consumer leaves its group and comes back.", []string{"target"}, []string{"for"}},
	{Start, "A spare machine starts its process for the first time, and stops it when the fault ends: a consumer joins its group.", []string{"target"}, []string{"for"}},
	{Pause, "The process stands still, as in a long garbage collection or a stalled virtual machine; the clocks go on.", []string{"target"}, []string{"for"}},
	{Partition, "The network between target and peer drops everything.", []string{"target", "peer"}, []string{"for", "way"}},
	{Isolate, "The network between the target and every other machine drops everything; several targets still reach each other.", []string{"target"}, []string{"for", "way"}},
	{SlowLink, "The network between target and peer gets slow; latency, bandwidth or both must be given.", []string{"target"}, []string{"peer", "for", "way", "latency", "bandwidth"}},
	{Clog, "What is sent between target and peer waits until the fault ends, and then arrives.", []string{"target"}, []string{"peer", "for", "way"}},
	{Reset, "Open connections between target and peer are reset, once.", []string{"target"}, []string{"peer"}},
	{SessionExpiry, "The target is cut off from the coordination service for longer than its session time-out.", []string{"target"}, []string{"for", "way"}},
	{ClockJump, "The target's wall clock jumps, once; its monotonic clock does not.", []string{"target", "by"}, nil},
	{ClockDrift, "The target's clocks run too fast or too slow.", []string{"target", "drift"}, []string{"for"}},
	{DiskErrors, "Disk operations fail with an input/output error.", []string{"target"}, []string{"for", "op", "path", "probability", "count"}},
	{FullDisk, "Writes that need more space fail because none is left.", []string{"target"}, []string{"for"}},
	{ShortDisk, "Reads and writes move fewer bytes than asked, without an error, as the operating system allows.", []string{"target"}, []string{"for", "op", "path", "probability", "count"}},
	{SlowDisk, "Disk operations take longer.", []string{"target", "latency"}, []string{"for", "op", "path", "probability"}},
	{StalledDisk, "Disk operations do not end until the fault ends.", []string{"target"}, []string{"for", "op", "path"}},
	{SlowCPU, "The target's CPU is slower.", []string{"target", "factor"}, []string{"for"}},
	{AddPartitions, "An administrator gives a topic more partitions.", []string{"topic", "partitions"}, nil},
	{CreateTopic, "An administrator creates a topic.", []string{"topic", "partitions"}, nil},
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
