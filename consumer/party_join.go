package consumer

import (
	"time"

	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// joining is how long a join or a sync may take.
func (p *party) joining() time.Duration { return p.g.cfg.RebalanceTimeout + p.g.cfg.RequestTimeout }

func (p *party) join() {
	g := p.g
	conn := p.coordinator(&p.control, p.joining())
	if conn == nil {
		return
	}
	g.m.Failpoint("fault/consumer/join-slow")
	g.mu.Lock()
	req := p.m.JoinRequest(g.m.Uptime())
	attempt := p.m.Attempts()
	p.beating.Broadcast()
	g.mu.Unlock()
	g.trace(machine.ConsumerRebalance, g.cfg.Group, int64(attempt))
	var got *kmsg.JoinGroupResponse
	resp, err := conn.Request(req)
	if err == nil {
		got = resp.(*kmsg.JoinGroupResponse)
	}
	if err == nil && g.m.Failpoint("fault/consumer/joined") {
		err = errMisfortune
	}
	g.mu.Lock()
	p.m.Joined(g.m.Uptime(), got, err)
	p.changed()
	g.mu.Unlock()
}

func (p *party) sync() {
	g := p.g
	conn := p.coordinator(&p.control, p.joining())
	if conn == nil {
		return
	}
	g.m.Failpoint("fault/consumer/sync-slow")
	g.mu.Lock()
	req := p.m.SyncRequest(g.m.Uptime())
	g.mu.Unlock()
	if first := p.asked != req.Generation; first && g.m.Failpoint("fault/consumer/sync-lost") {
		p.awaitNews()
		return
	}
	p.asked = req.Generation
	var got *kmsg.SyncGroupResponse
	resp, err := conn.Request(req)
	if err == nil {
		got = resp.(*kmsg.SyncGroupResponse)
	}
	if err == nil && g.m.Failpoint("fault/consumer/synced") {
		err = errMisfortune
	}
	g.mu.Lock()
	if p.m.Synced(g.m.Uptime(), got, err) {
		g.m.Trace(machine.Event{Kind: machine.ConsumerSynced, Subject: g.cfg.Group, Detail: p.m.ID(), A: int64(p.m.Generation())})
	}
	p.changed()
	g.mu.Unlock()
}

// awaitNews waits for the answer to a sync that was lost without the connection's ending. There is none, but heartbeats go on, and one of them tells when the group has gone on without this
// member: the coordinator waits for a member's first sync in a generation, and for no other.
func (p *party) awaitNews() {
	g := p.g
	g.m.Mark("mark/consumer/sync-lost")
	g.mu.Lock()
	for p.m.Syncing() && !g.closing {
		g.wake.WaitTimeout(g.cfg.HeartbeatInterval)
	}
	g.mu.Unlock()
}
