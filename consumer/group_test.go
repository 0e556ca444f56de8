package consumer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/consumer"
)

func TestGroupDividesAndDelivers(t *testing.T) {
	x := newWorld(t, 1, 3).up()
	x.topic("t", 6)
	x.members(3)
	x.produce("p", "t", 500, 2*time.Millisecond)
	x.until(20*time.Second, "everything delivered", func() bool { return len(x.sent) == 500 && x.delivered() && len(x.owned()) == 6 })
	dup := 0
	for _, n := range x.got {
		dup += n - 1
	}
	require.Zero(t, dup, "nothing fails, so nothing comes twice")
	_ = consumer.Smallest
}
