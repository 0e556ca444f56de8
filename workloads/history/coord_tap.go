package history

import (
	"time"

	"faultline/coord/client"
)

// CoordTap passes the operations of one process on the coordination service on to a recorder. It is a client.Tap.
type CoordTap struct {
	Recorder *Recorder
	Who      Who
	// World translates a reading of the process's monotonic clock to world time.
	World func(uptime time.Duration) time.Duration

	call CoordCall
	ops  []CoordCall
	said CoordSaid
}

var opNames = [...]string{
	client.OpCreate: "create", client.OpDelete: "delete", client.OpSet: "set", client.OpCheck: "check", client.OpExists: "exists",
	client.OpGet: "get", client.OpChildren: "children", client.OpMulti: "multi", client.OpClose: "close",
}

var eventNames = [...]string{client.EventCreated: "created", client.EventDeleted: "deleted", client.EventDataChanged: "set", client.EventChildrenChanged: "children"}

// Heard records what the server sent.
func (t *CoordTap) Heard(h client.Heard) {
	t.said = CoordSaid{Session: h.Session, Path: h.Path, Watch: h.Watch, Found: h.Found, Zxid: h.Zxid, Mzxid: h.Stat.Mzxid, Pzxid: h.Stat.Pzxid}
	switch h.Kind {
	case client.HeardAnswer:
		t.said.What = "answer"
		if h.Reads {
			t.said.Op = opNames[h.Op]
		}
	case client.HeardEvent:
		t.said.What = eventNames[h.Event]
	case client.HeardWatches:
		t.said.What = "left"
	case client.HeardAlive:
		t.said.What, t.said.Since = "alive", t.World(h.Sent)
	}
	t.Recorder.CoordHeard(t.Who, &t.said)
}

// Asked records a write that may be sent now.
func (t *CoordTap) Asked(c client.Call) {
	t.take(c)
	t.Recorder.CoordAsked(t.Who, &t.call)
	t.call = CoordCall{}
}

// Done records a finished operation.
func (t *CoordTap) Done(c client.Call) {
	t.take(c)
	t.Recorder.CoordCalled(t.Who, &t.call)
	t.call = CoordCall{}
}

func (t *CoordTap) take(c client.Call) {
	t.ops = t.ops[:0]
	for _, o := range c.Ops {
		t.ops = append(t.ops, CoordCall{Op: opNames[o.Kind], Path: o.Path, Data: o.Data, Version: o.Version,
			Ephemeral: o.Flags&client.Ephemeral != 0, Sequential: o.Flags&client.Sequential != 0})
	}
	t.call = CoordCall{
		Session: c.Session, Op: opNames[c.Kind], Path: c.Path, Data: c.Data, Version: c.Version,
		Ephemeral: c.Flags&client.Ephemeral != 0, Sequential: c.Flags&client.Sequential != 0, Ops: t.ops,
		Name: c.Created, Value: c.Value, Children: c.Children, Found: c.Found,
		Stat: Stat{Czxid: c.Stat.Czxid, Mzxid: c.Stat.Mzxid, Version: c.Stat.Version, Owner: c.Stat.EphemeralOwner},
		Err:  c.Err, Unknown: client.Unknown(c.Err), Sent: c.Sent,
		Start: t.World(c.Start), End: t.World(c.End),
	}
}
