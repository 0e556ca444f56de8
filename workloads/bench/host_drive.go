package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"faultline/broker/client"
	"faultline/sim/machine"
	"faultline/workloads/deploy"
	"faultline/workloads/scenario"
)

// prepare waits for the servers and makes what the load needs; release takes it back.
func (x *hosted) prepare() (release func(), err error) {
	release = func() {}
	if x.system.Outside != nil {
		err := x.await("prepare "+x.system.Name, hostThere, func() (err error) {
			release, err = x.system.Outside(x.cell)
			return err
		})
		return release, err
	}
	if x.system.Serve != nil {
		for _, addr := range deploy.Machines(x.cell.Scenario.Machines(0)).Brokers {
			name, port, _ := net.SplitHostPort(addr)
			err := x.await("reach "+name, hostStart, func() error {
				c, err := net.DialTimeout("tcp", net.JoinHostPort(x.hosts[name], port), time.Second)
				if err == nil {
					c.Close()
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return release, nil
	}
	m, err := x.machine("admin")
	if err != nil {
		return nil, err
	}
	return release, x.await("create the topics", hostStart, func() error {
		var err error
		m.Do("create", func() { err = createTopics(m, x.cell.Scenario, deploy.Machines(x.cell.Scenario.Machines(0)).Brokers) })
		return err
	})
}

// createTopics makes the topics of a scenario that are not there.
func createTopics(m machine.Machine, sc *scenario.Scenario, brokers []string) error {
	admin := client.NewCluster(m, brokers, client.Config{ClientID: m.Name(), RequestTimeout: 5 * time.Second})
	defer admin.Close()
	for i := range sc.Topology.Topics {
		t := &sc.Topology.Topics[i]
		err := admin.CreateTopic(t.Name, int32(t.Partitions.V()), int16(t.Replicas.V()), deploy.TopicSettings(t)...)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
	}
	return nil
}

// drive runs the clients.
func (x *hosted) drive(seed uint64) (*Result, error) {
	l := &x.cell.Load
	over := l.RealWarmUp.V().D() + l.RealMeasure.V().D()
	restore := x.cpus.pinClients()
	defer restore()
	began := time.Now()
	if u := x.used; u != nil {
		u.begin()
		defer time.AfterFunc(l.RealWarmUp.V().D(), func() {
			u.begin()
			for _, p := range x.servers {
				p.input.Write([]byte{countMark}) // a server that is gone is an error already
			}
		}).Stop()
	}
	d := &drive{
		cell: x.cell, system: x.system, over: over, seed: seed,
		meter: NewMeter(l.RealWarmUp.V().D(), over, l.Step.V().D()),
		since: func() time.Duration { return time.Since(began) },
	}
	running := 0
	ended := make(chan error, 64)
	for _, sm := range x.cell.Scenario.Machines(seed) {
		if sm.Role != "producer" && sm.Role != "consumer" || sm.Spare {
			continue
		}
		m, err := x.machine(sm.Name)
		if err != nil {
			return nil, err
		}
		running++
		program := d.program(sm)
		var seam machine.Machine = m
		if x.used != nil {
			seam = &counting{m, x.used}
		}
		m.Go("main", func() {
			if err := program(seam); err != nil {
				err = fmt.Errorf("%s: %w", sm.Name, err)
				ended <- err
				return
			}
			ended <- nil
		})
	}
	tick := time.NewTicker(hostPause)
	defer tick.Stop()
	for running > 0 {
		select {
		case err := <-ended:
			if err != nil {
				return nil, err
			}
			running--
		case err := <-x.troubles:
			return nil, err
		case <-tick.C:
			if x.stop() {
				return nil, ErrStopped
			}
			if time.Since(began) > over+hostStart {
				return nil, fmt.Errorf("%s at %s: %d clients did not end within %v of the load's end", x.cell.Series.Name, x.cell.Value, running, hostStart)
			}
		}
	}
	if x.used != nil {
		x.used.end()
	}
	if x.served != nil {
		if err := x.tell(); err != nil {
			return nil, err
		}
	}
	return d.result()
}

// retain has the system keep bytes from before the load, and forget them from the page cache if the load says so.
func (x *hosted) retain() error {
	bytes := int64(x.cell.Load.Retained.V())
	if bytes == 0 {
		return nil
	}
	fill := x.system.Fill
	if fill == nil {
		fill = x.system.sendAhead
	}
	m, err := x.machine("filler")
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	m.Go("fill", func() { done <- fill(m, x.cell, bytes, x.stop) })
	select {
	case err = <-done:
	case err = <-x.troubles:
	}
	if err != nil && !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%s at %s: %w", x.cell.Series.Name, x.cell.Value, err)
	}
	debug.FreeOSMemory() // what the filler left is not to be given back while the clients run
	if err != nil || x.cell.Load.Cached.V() == "yes" {
		return err
	}
	return filepath.WalkDir(x.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log") {
			return nil // deleted meanwhile
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil
		}
		defer f.Close()
		return forget(f)
	})
}
