package broker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"faultline/broker/replica"
	coord "faultline/coord/client"
	"faultline/sim/machine"
)

// register makes this broker's ephemeral node in the session, or finds that it is there. One attempt; the keeper repeats it.
//
// A node in the way is one of three. Made by this very session: an answer was lost, all is well. Made by an earlier session of this
// broker (same address, incarnation not newer): nobody lives behind it, it is deleted, rather than waited for (KAFKA-992,
// KAFKA-1387). Anything else is another broker with our id, or our own past on a disk that we no longer have: it is left alone
// until its session ends.
func (b *Broker) register(s *session) error {
	node, epochNode := idsPath+"/"+strconv.Itoa(int(b.cfg.ID)), fmt.Sprintf("%s/%d", epochsPath, b.cfg.ID)
	_, was, err := s.client.Get(epochNode, false)
	if err != nil {
		return err
	}
	b.mu.Lock()
	self := b.self
	self.Epoch, self.CleanSince = int64(was.Version)+1, b.cleanSince
	if self.CleanSince < 0 {
		self.CleanSince = self.Epoch
	}
	b.mu.Unlock()
	data, err := json.Marshal(self)
	if err != nil {
		return fatal{err}
	}
	b.m.Failpoint("fault/broker/register-slow")
	err = s.client.Multi(coord.SetOp(epochNode, nil, was.Version), coord.CreateOp(node, data, coord.Ephemeral))
	if err == nil && b.m.Failpoint("fault/broker/register-lost") {
		return errMisfortune // the answer: the keeper comes again and finds its node
	}
	if errors.Is(err, coord.ErrNodeExists) {
		found, stat, getErr := s.client.Get(node, false)
		if getErr != nil {
			return getErr
		}
		if stat.EphemeralOwner != s.client.Session() {
			var other brokerNode
			if json.Unmarshal(found, &other) != nil || !b.isOurPast(other) {
				b.m.Mark("mark/broker/id-taken")
				return fmt.Errorf("broker id %d is registered by %s, which is not this broker: waiting for its session to end", b.cfg.ID, found)
			}
			b.m.Mark("mark/broker/own-past-registered")
			b.m.Failpoint("fault/broker/past-slow")
			if err := s.client.Delete(node, stat.Version); err != nil && !errors.Is(err, coord.ErrNoNode) {
				return err
			}
			return nil // the keeper comes again
		}
		b.m.Mark("mark/broker/register-found-done")
		if err := json.Unmarshal(found, &self); err != nil {
			return fatal{fmt.Errorf("our own registration %s: %w", found, err)}
		}
		err = nil
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	s.register = false
	first := !b.up
	b.up = true
	b.epoch, b.cleanSince = self.Epoch, self.CleanSince
	for _, name := range b.names {
		if b.topics[name].replicated() {
			s.dirty[name], s.list = true, true // whether we lead depends on the registration
		}
	}
	b.changed.Broadcast()
	b.mu.Unlock()
	if first {
		b.m.Trace(machine.Event{Kind: machine.BrokerUp, A: int64(b.cfg.ID)})
	}
	return nil
}

// isOurPast tells whether a registration was made by this broker, now or in an earlier life.
func (b *Broker) isOurPast(n brokerNode) bool {
	return n.Host == b.self.Host && n.Port == b.self.Port && n.Incarnation <= b.self.Incarnation
}

// registration is a broker's node. Not readable: whoever made it is no broker of ours.
type registration struct {
	liveBroker
	readable bool
	owner    int64 // session
}

func decodeRegistration(name string, data []byte, stat coord.Stat) (registration, error) {
	var n brokerNode
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return registration{}, nil
	}
	return registration{liveBroker{id: int32(id), host: n.Host, port: int32(n.Port), epoch: n.Epoch, cleanSince: n.CleanSince}, true, stat.EphemeralOwner}, nil
}

// syncBrokers reads the list of live brokers.
func (b *Broker) syncBrokers(s *session) error {
	b.mu.Lock()
	s.brokers = false
	b.mu.Unlock()
	fail := func(err error) error {
		b.mu.Lock()
		s.brokers = true
		b.mu.Unlock()
		return err
	}
	found, left, err := s.live.Read()
	if err == nil && b.m.Failpoint("fault/broker/brokers-read") {
		err = errMisfortune
	}
	if err != nil {
		return fail(err)
	}
	if left > 0 {
		b.m.Mark("mark/broker/broker-left-while-listed")
	}
	var live []liveBroker
	registered := false
	for _, r := range found {
		if !r.readable {
			continue
		}
		live = append(live, r.liveBroker)
		if r.id == b.cfg.ID {
			registered = r.owner == s.client.Session()
		}
	}
	slices.SortFunc(live, func(x, y liveBroker) int { return cmp.Compare(x.id, y.id) })
	b.mu.Lock()
	b.live = live
	b.views++
	b.arrangeFetchers() // who was not there when the topics were read may lead
	if !registered {
		if !s.register {
			b.m.Mark("mark/broker/registration-gone")
		}
		s.register = true // somebody deleted the node
	}
	b.changed.Broadcast()
	b.mu.Unlock()
	return nil
}

// liveLocked lists the brokers that clients may dial: the registered ones, and this one, which evidently lives. The lock is held.
func (b *Broker) liveLocked() []liveBroker {
	self := liveBroker{id: b.cfg.ID, host: b.self.Host, port: int32(b.self.Port), epoch: b.epoch, cleanSince: b.cleanSince}
	i, found := slices.BinarySearchFunc(b.live, self.id, func(l liveBroker, id int32) int { return cmp.Compare(l.id, id) })
	if found {
		if b.live[i] == self {
			return b.live
		}
		out := slices.Clone(b.live)
		out[i] = self
		return out
	}
	return slices.Insert(slices.Clone(b.live), i, self)
}

// registeredLocked tells whether a broker is registered as that, as far as we know. The lock is held.
func (b *Broker) registeredLocked(m replica.Member) bool {
	i, found := slices.BinarySearchFunc(b.live, m.ID, func(l liveBroker, id int32) int { return cmp.Compare(l.id, id) })
	return found && b.live[i].epoch == m.Epoch
}
