package broker

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"faultline/broker/log"
)

// settingKind describes a topic setting: its name in Kafka, how it reads and what it changes.
type settingKind struct {
	name string
	// set parses and applies; nil: the only value is fixed.
	set     func(c *policy, value int64)
	get     func(c policy) int64
	least   int64
	boolean bool     // true or false, 1 or 0 to set and get
	ratio   bool     // 0 to 1, in millionths to set and get
	words   []string // the only values, numbered to set and get
	fixed   string
	doc     string
}

// settingKinds are all the topic settings that there are, sorted by name.
var settingKinds = []settingKind{
	{name: "cleanup.policy", words: []string{"delete", "compact", "compact,delete"}, doc: "Old segments are deleted, or of each key only the last record stays, or both.",
		set: func(c *policy, v int64) { c.Compact, c.KeepOld = v > 0, v == 1 },
		get: func(c policy) int64 {
			switch {
			case !c.Compact:
				return 0
			case c.KeepOld:
				return 1
			}
			return 2
		}},
	{name: "compression.type", fixed: "producer", doc: "Batches are kept as the producer compressed them."},
	{name: "delete.retention.ms", doc: "A tombstone stays so long after what it supersedes is compacted away.",
		set: func(c *policy, v int64) { c.DeleteRetention = millis(v) + time.Duration(b2i(v == 0)) },
		get: func(c policy) int64 { return c.DeleteRetention.Milliseconds() }},
	{name: "flush.messages", least: 1, doc: "A flush starts after so many records.",
		set: func(c *policy, v int64) { c.FlushMessages = v },
		get: func(c policy) int64 { return orMax(c.FlushMessages) }},
	{name: "flush.ms", least: 1, doc: "A flush starts when a record was not flushed for so long.",
		set: func(c *policy, v int64) { c.FlushInterval = millis(v) },
		get: func(c policy) int64 { return orMax(c.FlushInterval.Milliseconds()) }},
	{name: "index.interval.bytes", least: 1, doc: "Log bytes between two index entries.",
		set: func(c *policy, v int64) { c.IndexInterval = int(min(v, math.MaxInt32)) },
		get: func(c policy) int64 { return int64(c.IndexInterval) }},
	{name: "max.message.bytes", least: 1, doc: "Largest record batch accepted.",
		set: func(c *policy, v int64) { c.MaxBatchBytes = int(min(v, math.MaxInt32)) },
		get: func(c policy) int64 { return int64(c.MaxBatchBytes) }},
	{name: "message.timestamp.type", fixed: "CreateTime", doc: "Records keep the producer's timestamps."},
	{name: "min.cleanable.dirty.ratio", ratio: true, doc: "Compaction waits until so much of the log is new since the last one.",
		set: func(c *policy, v int64) {
			c.CompactRatio = float64(v) / 1e6
			c.CompactRatio += 1e-9 * float64(b2i(v == 0))
		},
		get: func(c policy) int64 { return int64(math.Round(c.CompactRatio * 1e6)) }},
	{name: "min.compaction.lag.ms", doc: "Records are not compacted before they are so old.",
		set: func(c *policy, v int64) { c.CompactLag = millis(v) },
		get: func(c policy) int64 { return c.CompactLag.Milliseconds() }},
	{name: "min.insync.replicas", least: 1, doc: "In-sync replicas that a record with acks=all needs.",
		set: func(c *policy, v int64) { c.leastISR = int(min(v, math.MaxInt16)) },
		get: func(c policy) int64 { return int64(c.leastISR) }},
	{name: "retention.bytes", least: -1, doc: "The oldest segments go while the rest has so many bytes; -1: never.",
		set: func(c *policy, v int64) { c.RetentionBytes = max(v, -1) + b2i(v == 0) },
		get: func(c policy) int64 { return max(c.RetentionBytes, -1) }},
	{name: "retention.ms", least: -1, doc: "A segment goes when its newest record is older; -1: never.",
		set: func(c *policy, v int64) { c.RetentionTime = millis(v) + time.Duration(b2i(v == 0)) },
		get: func(c policy) int64 {
			if c.RetentionTime < 0 {
				return -1
			}
			return c.RetentionTime.Milliseconds()
		}},
	{name: "segment.bytes", least: 14, doc: "The active segment rolls at this size.",
		set: func(c *policy, v int64) { c.SegmentBytes = min(v, math.MaxInt32) },
		get: func(c policy) int64 { return c.SegmentBytes }},
	{name: "segment.ms", least: 1, doc: "The active segment rolls at this age.",
		set: func(c *policy, v int64) { c.SegmentAge = millis(v) },
		get: func(c policy) int64 { return orMax(c.SegmentAge.Milliseconds()) }},
	{name: "unclean.leader.election.enable", boolean: true, doc: "A replica that may lack records may lead when no other is left.",
		set: func(c *policy, v int64) { c.unclean = v == 1 },
		get: func(c policy) int64 { return b2i(c.unclean) }},
}

