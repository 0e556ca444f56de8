package trial

import "faultline/sim/machine"

// workers work on several records at a time.
type workers struct {
	p    *running
	mu   machine.Mutex
	free machine.Cond
	most int
	busy int
}

func newWorkers(p *running, most int) *workers {
	w := &workers{p: p, mu: p.NewMutex("workers"), most: most}
	w.free = p.NewCond("worker", w.mu)
	return w
}

// do waits until a worker is free and leaves the work to it.
func (w *workers) do(work func()) {
	w.mu.Lock()
	for w.busy == w.most {
		w.free.Wait()
	}
	w.busy++
	w.mu.Unlock()
	w.p.Go("worker", func() {
		work()
		w.mu.Lock()
		w.busy--
		w.free.Signal()
		w.mu.Unlock()
	})
}
