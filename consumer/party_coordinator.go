package consumer

import (
	"errors"
	"net"
	"strconv"
	"time"

	broker "faultline/broker/client"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errRefused is an answer that is no answer.
var errRefused = errors.New("the answer does not fit the question")

// find asks any broker who coordinates the group.
func (p *party) find() {
	g := p.g
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = g.cfg.Group, []string{g.cfg.Group}
	addr, err := "", error(nil)
	conn, err := p.cluster.Any()
	if err == nil {
		var resp kmsg.Response
		if resp, err = conn.Request(req); err == nil {
			addr, err = coordinatorOf(resp)
		}
	}
	if err == nil && g.m.Failpoint("fault/consumer/find") {
		err = errMisfortune
	}
	g.mu.Lock()
	p.m.Found(g.m.Uptime(), addr, err)
	g.mu.Unlock()
}

// coordinatorOf reads the address out of an answer to FindCoordinator.
func coordinatorOf(resp kmsg.Response) (string, error) {
	r, ok := resp.(*kmsg.FindCoordinatorResponse)
	if !ok {
		return "", errRefused
	}
	code, host, port := r.ErrorCode, r.Host, r.Port
	if len(r.Coordinators) == 1 {
		code, host, port = r.Coordinators[0].ErrorCode, r.Coordinators[0].Host, r.Coordinators[0].Port
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

// findFor looks for the coordinator if it is not known.
func (p *party) findFor() {
	p.g.mu.Lock()
	known := p.m.Coordinator() != ""
	p.g.mu.Unlock()
	if !known {
		p.find()
	}
}

// dial returns a connection to the coordinator, kept in where, or makes it.
func (p *party) dial(where **broker.Conn, timeout time.Duration) (*broker.Conn, error) {
	g := p.g
	g.mu.Lock()
	addr, conn := p.m.Coordinator(), *where
	g.mu.Unlock()
	switch {
	case conn != nil && conn.Broker() == addr && conn.Err() == nil:
		return conn, nil
	case conn != nil:
		conn.Close()
	}
	if addr == "" {
		return nil, broker.ErrNotSent
	}
	how := broker.Config{ClientID: g.id, DialTimeout: g.cfg.RequestTimeout, RequestTimeout: timeout, Tap: g.cfg.Tap}
	if g.cfg.Old {
		how.AtMost = map[int16]int16{kmsg.JoinGroup.Int16(): 0}
	}
	conn, err := broker.Dial(g.m, addr, how)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	if other := *where; other != nil && other.Broker() == addr && other.Err() == nil {
		// Another task was sooner. There is one connection at a time, for the coordinator takes no commit by an older one than that of the last.
		g.mu.Unlock()
		g.m.Mark("mark/consumer/coordinator-dialled-twice")
		conn.Close()
		return other, nil
	}
	*where = conn
	over := g.closing && where == &p.control
	g.mu.Unlock()
	if over {
		conn.Close()
		return nil, broker.ErrClosed
	}
	return conn, nil
}

// coordinator is dial for who goes on only with a connection: when there is none the coordinator is looked for anew.
func (p *party) coordinator(where **broker.Conn, timeout time.Duration) *broker.Conn {
	g := p.g
	g.mu.Lock()
	addr := p.m.Coordinator()
	g.mu.Unlock()
	conn, err := p.dial(where, timeout)
	if err == nil {
		return conn
	}
	g.mu.Lock()
	p.m.Disconnected(g.m.Uptime(), addr)
	p.changed()
	g.mu.Unlock()
	return nil
}

// cutOff ends the wait for an answer to a join or a sync that will not come, since the coordinator is gone. Called with the lock held, which it lets go meanwhile.
func (p *party) cutOff() {
	conn := p.control
	if conn == nil || p.m.Coordinator() != "" {
		return
	}
	p.control = nil
	p.g.mu.Unlock()
	conn.Close()
	p.g.mu.Lock()
}

// tellLeave tells the coordinator that the member leaves. When it cannot be told, the session does.
func (p *party) tellLeave() error {
	g := p.g
	g.mu.Lock()
	req := p.m.LeaveRequest()
	g.mu.Unlock()
	conn, err := p.dial(&p.steady, g.cfg.RequestTimeout)
	if err == nil {
		_, err = conn.Request(req)
	}
	g.mu.Lock()
	p.m.Left()
	p.changed()
	g.mu.Unlock()
	return err
}
