package broker

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTopicNodeRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := newTopicID(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		replicas := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.Int32Range(0, 5), 1, 3, rapid.ID[int32]), 1, 30).Draw(t, "replicas")
		settings := []setting{{"flush.ms", "5"}, {"retention.ms", "-1"}}[:rapid.IntRange(0, 2).Draw(t, "settings")]
		moves := make([]*move, len(replicas))
		if rapid.Bool().Draw(t, "moves") {
			moves[len(moves)-1] = &move{From: []int32{1, 2}, To: replicas[len(moves)-1]}
		}
		made := &topic{id: id, replicas: replicas, moves: moves, settings: settings}
		data := made.encode()
		if string(data) != string(made.encode()) {
			t.Fatal("not stable")
		}
		got, err := decodeTopic("t", data)
		require.NoError(t, err)
		require.Equal(t, id, got.id)
		require.Equal(t, replicas, got.replicas)
		require.Equal(t, moves, got.moves)
		require.Equal(t, append([]setting(nil), settings...), got.settings)
	})
}

func TestTopicNodeIsChecked(t *testing.T) {
	const id = `"id":"0a0b0c0d-0000-4000-8000-000000000001"`
	for _, bad := range []string{``, `{}`, `{"id":"xyz"}`, `{` + id + `,"partitions":{"1":[1]}}`, `{` + id + `,"partitions":{"-1":[1],"0":[1]}}`, `{` + id + `,"partitions":{"a":[1]}}`} {
		_, err := decodeTopic("t", []byte(bad))
		require.ErrorContains(t, err, "registration of topic t", bad)
	}
	got, err := decodeTopic("t", []byte(`{`+id+`,"partitions":{"0":[4,5],"1":[]}}`))
	require.NoError(t, err)
	require.Equal(t, [][]int32{{4, 5}, {}}, got.replicas)
}

func TestPartitionDirs(t *testing.T) {
	for _, c := range []struct {
		dir   string
		topic string
		id    int32
	}{{"clicks-0", "clicks", 0}, {"a-b-12", "a-b", 12}, {"7-7", "7", 7}, {"x--1", "x-", 1}} {
		topic, id, ok := parsePartitionDir(c.dir)
		require.True(t, ok, c.dir)
		require.Equal(t, c.topic, topic)
		require.Equal(t, c.id, id)
		require.Equal(t, c.dir, partitionDir(topic, id))
	}
	for _, bad := range []string{"", "clean-shutdown", "meta.properties", "-1", "a-", "a-01", "a-+1", "a-1.deleted", "a-99999999999"} {
		_, _, ok := parsePartitionDir(bad)
		require.False(t, ok, bad)
	}
}

func TestTopicNames(t *testing.T) {
	for _, good := range []string{"a", "A.b_c-9", "..."} {
		require.NoError(t, checkTopicName(good))
	}
	for _, bad := range []string{"", ".", "..", "a/b", "ä", "a b", string(make([]byte, 201))} {
		require.Error(t, checkTopicName(bad), "%q", bad)
	}
}

// A broker that believed a flipped bit in the id of a log's topic would take the log for that of a deleted topic, and remove it.
func TestAFlippedBitInASmallFileIsSeen(t *testing.T) {
	sealed := seal("version: 0\ntopic_id: 01234567-89ab-cdef-0123-456789abcdef\n")
	_, ok := unseal(sealed)
	require.True(t, ok)
	for bit := range 8 * len(sealed) {
		b := []byte(sealed)
		b[bit/8] ^= 1 << (bit % 8)
		_, ok := unseal(string(b))
		require.False(t, ok, "%q", b)
	}
	for n := range len(sealed) {
		_, ok := unseal(sealed[:n])
		require.False(t, ok)
	}
}

func TestIdentity(t *testing.T) {
	id := identity{Broker: 3, Cluster: "c", Incarnation: 9}
	got, err := decodeIdentity(id.encode())
	require.NoError(t, err)
	require.Equal(t, id, got)
	for _, bad := range []string{"", "broker.id=3\n", "broker.id=x\ncluster.id=\nincarnation=1\n", "nonsense\n", "version=2\nbroker.id=3\ncluster.id=\nincarnation=1\n"} {
		_, err := decodeIdentity(bad)
		require.Error(t, err, bad)
	}
}

