package oracle

import (
	"testing"
	"time"

	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

func TestSolitude(t *testing.T) {
	alone := leads(1, 0, 1)
	for name, c := range map[string]struct {
		least int
		after string
		fires bool
	}{
		"does not lead yet":              {1, "+2s; b2 broker.up - - 2", false},
		"nothing moves":                  {1, "+2s; b2 broker.up - - 2", true},
		"commits at once":                {1, "b1 log.committed t/0 - 2 0 1; +2s; b2 broker.up - - 2", false},
		"commits a part":                 {1, "b1 log.committed t/0 - 1 0 1; +2s; b2 broker.up - - 2", true},
		"not yet":                        {1, "+1s; b2 broker.up - - 2", false},
		"one in sync is not enough":      {2, "+2s; b2 broker.up - - 2", false},
		"stands still":                   {1, "pause b1; +2s; b2 broker.up - - 2", false},
		"asks for another state":         {1, "b1 isr.proposed t/0 - 2 0; +2s; b2 broker.up - - 2", false},
		"is not alone any more":          {1, leads(1, 0, 1, 2) + "+2s; b2 broker.up - - 2", false},
		"does not lead any more":         {1, leads(2, 1, 1, 2) + "+2s; b2 broker.up - - 2", false},
		"has another log by now":         {1, "b1 log.truncated t/0 - 2 0; +2s; b2 broker.up - - 2", false},
		"another partition has moved":    {1, "b1 log.committed t/1 - 2 0 1; +2s; b2 broker.up - - 2", true},
		"its partition is freed":         {1, "free t/0; +2s; b2 broker.up - - 2", false},
		"another partition is freed":     {1, "free t/1; +2s; b2 broker.up - - 2", true},
		"its disk is replaced":           {1, "wipe b1; +2s; b2 broker.up - - 2", true},
		"a wire changes bytes":           {1, "ruin 1 b2 wire; +2s; b2 broker.up - - 2", false},
		"another broker tells the place": {1, "b2 log.committed t/0 - 2 0 0; +2s; b2 broker.up - - 2", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := replicatedPromise(-1)
			p.ReplicaLag, p.Topics[0].MinISR = time.Second, c.least
			p.Ruins = NewRuins(p)
			o := judging(p, NewSolitude, p.Ruins)
			s := newStory(t, o)
			began := "b1 leader.began t/0 - 0 0 0; "
			if name == "does not lead yet" {
				began = ""
			}
			s.tell(threeReplicas + leads(1, 0, 1, 2, 3) + began + "b1 log.appended t/0 - 0 2" + at(1, alone))
			state := alone[len("\nz znode.set /brokers/topics/t/state "):]
			s.rec.CoordCalled(s.who("b1"), &history.CoordCall{Op: "multi", Ops: []history.CoordCall{{Op: "check", Path: "/brokers/epochs/1"}, {Op: "set", Path: "/brokers/topics/t/state", Data: []byte(state)}}})
			s.tell(c.after)
			if !c.fires {
				require.Empty(t, o.Violations())
				return
			}
			require.Len(t, o.Violations(), 1)
			require.Equal(t, Live, o.Violations()[0].Invariant)
			require.Contains(t, o.Violations()[0].Message, "b1 is alone in sync with t/0")
		})
	}
}
