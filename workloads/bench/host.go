package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"faultline/broker"
	"faultline/broker/client"
	"faultline/coord"
	"faultline/sim/host"
	"faultline/sim/machine"
	"faultline/workloads/deploy"
	"faultline/workloads/scenario"
)

// Systems finds the system that a cell measures.
type Systems func(c *Cell) (*System, error)

// Host measures on this computer. Every server has a process and an IP address of its own, in 127.0.0.0/8, which takes Linux; the clients are tasks of this process. Faults do not happen.
type Host struct {
	// Command is a program that calls [ServeMachine] with its standard input: it is started for each server.
	Command []string
	// Dir holds the servers' files while they run. Default: the system's folder for temporary files.
	Dir     string
	Systems Systems
	// Pinned gives the servers one half of the processors and the clients the other, where there are at least two.
	Pinned bool

	used, served *usage // count what the clients and the servers do; nil: nobody does
}

// job is what a server's process is told.
type job struct {
	File    string // of the suite
	Source  []byte
	Series  int
	Value   string
	Machine string
	Dir     string
	Hosts   map[string]string // machine -> IP address
	Counted bool              // whether it counts its work, see [countMark]
}

// countMark is what a server that counts is told when it is to begin anew. It tells what it counted when its input ends.
const countMark = '!'

// ServeMachine is a server's process: it runs the machine that the input names until the input ends.
func ServeMachine(in io.Reader, out io.Writer, systems Systems) error {
	var j job
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&j); err != nil {
		return fmt.Errorf("server of a bench: its job: %w", err)
	}
	in = io.MultiReader(decoder.Buffered(), in)
	s, err := ParseSuite(j.File, j.Source)
	if err != nil {
		return err
	}
	c, err := s.Cell(&s.Series[j.Series], j.Value)
	if err != nil {
		return err
	}
	system, err := systems(c)
	if err != nil {
		return err
	}
	all := c.Scenario.Machines(0)
	i := slices.IndexFunc(all, func(m scenario.Machine) bool { return m.Name == j.Machine })
	if i < 0 {
		return fmt.Errorf("server of a bench: the suite has no machine %s", j.Machine)
	}
	var program func(machine.Machine) error
	if system.Serve != nil {
		program = system.Serve(c, all[i].Role, all[i].Index)
	}
	if program == nil {
		program = server(c, all[i])
	}
	m, err := host.New(host.Options{Name: j.Machine, Root: j.Dir, Address: j.Hosts[j.Machine], Hosts: j.Hosts})
	if err != nil {
		return err
	}
	var seam machine.Machine = m
	u := &usage{}
	if j.Counted {
		seam = &counting{m, u}
	}
	m.Go("main", func() { m.Exit(program(seam)) })
	for mark := make([]byte, 1); err == nil; {
		if _, err = io.ReadFull(in, mark); err == nil && mark[0] == countMark {
			u.begin()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if j.Counted && err == nil {
		u.end()
		err = json.NewEncoder(out).Encode(spent{u.work, u.cpu})
	}
	m.Shutdown()
	return err
}

// server is what a machine runs that keeps the scenario's program.
func server(c *Cell, sm scenario.Machine) func(machine.Machine) error {
	addrs := deploy.Machines(c.Scenario.Machines(0))
	return func(m machine.Machine) error {
		if sm.Role == "coord" {
			return coord.Run(m, deploy.Coord(c.Scenario, addrs, sm.Index))
		}
		return broker.Run(m, deploy.Broker(c.Scenario, addrs, int32(sm.Index)))
	}
}

// How long servers may take.
const (
	hostStart = 30 * time.Second
	hostStop  = 10 * time.Second
	hostPause = 20 * time.Millisecond // between two looks
)

// Measure runs a cell once. It is an [Arm].
func (h *Host) Measure(c *Cell, seed uint64, stop func() bool) (*Result, error) {
	x, err := h.open(c, stop)
	if err != nil {
		return nil, err
	}
	defer x.end()
	return x.drive(seed)
}

// open starts what a cell needs, with what the load says is there before it.
func (h *Host) open(c *Cell, stop func() bool) (opened *hosted, err error) {
	system, err := h.Systems(c)
	if err != nil {
		return nil, err
	}
	x := &hosted{h: h, cell: c, system: system, stop: stop, hosts: map[string]string{}, troubles: make(chan error, 64), used: h.used, release: func() {}}
	if x.dir, err = os.MkdirTemp(h.Dir, "faultline-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			x.end()
		}
	}()
	x.cpus = wholeComputer()
	if h.Pinned {
		x.cpus = splitComputer()
	}
	if system.Outside == nil {
		if err := x.serve(); err != nil {
			return nil, err
		}
	}
	release, err := x.prepare()
	if err != nil {
		return nil, err
	}
	x.release = release
	if err := x.retain(); err != nil {
		return nil, err
	}
	return x, nil
}

