package broker

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"faultline/broker/log"
	coord "faultline/coord/client"
	"faultline/sim/machine"
)

// syncTopics brings the topics known here and the open logs in line with the registry.
func (b *Broker) syncTopics(s *session) error {
	b.mu.Lock()
	s.list = false
	b.mu.Unlock()
	fail := func(err error) error {
		b.mu.Lock()
		s.list = true
		b.mu.Unlock()
		return err
	}
	names, _, err := s.client.Children(topicsPath, true)
	if err != nil {
		return fail(err)
	}
	for _, name := range names {
		b.mu.Lock()
		known := b.topics[name] != nil && !s.dirty[name]
		delete(s.dirty, name)
		b.mu.Unlock()
		if known {
			continue
		}
		data, stat, err := s.client.Get(topicsPath+"/"+name, true)
		if err == nil && b.m.Failpoint("fault/broker/topic-read") {
			err = errMisfortune
		}
		if errors.Is(err, coord.ErrNoNode) {
			if err := b.setTopic(name, nil); err != nil {
				return fail(err)
			}
			continue
		}
		if err != nil {
			b.mu.Lock()
			s.dirty[name] = true
			b.mu.Unlock()
			return fail(err)
		}
		t, err := b.decodeTopic(name, data)
		if err != nil {
			// Not ours to mend, and no reason to touch its logs. The watch tells when it changes.
			b.unreadable[name] = true
			continue
		}
		t.node = stat.Version
		if err == nil && t.replicated() {
			if err := b.readStates(s, t); err != nil {
				b.mu.Lock()
				s.dirty[name] = true
				b.mu.Unlock()
				return fail(err)
			}
		}
		delete(b.unreadable, name)
		if err := b.setTopic(name, t); err != nil {
			b.mu.Lock()
			s.dirty[name] = true
			b.mu.Unlock()
			return fail(err)
		}
	}
	b.mu.Lock()
	gone := slices.DeleteFunc(slices.Clone(b.names), func(n string) bool {
		_, found := slices.BinarySearch(names, n)
		return found
	})
	b.mu.Unlock()
	for _, name := range gone {
		if err := b.setTopic(name, nil); err != nil {
			return fail(err)
		}
	}
	b.mu.Lock()
	s.read = true
	b.changed.Broadcast() // the controller waits until all is read, though none of it may have changed
	b.mu.Unlock()
	return nil
}

// setTopic makes t the state of the topic (nil: deleted): logs that it takes away are dropped, those that it brings are opened.
func (b *Broker) setTopic(name string, t *topic) error {
	b.mu.Lock()
	old := b.topics[name]
	var drop, leave, moved []*partition
	if old != nil {
		for i, p := range old.local {
			switch {
			case p == nil:
			case t == nil || t.id != old.id:
				drop = append(drop, p)
			case i < len(t.replicas) && slices.Contains(t.replicas[i], b.cfg.ID):
				t.local[i] = p // its topic is the first value of this id: the name and the id never change
			case t.replicated():
				moved = append(moved, p) // others have all of it
			default:
				leave = append(leave, p)
			}
		}
		delete(b.byID, old.id)
		delete(b.topics, name)
	}
	if t != nil {
		b.topics[name], b.byID[t.id] = t, t
	}
	b.views++
	i, found := slices.BinarySearch(b.names, name)
	switch {
	case t != nil && !found:
		b.names = slices.Insert(b.names, i, name)
	case t == nil && found:
		b.names = slices.Delete(b.names, i, i+1)
	}
	b.changed.Broadcast()
	b.mu.Unlock()

	for _, p := range drop {
		b.retire(p)
		if err := b.dropPartition(p); err != nil {
			return err
		}
	}
	for _, p := range moved {
		b.m.Mark("mark/broker/replica-moved-away")
		b.retire(p)
		if err := b.dropPartition(p); err != nil {
			return err
		}
	}
	for _, p := range leave {
		b.waits.fire(p)
		if p.log != nil {
			p.log.Close() // the bytes stay; opened again, it is recovered
		}
	}
	if old != nil && t != nil && t.id == old.id && len(t.replicas) > len(old.replicas) {
		b.m.Mark("mark/broker/topic-grew")
	}
	if old != nil && (t == nil || t.id != old.id) {
		b.forgetTopic(name, old.id)
	}
	if len(drop) > 0 {
		b.m.Mark("mark/broker/topic-dropped")
		b.m.Trace(machine.Event{Kind: machine.TopicRemoved, Subject: name, Detail: old.id.String()})
	}
	if t == nil {
		return nil
	}
	for id := range t.replicas {
		if !slices.Contains(t.replicas[id], b.cfg.ID) || t.local[id] != nil { // only this task writes local
			continue
		}
		var p *partition
		var err error
		if up := b.isUp(); up && b.m.Failpoint("fault/broker/open-without-space") {
			err = machine.ErrNoSpace
		} else {
			p, err = b.openPartition(t, int32(id))
		}
		if errors.Is(err, machine.ErrNoSpace) && b.isUp() {
			b.m.Mark("mark/broker/open-without-space")
			return err // wait for space
		}
		if err != nil {
			return fatal{err}
		}
		b.mu.Lock()
		t.local[id] = p
		b.changed.Broadcast()
		b.mu.Unlock()
	}
	if t.replicated() {
		b.assumeRoles(t)
	}
	if t.name == offsetsTopic {
		b.arrangeShards(t)
	}
	return nil
}

