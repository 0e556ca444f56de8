package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A system is driven like every series of faultline, and named after it where there are several.
func TestAgainst(t *testing.T) {
	names := func(series string, only bool) (list []string) {
		s, err := ParseSuite("x.yaml", []byte("name: x\nsweep: {setting: topology.brokers, values: [1]}\nseries: ["+series+"]\n"))
		require.NoError(t, err)
		for _, n := range s.Against([]string{"amqp://h:1", "kafka://h:2"}, only).Series {
			list = append(list, n.Name+" on "+n.System)
		}
		return list
	}
	require.Equal(t, []string{"log on faultline", "other on queue", "amqp on amqp://h:1", "kafka on kafka://h:2"}, names("{name: log}, {name: other, system: queue}", false))
	require.Equal(t, []string{"amqp, a on amqp://h:1", "amqp, b on amqp://h:1", "kafka, a on kafka://h:2", "kafka, b on kafka://h:2"}, names("{name: a}, {name: b}", true))
	require.Empty(t, names("{name: other, system: queue}", true))
}

// Nobody predicts a system that runs elsewhere.
func TestPredictable(t *testing.T) {
	s, err := ParseSuite("x.yaml", []byte("name: x\nsweep: {setting: topology.brokers, values: [1]}\nseries: [{name: a}, {name: b, system: \"amqp://h:1\"}]\n"))
	require.NoError(t, err)
	require.Len(t, s.Series, 2)
	require.Len(t, s.Predictable().Series, 1)
}
