package coord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"faultline/coord/jute"
	"faultline/sim/machine"
)

// Servers talk over connections that each carry one direction: a server dials every other one and writes to it what it has to say. A
// connection begins with a greeting; then come frames: 4 bytes length, 1 byte kind, body.
//
// A frame may get lost with its connection, and whoever waits for the effect of one sends it again: consensus messages are repeated by the library, commands
// when the link or the leader has changed, questions for a read after a while.
const (
	frameRaft    = 'R' // a consensus message
	frameForward = 'F' // sessions heard of, then batches of commands: to the leader
	frameAsk     = 'A' // number, sessions heard of: what may be read? To the leader
	frameTell    = 'T' // number, entry: all that is acknowledged lies up to that entry. From the leader

	helloMagic    = "FLCPEER1"
	helloLen      = 8 + 4*8 // magic, from, to, members, incarnation
	frameHeader   = 4 + 1
	maxFrame      = 256 << 20 // a snapshot is one frame
	maxLinkBuffer = 64 << 20  // written to a link that does not take it, before the link is given up
)

// peer is another server and the link to it.
type peer struct {
	id   uint64
	addr string

	// Under Server.lock.
	wake        machine.Cond // the link's task: output, an end, or a new try
	nc          net.Conn     // nil: no connection
	epoch       uint64       // changes with every connection that comes or goes
	since       time.Duration
	out, spare  []byte
	incarnation uint64        // of the other server, as it greeted
	inbound     net.Conn      // its connection to us
	heard       time.Duration // when something came from it
}

// letter is something for the commit task that is no client's request.
type letter struct {
	kind    letterKind
	peer    uint64
	message *raftpb.Message
	body    []byte
	job     *job
	session int64
	epoch   uint64
}

type letterKind uint8

const (
	letterRaft    letterKind = iota
	letterForward            // body
	letterAsk                // body
	letterTell               // body
	letterLink               // a link came or went
	letterDisk               // a job is done
	letterExpiry             // a session is late
	letterPulse              // time to look at the clock
)

func (s *Server) post(l letter) {
	if s.stopping {
		return
	}
	s.inbox = append(s.inbox, l)
	s.work.Signal()
}

// frame begins a frame to a peer, nil: there is no link. The frame is appended to p.out and ended with endFrame. Under lock.
func (p *peer) begin(kind byte) (mark int, ok bool) {
	if p.nc == nil {
		return 0, false
	}
	mark = len(p.out)
	p.out = append(p.out, 0, 0, 0, 0, kind)
	return mark, true
}

func (p *peer) end(mark int) {
	binary.BigEndian.PutUint32(p.out[mark:], uint32(len(p.out)-mark-4))
	if len(p.out) > maxLinkBuffer {
		p.cut()
		return
	}
	p.wake.Signal()
}

// cut ends the link's connection; its task makes a new one. Under lock.
func (p *peer) cut() {
	if p.nc != nil {
		p.nc.Close()
		p.nc = nil
		p.epoch++
		p.out = p.out[:0]
		p.wake.Signal()
	}
}

// talk is the task of the link to a peer.
func (s *Server) talk(p *peer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for !s.stopping {
		s.lock.Unlock()
		nc, err := s.greet(p)
		s.lock.Lock()
		if err != nil {
			if !s.stopping {
				p.wake.WaitTimeout(s.pulse())
			}
			continue
		}
		if s.stopping {
			nc.Close()
			return
		}
		p.nc, p.out, p.since = nc, p.out[:0], s.m.Uptime()
		p.epoch++
		s.post(letter{kind: letterLink, peer: p.id, epoch: p.epoch})
		for p.nc == nc && !s.stopping {
			if len(p.out) == 0 {
				p.wake.Wait()
				continue
			}
			buf := p.out
			p.out, p.spare = p.spare[:0], nil
			s.lock.Unlock()
			_, err := nc.Write(buf)
			s.lock.Lock()
			if cap(buf) <= 256<<10 {
				p.spare = buf[:0]
			}
			if err != nil && p.nc == nc {
				p.cut()
			}
		}
		nc.Close()
		s.post(letter{kind: letterLink, peer: p.id, epoch: p.epoch})
	}
}

