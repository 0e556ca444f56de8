package history

import (
	"time"

	"faultline/broker/client"
)

// KafkaTap passes the requests of one process on to a recorder. It is a client.Tap.
type KafkaTap struct {
	Recorder *Recorder
	Who      Who
	// World translates a reading of the process's monotonic clock to world time.
	World func(uptime time.Duration) time.Duration

	call KafkaCall
}

// Done records a finished request.
func (t *KafkaTap) Done(c client.Call) {
	t.call = KafkaCall{
		Broker: c.Broker, Key: c.Req.Key(), Version: c.Req.GetVersion(), Req: c.Req, Resp: c.Resp, Err: c.Err, Sent: c.Sent,
		Start: t.World(c.Start), End: t.World(c.End),
	}
	t.Recorder.KafkaCalled(t.Who, &t.call)
	t.call.Req, t.call.Resp = nil, nil
}
