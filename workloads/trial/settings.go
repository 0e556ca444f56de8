package trial

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"faultline/broker/client"
	"faultline/broker/log"
	"faultline/faults/quantity"
	"faultline/sim/disk"
	"faultline/sim/net"
	"faultline/sim/virtual"
	"faultline/workloads/scenario"
)

// Ports that the machines of a trial serve on.
const (
	coordPort  = 2181
	peerPort   = 2888 // of coordination servers, for each other
	brokerPort = 9092
)

func (r *run) addrs(role string, port int) []string {
	var out []string
	for _, n := range r.nodes {
		if n.role == role {
			out = append(out, fmt.Sprintf("%s:%d", n.name, port))
		}
	}
	return out
}

func (r *run) coordAddrs() []string  { return r.addrs(roleCoord, coordPort) }
func (r *run) brokerAddrs() []string { return r.addrs(roleBroker, brokerPort) }

// orNever is a duration whose value "never" is written as the given number.
func orNever(d quantity.Durations, never time.Duration) time.Duration {
	if v := d.V().D(); v != math.MaxInt64 {
		return v
	}
	return never
}

func unlimited(n int64, instead int64) int64 {
	if n == math.MaxInt64 {
		return instead
	}
	return n
}

// topicPolicy is the log policy of a drawn topic.
func topicPolicy(t *scenario.Topic) log.Config {
	return log.Config{
		SegmentBytes:   int64(t.SegmentBytes.V()),
		SegmentAge:     orNever(t.SegmentAge, 0),
		IndexInterval:  int(t.IndexInterval.V()),
		FlushMessages:  unlimited(int64(t.FlushMessages.V()), 0),
		FlushInterval:  orNever(t.FlushInterval, 0),
		RetentionTime:  orNever(t.RetentionTime, -1),
		RetentionBytes: unlimited(int64(t.RetentionBytes.V()), -1),
		MaxBatchBytes:  int(t.MaxBatch.V()),

		Compact:         t.Compact.V() == "yes",
		KeepOld:         t.RetentionTime.V().D() == math.MaxInt64 && int64(t.RetentionBytes.V()) == math.MaxInt64,
		CompactRatio:    float64(t.CompactRatio.V()) / 1e6,
		DeleteRetention: t.TombstoneRetention.V().D(),
	}
}

// topicSettings is the same policy as a CreateTopics request writes it.
func topicSettings(t *scenario.Topic) []client.Setting {
	c := topicPolicy(t)
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

var shapes = map[string]net.Kind{"uniform": net.Uniform, "heavy-tail": net.HeavyTail, "constant": net.Constant}

// hardware is the undisturbed network and disk of a drawn scenario.
func hardware(s *scenario.Scenario) virtual.Config {
	return virtual.Config{
		Net: net.Config{
			Latency:   net.Distribution{Kind: shapes[s.Network.Shape.V()], Min: s.Network.Latency.Min.D(), Max: max(s.Network.Latency.Max.D(), 1)},
			Bandwidth: int64(s.Network.Bandwidth.V()),
		},
		Disk: disk.Config{
			ReadBandwidth: int64(s.Disk.Bandwidth.V()), WriteBandwidth: int64(s.Disk.Bandwidth.V()),
			Seek: s.Disk.Seek.V().D(), Flush: s.Disk.Flush.V().D(), Cache: int64(s.Disk.Cache.V()), Capacity: unlimited(int64(s.Disk.Space.V()), 0),
		},
	}
}