// greet connects to a peer.
func (s *Server) greet(p *peer) (net.Conn, error) {
	nc, err := s.m.Dial(p.addr, 4*s.pulse())
	if err != nil {
		return nil, err
	}
	hello := append(make([]byte, 0, helloLen), helloMagic...)
	for _, v := range [...]uint64{s.id, p.id, uint64(len(s.cfg.Peers)), s.incarnation} {
		hello = binary.BigEndian.AppendUint64(hello, v)
	}
	if _, err := nc.Write(hello); err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// acceptPeers is the task that takes the connections of other servers.
func (s *Server) acceptPeers() {
	for {
		nc, err := s.peerListener.Accept()
		s.lock.Lock()
		if s.stopping {
			s.lock.Unlock()
			if err == nil {
				nc.Close()
			}
			return
		}
		if err != nil {
			s.lock.Unlock()
			s.m.Sleep(s.cfg.TickTime / 10)
			continue
		}
		if len(s.inbounds) >= maxInbound {
			s.lock.Unlock()
			nc.Close()
			continue
		}
		s.inbounds = append(s.inbounds, nc)
		s.spawn("coord/peer", func() { s.listen(nc) })
		s.lock.Unlock()
	}
}

const maxInbound = 64

// listen is the task that reads what a peer says.
func (s *Server) listen(nc net.Conn) {
	_ = s.hear(nc)
	nc.Close()
	s.lock.Lock()
	for i, c := range s.inbounds {
		if c == nc {
			s.inbounds = append(s.inbounds[:i], s.inbounds[i+1:]...)
			break
		}
	}
	s.lock.Unlock()
}

func (s *Server) hear(nc net.Conn) error {
	if err := nc.SetReadDeadline(s.m.Now().Add(s.cfg.maxTimeout())); err != nil {
		return err
	}
	p, err := s.greeted(nc)
	if err != nil {
		return err
	}
	if err := nc.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	frames := jute.NewPacketReader(nc, maxFrame)
	for {
		frames.Shrink()
		frame, err := frames.Next()
		if err != nil {
			return err
		}
		if len(frame) == 0 {
			return jute.ErrMalformed
		}
		l := letter{peer: p.id}
		switch body := frame[1:]; frame[0] {
		case frameRaft:
			l.kind = letterRaft
			if l.message, err = decodeMessage(body, s.log.voters); err != nil {
				return err
			}
			if l.message.GetFrom() != p.id || l.message.GetTo() != s.id {
				return fmt.Errorf("%w: message from %d to %d came from %d to %d", jute.ErrMalformed, l.message.GetFrom(), l.message.GetTo(), p.id, s.id)
			}
		case frameForward:
			l.kind, l.body = letterForward, append([]byte(nil), body...)
		case frameAsk:
			l.kind, l.body = letterAsk, append([]byte(nil), body...)
		case frameTell:
			l.kind, l.body = letterTell, append([]byte(nil), body...)
		default:
			return fmt.Errorf("%w: frame of kind %q", jute.ErrMalformed, frame[0])
		}
		s.lock.Lock()
		if s.stopping || p.inbound != nc {
			s.lock.Unlock()
			return nil
		}
		p.heard = s.m.Uptime()
		s.post(l)
		s.lock.Unlock()
	}
}

var errStranger = errors.New("not a server of this ensemble")

// greeted reads a greeting and says who it is.
func (s *Server) greeted(nc net.Conn) (*peer, error) {
	var hello [helloLen]byte
	for n := 0; n < len(hello); {
		k, err := nc.Read(hello[n:])
		n += k
		if err != nil {
			return nil, err
		}
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(hello[8+8*i:]) }
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, p := range s.peers {
		if string(hello[:8]) != helloMagic || p.id != at(0) || at(1) != s.id || at(2) != uint64(len(s.cfg.Peers)) {
			continue
		}
		if p.inbound != nil {
			p.inbound.Close()
		}
		p.inbound, p.heard = nc, s.m.Uptime()
		if p.incarnation != 0 && p.incarnation != at(3) {
			p.cut() // it started anew, and knows nothing of a connection that we may still have to its former life
		}
		p.incarnation = at(3)
		return p, nil
	}
	return nil, errStranger
}

// watchLinks makes links new that seem to lead nowhere: nothing has come from the other side for a while. Under lock.
func (s *Server) watchLinks(now time.Duration) {
	patience := 4 * s.cfg.TickTime
	for _, p := range s.peers {
		if p.nc != nil && now > p.since+patience && now > p.heard+patience {
			p.cut()
		}
	}
}

// frame gives a frame to the link of a server. false: there is none.
func (s *Server) frame(to uint64, kind byte, body func([]byte) []byte) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, p := range s.peers {
		if p.id == to {
			mark, ok := p.begin(kind)
			if ok {
				p.out = body(p.out)
				p.end(mark)
			}
			return ok
		}
	}
	return false
}

// send gives a consensus message to the link of its receiver. false: there is none.
func (s *Server) send(m *raftpb.Message) bool {
	return s.frame(m.GetTo(), frameRaft, func(b []byte) []byte { return appendMessage(b, m) })
}