// policy is what the settings of a topic decide.
type policy struct {
	log.Config
	leastISR int  // in-sync replicas that acks=all needs
	unclean  bool // whether a replica that is not in sync may be elected
}

// topicPolicy applies a topic's settings to the defaults. It stops at the first that is wrong.
func topicPolicy(c policy, settings []setting) (policy, error) {
	for _, s := range settings {
		if err := s.apply(&c); err != nil {
			return c, err
		}
	}
	return c, c.Check()
}

func (s setting) apply(c *policy) error {
	k := findSetting(s.name)
	if k == nil {
		return fmt.Errorf("unknown topic setting %q", s.name)
	}
	if k.set == nil {
		if s.value != k.fixed {
			return fmt.Errorf("topic setting %s = %q: only %q is supported", s.name, s.value, k.fixed)
		}
		return nil
	}
	if k.boolean {
		on, err := strconv.ParseBool(s.value)
		if err != nil {
			return fmt.Errorf("topic setting %s = %q: want true or false", s.name, s.value)
		}
		k.set(c, b2i(on))
		return nil
	}
	if k.words != nil {
		i := slices.Index(k.words, strings.ReplaceAll(s.value, "delete,compact", "compact,delete"))
		if i < 0 {
			return fmt.Errorf("topic setting %s = %q: want one of %q", s.name, s.value, k.words)
		}
		k.set(c, int64(i))
		return nil
	}
	if k.ratio {
		f, err := strconv.ParseFloat(s.value, 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return fmt.Errorf("topic setting %s = %q: want a number from 0 to 1", s.name, s.value)
		}
		k.set(c, int64(math.Round(f*1e6)))
		return nil
	}
	v, err := strconv.ParseInt(s.value, 10, 64)
	if err != nil || v < k.least {
		return fmt.Errorf("topic setting %s = %q: want a whole number from %d", s.name, s.value, k.least)
	}
	k.set(c, v)
	return nil
}

// show is a value as clients read it.
func (k *settingKind) show(v int64) string {
	switch {
	case k.boolean:
		return strconv.FormatBool(v == 1)
	case k.ratio:
		return strconv.FormatFloat(float64(v)/1e6, 'f', -1, 64)
	case k.words != nil:
		return k.words[v]
	}
	return strconv.FormatInt(v, 10)
}

func findSetting(name string) *settingKind {
	for i := range settingKinds {
		if settingKinds[i].name == name {
			return &settingKinds[i]
		}
	}
	return nil
}

// millis converts without overflow; -1 stays negative.
func millis(v int64) time.Duration {
	if v > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(v) * time.Millisecond
}

// orMax shows "never" as Kafka does.
func orMax(v int64) int64 {
	if v == 0 {
		return math.MaxInt64
	}
	return v
}

// b2i bends Kafka's 0 (at once) away from this log's 0 (the default).
func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
