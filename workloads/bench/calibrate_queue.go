package bench

import "faultline/sim/machine"

// queueSuite is what costs of the baseline queue are measured with: a sender of single messages and one of many in a frame, neither of which hears anything; a sender of single messages that are confirmed; a receiver of single messages, each acknowledged in a frame of its own, and one of many.
const queueSuite = `
name: calibrate-queue
topology:
  topics: [{name: visits, partitions: 1, flush_interval: 20ms}]
  producers: [{acks: 0, batch: 1MiB, linger: 5ms, in_flight: 5}]
workload: {message_bytes: 200B}
load: {real_warm_up: 150ms, real_measure: 400ms}
sweep: {setting: topology.brokers, values: [1]}
series:
  - {name: single messages, system: queue, set: [topology.producers.0.batch_records=1]}
  - {name: many in a frame, system: queue, set: [topology.producers.0.batch_records=500]}
  - {name: confirmed, system: queue, set: [topology.producers.0.batch_records=1, topology.producers.0.acks=1]}
  - name: receiver of single messages
    system: queue
    set: [load.rate=1/s, load.retained=32MiB, "load.cached=\"yes\"", "topology.groups.0.name=readers", topology.groups.0.consumers=1, queue.delivery_batch=1, queue.ack_batch=1]
  - name: receiver of many
    system: queue
    set: [load.rate=1/s, load.retained=256MiB, "load.cached=\"yes\"", "topology.groups.0.name=readers", topology.groups.0.consumers=1]
`

// shares are the parts of a cost: what is left of the CPU time when system calls, copies and checksums are taken off, and how often each step was done in it.
type shares struct {
	rest float64
	of   machine.QueueWork
}

// queue measures what the steps of the baseline queue cost its clients and its servers: the CPU time of either in five runs, divided by the steps that they did.
func (k *Calibration) queue(seed uint64) error {
	s, err := ParseSuite("calibrate-queue.yaml", []byte(queueSuite))
	if err != nil {
		return err
	}
	var client, server [5]shares
	for n := range s.Series {
		c, err := s.Cell(&s.Series[n], "1")
		if err != nil {
			return err
		}
		h := *k.Host
		h.used, h.served = &usage{}, &usage{}
		if _, err := h.Measure(c, seed, k.Stop); err != nil {
			return err
		}
		client[n], server[n] = shares{k.rest(h.used), h.used.work.Queue}, shares{k.rest(h.served), h.served.work.Queue}
	}
	figures := queueCosts(client, server)
	for _, f := range []struct{ name, what string }{
		{"frame", "the baseline queue: CPU time of a sender of single messages, without that of the messages, of copies and of system calls"},
		{"answer", "what it takes longer when each is confirmed, which it waits for, by the frame"},
		{"arrive", "CPU time of a receiver of single messages, likewise, by the frame"},
		{"send", "CPU time of a sender of 500 messages a frame, likewise, by the message"},
		{"receive", "CPU time of a receiver of many messages a frame, likewise"},
		{"serve", "CPU time of the server that takes single messages, likewise, by the frame"},
		{"tell", "what it takes longer when it confirms them, by the frame"},
		{"push", "CPU time of the server that hands out single messages, likewise, by the write"},
		{"take", "CPU time of the server that takes 500 messages a frame, likewise, by the message and by the queue that gets it"},
		{"pass", "CPU time of the server that hands out many in a frame, likewise, by the step"},
	} {
		k.note("cpu.queue."+f.name, f.what, nanoseconds, figures[f.name])
	}
	return nil
}

// queueCosts solves for the costs. The runs are those of queueSuite; a step that is lost in the noise of the others costs a nanosecond.
func queueCosts(client, server [5]shares) map[string]float64 {
	const single, many, confirmed, singly, together = 0, 1, 2, 3, 4
	// Two steps, in two runs that do them in other proportions: x*a + y*b is what is left of each.
	two := func(a, b int, p float64, c, d int, q float64) (x, y float64) {
		det := float64(a)*float64(d) - float64(b)*float64(c)
		return max(1, (p*float64(d)-q*float64(b))/det), max(1, (float64(a)*q-float64(c)*p)/det)
	}
	// One more step, in a run without the others' cost.
	more := func(rest float64, times int) float64 { return max(1, rest/float64(max(times, 1))) }

	a, b := &client[single], &client[many]
	frame, send := two(a.of.Frames, a.of.Sent, a.rest, b.of.Frames, b.of.Sent, b.rest)
	c := &client[confirmed]
	answer := more(c.rest-frame*float64(c.of.Frames)-send*float64(c.of.Sent), c.of.Answers)
	a, b = &client[singly], &client[together]
	arrive, receive := two(a.of.Arrived, a.of.Received, a.rest, b.of.Arrived, b.of.Received, b.rest)

	a, b = &server[single], &server[many]
	serve, take := two(a.of.Served, a.of.Taken, a.rest, b.of.Served, b.of.Taken, b.rest)
	c = &server[confirmed]
	tell := more(c.rest-serve*float64(c.of.Served)-take*float64(c.of.Taken), c.of.Told)
	a, b = &server[singly], &server[together]
	push, pass := two(a.of.Pushed, a.of.Passed, a.rest-serve*float64(a.of.Served), b.of.Pushed, b.of.Passed, b.rest-serve*float64(b.of.Served))
	return map[string]float64{
		"frame": frame, "answer": answer, "arrive": arrive, "send": send, "receive": receive, "serve": serve, "tell": tell, "push": push, "take": take, "pass": pass,
	}
}
