package consumer

import (
	"time"

	"faultline/consumer/member"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// beat sends heartbeats when they are due, whatever the other tasks wait for, and the application too.
func (p *party) beat() {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for !p.ended {
		now := g.m.Uptime()
		poll := p.lookAtApplication(now)
		due := p.m.HeartbeatDue()
		if due > now {
			if wait := min(due, poll); wait == member.Never {
				p.beating.Wait()
			} else {
				p.beating.WaitTimeout(wait - now)
			}
			continue
		}
		g.mu.Unlock()
		conn := p.coordinator(&p.steady, g.cfg.RequestTimeout)
		g.mu.Lock()
		if conn == nil {
			p.cutOff()
			continue
		}
		req, ticket := p.m.HeartbeatRequest(g.m.Uptime())
		g.mu.Unlock()
		var got *kmsg.HeartbeatResponse
		resp, err := conn.Request(req)
		if err == nil {
			got = resp.(*kmsg.HeartbeatResponse)
		}
		if err == nil && g.m.Failpoint("fault/consumer/heartbeat") {
			err = errMisfortune
		}
		g.mu.Lock()
		p.m.Heartbeaten(g.m.Uptime(), ticket, got, err)
		p.changed()
		p.cutOff()
	}
}

// lookAtApplication has the member leave when the application works on one record for too long, and come back when it asks for the next one. It returns
// when to look again. Called with the lock held.
func (p *party) lookAtApplication(now time.Duration) (next time.Duration) {
	g := p.g
	next = member.Never
	away := false
	for _, st := range g.streams {
		if since := time.Duration(st.working.Load()); since > 0 {
			at := since + g.cfg.MaxPollInterval
			away = away || at <= now
			next = min(next, max(at, now+time.Millisecond))
		}
	}
	if away {
		next = now + g.cfg.HeartbeatInterval
	} else if len(g.claims) > 0 {
		next = min(next, now+g.cfg.MaxPollInterval) // one that is handed over from now on is not overdue before
	}
	if p.m.Away(away) {
		p.changed()
	}
	return next
}
