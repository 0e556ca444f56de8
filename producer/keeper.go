package producer

import (
	"slices"
	"time"
)

// refresh asks the keeper to look at a topic's metadata. Called with the lock held.
func (p *Producer) refresh(topic string) {
	if !slices.Contains(p.stale, topic) {
		p.stale = append(p.stale, topic)
		p.keep.Signal()
	}
}

// keeper is the task that keeps the metadata of topics fresh, and has an idempotent producer get its id. It sleeps while there is nothing to do.
func (p *Producer) keeper() {
	p.mu.Lock()
	defer p.mu.Unlock()
	failures := 0
	for !p.closed {
		if p.cfg.Idempotent && p.acc.as.producer < 0 {
			p.mu.Unlock()
			as, err := p.identify()
			p.mu.Lock()
			if p.acc.as = as; err != nil {
				p.m.Mark("mark/producer/not-identified")
				p.rest(p.backoff(failures))
				failures++
				if len(p.stale) > 0 {
					p.lookUp()
				}
				continue
			}
			failures = 0
			p.wakeSenders()
		}
		if len(p.stale) > 0 {
			if p.lookUp() {
				failures = 0
				continue
			}
			// The cluster paces itself too; this keeps a topic that stays unknown or leaderless from being asked for all the time.
			p.rest(p.backoff(failures))
			failures++
			continue
		}
		p.rest(never)
	}
}

// rest waits until d is over or, with d never, something new comes.
func (p *Producer) rest(d time.Duration) {
	if d == never {
		p.keep.Wait()
		return
	}
	now := p.m.Uptime()
	for until := now + d; now < until && !p.closed; now = p.m.Uptime() {
		p.keep.WaitTimeout(until - now)
	}
}

// lookUp asks for the metadata of the stale topics. It reports whether all of them are in order now: known, and with a leader wherever a batch waits.
func (p *Producer) lookUp() bool {
	names := p.stale
	p.stale = nil
	good := true
	for _, name := range names {
		p.mu.Unlock()
		p.cluster.Invalidate(name)
		meta, err := p.cluster.Topic(name)
		if err == nil && p.m.Failpoint("fault/producer/look-up") {
			err = errMisfortune
		}
		p.mu.Lock()
		if err != nil || len(meta.Partitions) == 0 {
			good = false
			if !slices.Contains(p.stale, name) {
				p.stale = append(p.stale, name)
			}
			continue
		}
		if known := p.acc.topics[name]; known != nil && len(known.parts) > 0 {
			if len(meta.Partitions) > len(known.parts) {
				p.m.Mark("mark/producer/topic-grew")
			}
			if len(meta.Partitions) < len(known.parts) {
				p.m.Mark("mark/producer/metadata-is-older")
			}
		}
		if known := p.acc.topics[name]; known != nil && known.id != meta.ID && len(known.parts) > 0 {
			p.m.Mark("mark/producer/topic-replaced")
		}
		t := p.acc.learn(meta, p.m.Uptime())
		p.renew()
		p.space.Broadcast()
		for _, part := range t.parts {
			if part.node == nil {
				if len(part.queue) > 0 && !slices.Contains(p.stale, name) {
					p.stale = append(p.stale, name)
					good = false
				}
				continue
			}
			p.rouse(part)
		}
	}
	return good
}