// readStates reads the state of a replicated topic's partitions and watches it. Of a topic that has none yet, or another one's, there is no state.
func (b *Broker) readStates(s *session, t *topic) error {
	for {
		data, stat, err := s.client.Get(statePath(t.name), true)
		if errors.Is(err, coord.ErrNoNode) {
			_, found, err := s.client.Exists(statePath(t.name), true)
			if err != nil || !found {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		states, ours, err := decodeStates(t.name, t.id, data)
		if err == nil && ours {
			t.states, t.version = states, stat.Version
		}
		return nil // what makes no sense is not ours to mend; the watch tells when it changes
	}
}

func (b *Broker) isUp() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.up
}

func (b *Broker) dropPartition(p *partition) error {
	var err error
	if p.log != nil {
		err = p.log.Delete()
	} else {
		err = dropDir(b.m.Disk(), path.Join(b.cfg.DataDir, partitionDir(p.topic.name, p.id)))
	}
	if err != nil && !errors.Is(err, log.ErrClosed) {
		return fatal{fmt.Errorf("drop %s/%d: %w", p.topic.name, p.id, err)}
	}
	return nil
}

// movedFrom tells whether the partition has replicas, and the broker's is not one of them.
func (t *topic) movedFrom(broker, partition int32) bool {
	return t.replicated() && int(partition) < len(t.replicas) && !slices.Contains(t.replicas[partition], broker)
}

// sweep drops, at the start, the logs of topics that were deleted, or of partitions that were moved away, while this broker was down.
func (b *Broker) sweep() error {
	d := b.m.Disk()
	b.m.Failpoint("fault/broker/sweep-slow")
	infos, err := d.ReadDir(b.cfg.DataDir)
	if err != nil {
		return fatal{err}
	}
	removed := ""
	for _, info := range infos {
		name, partition, ok := parsePartitionDir(info.Name)
		if !ok || !info.IsDir || b.unreadable[name] {
			continue
		}
		dir := path.Join(b.cfg.DataDir, info.Name)
		b.mu.Lock()
		t := b.topics[name]
		b.mu.Unlock()
		text, err := readFile(d, path.Join(dir, topicIDFile))
		id, idErr := decodeTopicIDFile(text)
		if t != nil {
			if err != nil {
				continue // if it is ours it was opened, and if not it holds nothing
			}
			if idErr != nil || id == t.id && !t.movedFrom(b.cfg.ID, partition) {
				continue
			}
			if id == t.id {
				if err := dropDir(d, dir); err != nil {
					return fatal{fmt.Errorf("drop the log of a partition that others have now: %w", err)}
				}
				continue
			}
		}
		if err := dropDir(d, dir); err != nil {
			return fatal{fmt.Errorf("drop the log of a deleted topic: %w", err)}
		}
		if removed != name {
			b.m.Mark("mark/broker/swept-deleted-topic")
			b.m.Trace(machine.Event{Kind: machine.TopicRemoved, Subject: name, Detail: id.String()})
			removed = name
		}
	}
	return nil
}
