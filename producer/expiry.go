package producer

import "time"

// expirer is the task that fails batches whose time is over. It waits for nobody but the clock: who looks for leaders may wait for brokers for longer than a record may take.
func (p *Producer) expirer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed {
		switch now := p.m.Uptime(); {
		case now >= p.expiryBy:
			p.expire()
		case p.expiryBy == never:
			p.expiring.Wait()
		default:
			p.expiring.WaitTimeout(p.expiryBy - now)
		}
	}
}

// expireBy has the expirer look at a time, or before. Called with the lock held.
func (p *Producer) expireBy(at time.Duration) {
	if at < p.expiryBy {
		p.expiryBy = at
		p.expiring.Signal()
	}
}

func (p *Producer) expire() {
	expired, again := p.acc.expire(p.m.Uptime())
	if len(expired) > 0 {
		p.m.Mark("mark/producer/timed-out-in-queue")
	}
	p.expiryBy = again
	p.renew()
	for _, b := range expired {
		p.finish(b)
	}
}
