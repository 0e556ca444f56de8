package deploy

import (
	"math"
	"strconv"

	"faultline/broker/client"
	"faultline/broker/log"
	"faultline/workloads/scenario"
)

// TopicPolicy is the log policy of a drawn topic.
func TopicPolicy(t *scenario.Topic) log.Config {
	return log.Config{
		SegmentBytes:   int64(t.SegmentBytes.V()),
		SegmentAge:     OrNever(t.SegmentAge, 0),
		IndexInterval:  int(t.IndexInterval.V()),
		FlushMessages:  Unlimited(int64(t.FlushMessages.V()), 0),
		FlushInterval:  OrNever(t.FlushInterval, 0),
		RetentionTime:  OrNever(t.RetentionTime, -1),
		RetentionBytes: Unlimited(int64(t.RetentionBytes.V()), -1),
		MaxBatchBytes:  int(t.MaxBatch.V()),

		Compact:         t.Compact.V() == "yes",
		KeepOld:         t.RetentionTime.V().D() == math.MaxInt64 && int64(t.RetentionBytes.V()) == math.MaxInt64,
		CompactRatio:    float64(t.CompactRatio.V()) / 1e6,
		DeleteRetention: t.TombstoneRetention.V().D(),
	}
}

// TopicSettings is the same policy as a CreateTopics request writes it.
func TopicSettings(t *scenario.Topic) []client.Setting {
	c := TopicPolicy(t)
	var out []client.Setting
	add := func(name string, v int64) {
		out = append(out, client.Setting{Name: name, Value: strconv.FormatInt(v, 10)})
	}
	never := func(v int64) int64 {
		if v == 0 {
			return math.MaxInt64
		}
		return v
	}
	add("segment.bytes", c.SegmentBytes)
	add("segment.ms", never(c.SegmentAge.Milliseconds()))
	add("index.interval.bytes", int64(c.IndexInterval))
	add("flush.messages", never(c.FlushMessages))
	add("flush.ms", never(c.FlushInterval.Milliseconds()))
	add("max.message.bytes", int64(c.MaxBatchBytes))
	retention := c.RetentionTime.Milliseconds()
	if c.RetentionTime < 0 {
		retention = -1
	}
	add("retention.ms", retention)
	add("retention.bytes", c.RetentionBytes)
	cleanup := "delete"
	if c.Compact {
		cleanup = "compact,delete"
		if c.KeepOld {
			cleanup = "compact"
		}
		out = append(out, client.Setting{Name: "min.cleanable.dirty.ratio", Value: strconv.FormatFloat(c.CompactRatio, 'f', -1, 64)})
		add("delete.retention.ms", c.DeleteRetention.Milliseconds())
	}
	out = append(out, client.Setting{Name: "cleanup.policy", Value: cleanup})
	add("min.insync.replicas", int64(t.MinISR.V()))
	out = append(out, client.Setting{Name: "unclean.leader.election.enable", Value: strconv.FormatBool(t.Unclean.V() == "yes")})
	return out
}