// hosted is what runs on this computer for a cell.
type hosted struct {
	h        *Host
	cell     *Cell
	system   *System
	stop     func() bool
	dir      string
	cpus     cpus
	hosts    map[string]string
	servers  []*process
	clients  []*host.Machine
	troubles chan error // of processes and machines that ended by themselves
	release  func()     // gives back what prepare made
	used     *usage     // counts what the clients do; nil: nobody does
}

// hostAddresses counts addresses of servers that were given out: several cells may be served at a time.
var hostAddresses atomic.Uint32

// process is a server.
type process struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	said  bytes.Buffer
	told  bytes.Buffer // what it counted
	gone  chan struct{}
}

// serve starts the servers.
func (x *hosted) serve() error {
	program, err := exec.LookPath(x.h.Command[0])
	if err != nil {
		return fmt.Errorf("the program of a server: %w", err)
	}
	var servers []scenario.Machine
	for _, m := range x.cell.Scenario.Machines(0) {
		if (m.Role == "coord" || m.Role == "broker") && !m.Spare {
			pid := os.Getpid()
			x.hosts[m.Name] = fmt.Sprintf("127.%d.%d.%d", 1+pid/250%250, 1+pid%250, 1+hostAddresses.Add(1)%250)
			servers = append(servers, m)
		}
	}
	suite := x.cell.suite
	series := slices.IndexFunc(suite.Series, func(s Series) bool { return s.Name == x.cell.Series.Name })
	for _, m := range servers {
		text, err := json.Marshal(job{File: suite.Name, Source: suite.source, Series: series, Value: x.cell.Value, Machine: m.Name, Dir: filepath.Join(x.dir, m.Name), Hosts: x.hosts, Counted: x.h.served != nil})
		if err != nil {
			return err
		}
		p := &process{name: m.Name, cmd: exec.Command(program, x.h.Command[1:]...), gone: make(chan struct{})}
		p.cmd.Stdout, p.cmd.Stderr = &p.told, &p.said
		ownGroup(p.cmd)
		input, err := p.cmd.StdinPipe()
		if err != nil {
			return err
		}
		p.input = input
		if err := x.cpus.startServer(p.cmd); err != nil {
			return fmt.Errorf("start %s: %w", m.Name, err)
		}
		x.servers = append(x.servers, p)
		go func() {
			err := p.cmd.Wait()
			close(p.gone)
			x.troubles <- fmt.Errorf("the process of %s ended by itself: %v: %s", p.name, err, strings.TrimSpace(p.said.String()))
		}()
		if _, err := input.Write(text); err != nil {
			return fmt.Errorf("start %s: %w", m.Name, err)
		}
	}
	return nil
}

// dismiss stops the clients.
func (x *hosted) dismiss() {
	for _, m := range x.clients {
		m.Shutdown()
	}
	x.clients = nil
}

// end stops everything and leaves nothing behind.
func (x *hosted) end() {
	defer os.RemoveAll(x.dir)
	x.release()
	x.dismiss()
	for _, p := range x.servers {
		p.input.Close()
	}
	deadline := time.After(hostStop)
	for _, p := range x.servers {
		select {
		case <-p.gone:
		case <-deadline:
			p.cmd.Process.Kill()
			<-p.gone
		}
		if u := x.h.served; u != nil {
			var s spent
			if json.Unmarshal(p.told.Bytes(), &s) == nil { // else it broke down, which was an error already
				u.add(s.Work)
				u.cpu += s.CPU
			}
		}
	}
}

// machine is a new one for a client.
func (x *hosted) machine(name string) (*host.Machine, error) {
	m, err := host.New(host.Options{Name: name, Root: filepath.Join(x.dir, name), Hosts: x.hosts, OnExit: func(reason error) {
		x.troubles <- fmt.Errorf("%s ended by itself: %v", name, reason)
	}})
	if err == nil {
		x.clients = append(x.clients, m)
	}
	return m, err
}

// await tries until it worked, for a while.
func (x *hosted) await(what string, try func() error) error {
	deadline := time.Now().Add(hostStart)
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case err := <-x.troubles:
			return err
		default:
		}
		if x.stop() {
			return ErrStopped
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s, tried for %v: %w", what, hostStart, err)
		}
		time.Sleep(hostPause)
	}
}

// prepare waits for the servers and makes what the load needs; release takes it back.
func (x *hosted) prepare() (release func(), err error) {
	release = func() {}
	if x.system.Outside != nil {
		err := x.await("prepare "+x.system.Name, func() (err error) {
			release, err = x.system.Outside(x.cell)
			return err
		})
		return release, err
	}
	if x.system.Serve != nil {
		for _, addr := range deploy.Machines(x.cell.Scenario.Machines(0)).Brokers {
			name, port, _ := net.SplitHostPort(addr)
			err := x.await("reach "+name, func() error {
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
	return release, x.await("create the topics", func() error {
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
