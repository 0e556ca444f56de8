package trial

import (
	"fmt"
	"time"

	"faultline/broker/log"
	"faultline/sim"
	"faultline/workloads/scenario"
)

// Retained is what the brokers' logs hold before the load: the files of a log for each topic, on every replica of each partition.
type Retained struct {
	Of   func(t *scenario.Topic) ([]log.UniformFile, error)
	Warm bool // they are in the page caches
}

// retain stops the brokers, puts the files into the place of the logs that they have just made, and starts the brokers again. Then the load begins.
func (r *run) retain() {
	for _, n := range r.of(roleBroker) {
		n.ask()
	}
	r.when(func() bool {
		for _, n := range r.of(roleBroker) {
			if n.comp.Running() {
				return false
			}
		}
		return true
	}, func() {
		if err := r.fill(); err != nil {
			r.trouble("retained data", err.Error())
			return
		}
		for _, n := range r.of(roleBroker) {
			if !n.spare {
				r.boot(n)
			}
		}
		r.when(r.ready, r.beginLoad)
	})
}

// when calls then as soon as ready says so.
func (r *run) when(ready func() bool, then func()) {
	switch {
	case r.ended:
	case ready():
		then()
	default:
		r.w.At(r.w.Now()+time.Millisecond, func() { r.when(ready, then) })
	}
}

func (r *run) fill() error {
	for i := range r.sc.Topology.Topics {
		t := &r.sc.Topology.Topics[i]
		files, err := r.o.Retained.Of(t)
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
		for p, replicas := range r.registry.topics[t.Name] {
			for _, id := range replicas {
				d := r.byName[fmt.Sprintf("%s-%d", roleBroker, id)].comp.Disk()
				dir := fmt.Sprintf("broker/%s-%d", t.Name, p)
				if err := d.RemoveAll(dir); err != nil {
					return fmt.Errorf("%s: %w", dir, err)
				}
				for i := range files {
					f := &files[i]
					path := dir + "/" + f.Name
					if err := d.Preload(path, f.Size(), sim.Epoch.Add(r.w.Now()), f.Fill); err != nil {
						return fmt.Errorf("%s: %w", path, err)
					}
					if r.o.Retained.Warm {
						if err := d.Warm(path); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}
