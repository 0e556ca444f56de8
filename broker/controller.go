package broker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"faultline/broker/controller"
	"faultline/broker/replica"
	coord "faultline/coord/client"
	"faultline/sim/machine"
)

// control is what a broker knows of being the controller. Guarded by the broker's lock.
type control struct {
	session int   // number of the session in which it was elected; 0: it was not
	epoch   int32 // controller epoch
	seen    int   // views that the last decisions were made from
}

// controllerNode is the entry of the elected controller.
type controllerNode struct {
	Broker int32 `json:"broker"`
}

func epochPath(broker int32) string { return fmt.Sprintf("%s/%d", epochsPath, broker) }

// standForController makes this broker the controller if there is none. Its entry and the next controller epoch come with one transaction, so that every epoch has one controller.
func (b *Broker) standForController(s *session) error {
	fail := func(err error) error {
		b.mu.Lock()
		s.controller = true
		b.mu.Unlock()
		return err
	}
	b.mu.Lock()
	s.controller = false
	number := s.number
	b.mu.Unlock()
	_, found, err := s.client.Exists(controllerPath, true)
	if err != nil {
		return fail(err)
	}
	if found {
		data, stat, err := s.client.Get(controllerPath, false)
		if errors.Is(err, coord.ErrNoNode) {
			return nil // the watch tells
		}
		if err != nil {
			return fail(err)
		}
		if stat.EphemeralOwner != s.client.Session() {
			var node controllerNode
			if json.Unmarshal(data, &node) == nil {
				b.mu.Lock()
				b.controller = node.Broker
				b.mu.Unlock()
			}
			return nil // the watch tells when it ends
		}
	}
	_, was, err := s.client.Get(controllerEpochPath, false)
	if err != nil {
		return fail(err)
	}
	epoch := was.Version
	if !found {
		data, err := json.Marshal(controllerNode{b.cfg.ID})
		if err != nil {
			return fatal{err}
		}
		err = s.client.Multi(coord.CreateOp(controllerPath, data, coord.Ephemeral), coord.SetOp(controllerEpochPath, nil, was.Version))
		var refused *coord.MultiError
		if errors.As(err, &refused) {
			return fail(nil) // somebody was faster: look again
		}
		if err != nil {
			return fail(err)
		}
		epoch++
	}
	b.mu.Lock()
	b.controller = b.cfg.ID
	if b.control.session != number {
		b.control = control{session: number, epoch: epoch, seen: -1}
		b.m.Trace(machine.Event{Kind: machine.ControllerElected, A: int64(b.cfg.ID), B: int64(epoch)})
	}
	b.changed.Broadcast()
	b.mu.Unlock()
	return nil
}

// runController is the task that decides who leads, while this broker is the controller.
func (b *Broker) runController() {
	b.mu.Lock()
	defer b.mu.Unlock()
	preferAt := b.m.Uptime() + b.cfg.PreferredInterval
	for fails := 0; !b.stopping; {
		s := &b.session
		current := s.client != nil && !s.expired && b.control.session == s.number && !s.list && !s.brokers && !s.register
		prefer := b.m.Uptime() >= preferAt
		switch {
		case !current:
			b.changed.Wait()
			continue
		case b.control.seen == b.views && !prefer:
			b.changed.WaitTimeout(preferAt - b.m.Uptime())
			continue
		}
		b.control.seen = b.views
		view, topics := b.view()
		writes := view.Decide()
		if len(writes) == 0 && prefer {
			writes = view.Prefer()
			preferAt = b.m.Uptime() + b.cfg.PreferredInterval
		}
		cl, epoch := s.client, b.control.epoch
		b.mu.Unlock()
		again := b.enact(cl, epoch, topics, writes)
		if again {
			b.pause(fails)
			fails++
		} else {
			fails = 0
		}
		b.mu.Lock()
	}
}

// view is what the controller decides from, and the topics that it speaks of, by name. The lock is held.
func (b *Broker) view() (*controller.View, map[string]*topic) {
	v := &controller.View{Epoch: b.control.epoch}
	topics := map[string]*topic{}
	for _, l := range b.live {
		v.Brokers = append(v.Brokers, controller.Broker{ID: l.id, Epoch: l.epoch, CleanSince: l.cleanSince})
	}
	for _, name := range b.names {
		t := b.topics[name]
		if !t.replicated() {
			continue
		}
		topics[name] = t
		ct := controller.Topic{Name: name, LeastISR: t.policy.leastISR, Unclean: t.policy.unclean}
		for id, replicas := range t.replicas {
			p := controller.Partition{ID: int32(id), Replicas: replicas}
			if m := t.moves[id]; m != nil {
				p.Leaving, p.Moving = m.leaving(replicas), true
			}
			if id < len(t.states) {
				p.State = &t.states[id]
			}
			ct.Partitions = append(ct.Partitions, p)
		}
		v.Topics = append(v.Topics, ct)
	}
	return v, topics
}

// completed is the topic's node after the reassignments that the decisions complete, nil: none.
func (t *topic) completed(list []controller.Write) []byte {
	next := *t
	next.replicas, next.moves = slices.Clone(t.replicas), slices.Clone(t.moves)
	some := false
	for _, w := range list {
		if w.Replicas != nil {
			next.replicas[w.Partition], next.moves[w.Partition], some = w.Replicas, nil, true
		}
	}
	if !some {
		return nil
	}
	return next.encode()
}

// enact writes decisions, topic by topic. again: some could not be written, and are to be made anew from what is read then.
func (b *Broker) enact(cl *coord.Client, epoch int32, topics map[string]*topic, writes []controller.Write) (again bool) {
	byTopic := map[string][]controller.Write{}
	for _, w := range writes {
		byTopic[w.Topic] = append(byTopic[w.Topic], w)
	}
	for _, name := range slices.Sorted(maps.Keys(byTopic)) {
		t := topics[name]
		states := append([]replica.State(nil), t.states...)
		list := byTopic[name]
		slices.SortFunc(list, func(x, y controller.Write) int { return cmp.Compare(x.Partition, y.Partition) })
		for _, w := range list {
			switch {
			case int(w.Partition) < len(states):
				states[w.Partition] = w.State
			case int(w.Partition) == len(states): // a hole waits for the partition before it
				states = append(states, w.State)
			}
		}
		change := coord.SetOp(statePath(name), encodeStates(t.id, states), t.version)
		if t.version < 0 {
			change = coord.CreateOp(statePath(name), encodeStates(t.id, states), 0)
		}
		ops := []coord.Op{coord.CheckOp(controllerEpochPath, epoch), stands(name, t.id), change}
		if data := t.completed(list); data != nil {
			ops = append(ops, coord.SetOp(topicsPath+"/"+name, data, t.node))
		}
		b.m.Failpoint("fault/broker/decision-slow") // what it was made from may be no more true by the time of the write
		err := cl.Multi(ops...)
		if err == nil {
			for _, w := range list {
				b.m.Trace(machine.Event{Kind: machine.StateDecided, Subject: fmt.Sprintf("%s/%d", name, w.Partition), Detail: w.Why, A: int64(w.State.Leader), B: int64(w.State.LeaderEpoch), C: int64(epoch)})
			}
		} else {
			var refused *coord.MultiError
			if errors.As(err, &refused) && refused.Index == 0 {
				b.m.Mark("mark/broker/deposed-controller")
				b.mu.Lock()
				b.control = control{}
				b.session.controller = true
				b.changed.Broadcast()
				b.mu.Unlock()
				return false
			}
			again = true
		}
		b.reread(name)
	}
	return again
}
