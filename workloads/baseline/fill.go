package baseline

import (
	"encoding/binary"
	"fmt"

	"faultline/sim/machine"
)

// Fill writes a journal with n messages of a topic that nobody has acknowledged, for benchmarks of consumers. The data directory must be empty; no server may run.
func Fill(m machine.Machine, cfg Config, queues []Binding, topic string, n int64, value func() []byte) error {
	const together = 64 << 10 // bytes of a record
	cfg = cfg.withDefaults()
	mu := m.NewMutex("queue.fill")
	s := &Server{m: m, cfg: cfg, mu: mu, x: newIndex(), j: newJournal(m, cfg, mu)}
	s.j.told, s.j.opening = func() {}, s.x.bindings
	for _, q := range queues {
		s.x.bind(q.Topic, q.Queue)
	}
	if err := s.recover(); err != nil {
		return fmt.Errorf("queue: fill: %w", err)
	}
	if len(s.j.segments) > 1 {
		return fmt.Errorf("queue: fill: found a journal in %s", cfg.DataDir)
	}
	var body []byte
	for left := n; left > 0; {
		count := 0
		for body = body[:0]; left > 0 && len(body) < together; left-- {
			v := value()
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(v))), v...)
			count++
		}
		s.j.messages(s.x.next, topic, count, body)
		s.x.next += uint64(count)
		for i := range s.j.waiting {
			c := &s.j.waiting[i]
			if err := s.j.put(c, s.j.head); err != nil {
				return fmt.Errorf("queue: fill: %w", err)
			}
			s.j.head = c.s
			s.j.free = append(s.j.free[:0], c.data)
		}
		s.j.waiting = s.j.waiting[:0]
	}
	if s.j.head == nil {
		return nil
	}
	if err := s.j.makeDurable(s.j.head); err != nil {
		return fmt.Errorf("queue: fill: %w", err)
	}
	return nil
}