// A process that crashed made the data directory, and no more. What its successor writes there and calls durable is so.
func TestAnIdentityIsDurableInADirectoryThatIsThere(t *testing.T) {
	for seed := range uint64(20) {
		c := virtual.New(sim.New(sim.Config{Seed: seed}), virtual.Config{})
		host := c.Add("b1")
		start := func(fn func(d machine.Disk)) {
			host.Boot(func(m machine.Machine) error {
				fn(m.Disk())
				c.World.Halt()
				m.Sleep(time.Hour)
				return nil
			})
			c.World.Run(time.Minute)
		}
		load := func(incarnation int64) func(d machine.Disk) {
			return func(d machine.Disk) {
				id, _, err := loadIdentity(d, "broker", 1)
				require.NoError(t, err)
				require.Equal(t, incarnation, id.Incarnation, "seed %d", seed)
			}
		}
		start(func(d machine.Disk) { require.NoError(t, d.Mkdir("broker")) })
		host.Crash()
		start(load(1))
		host.PowerLoss()
		start(load(2))
		c.World.Close()
	}
}

func TestSettings(t *testing.T) {
	base := Config{ID: 1, Coord: []string{"x"}}
	base, err := base.withDefaults("m")
	require.NoError(t, err)
	apply := func(name, value string) (policy, error) {
		return topicPolicy(base.policy(), []setting{{name, value}})
	}
	c, err := apply("retention.ms", "-1")
	require.NoError(t, err)
	require.Negative(t, c.RetentionTime)
	c, err = apply("retention.ms", "0")
	require.NoError(t, err)
	require.Positive(t, c.RetentionTime, "0 is at once, not the log's default")
	c, err = apply("retention.bytes", "0")
	require.NoError(t, err)
	require.Positive(t, c.RetentionBytes)
	c, err = apply("flush.ms", "9223372036854775807")
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64, c.FlushInterval)
	c, err = apply("segment.ms", "1500")
	require.NoError(t, err)
	require.Equal(t, 1500*time.Millisecond, c.SegmentAge)
	for _, bad := range []setting{{"retention.ms", "-2"}, {"retention.ms", "1h"}, {"cleanup.policy", "compact,delete,compact"}, {"min.cleanable.dirty.ratio", "1.1"}, {"what", "1"}, {"flush.messages", "0"}, {"unclean.leader.election.enable", "1x"}, {"min.insync.replicas", "0"}} {
		_, err := apply(bad.name, bad.value)
		require.ErrorContains(t, err, bad.name)
	}
	for _, value := range []string{"delete", "compact", "compact,delete"} {
		c, err := apply("cleanup.policy", value)
		require.NoError(t, err)
		k := findSetting("cleanup.policy")
		require.Equal(t, value, k.show(k.get(c)))
	}
	c, err = apply("min.cleanable.dirty.ratio", "0.25")
	require.NoError(t, err)
	require.Equal(t, 0.25, c.CompactRatio)
	// What is told reads back as what it was.
	for _, k := range settingKinds {
		if k.get == nil || k.boolean || k.words != nil {
			continue
		}
		for _, v := range []int64{max(k.least, 1), 1000, 12345} {
			c := base.policy()
			k.set(&c, v)
			require.Equal(t, v, k.get(c), k.name)
		}
	}
}

func TestNewestFindsTheLargestTimestamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(1e12, 1e12+50), rapid.Just(int64(math.MaxInt64-1)), rapid.Just(int64(math.MaxInt64))), 0, 20).Draw(t, "times")
		probes := 0
		find := func(ts int64) (int64, int64, error) {
			probes++
			for i, v := range times {
				if v >= ts {
					return int64(i), v, nil
				}
			}
			return -1, -1, nil
		}
		offset, ts, err := newest(find)
		require.NoError(t, err)
		wantOffset, want := int64(-1), int64(-1)
		for i, v := range times {
			if v > want {
				wantOffset, want = int64(i), v
			}
		}
		require.Equal(t, [2]int64{wantOffset, want}, [2]int64{offset, ts})
		require.Less(t, probes, 150)
	})
}
