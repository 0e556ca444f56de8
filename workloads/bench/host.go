package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"faultline/sim/host"
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

// What a server that counts is told: to begin anew, and to tell what it counted since.
const (
	countMark = '!'
	tellMark  = '?'
)

// How long servers may take.
const (
	hostStart = 30 * time.Second
	hostThere = 5 * time.Second // one that runs already
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
	x := &hosted{h: h, cell: c, system: system, stop: stop, hosts: map[string]string{}, troubles: make(chan error, 64), used: h.used, served: h.served, release: func() {}}
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
	served   *usage     // and what the servers do
}

// hostAddresses counts addresses of servers that were given out: several cells may be served at a time.
var hostAddresses atomic.Uint32

// process is a server.
type process struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	said  bytes.Buffer
	told  *json.Decoder // what it counted
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
		text, err := json.Marshal(job{File: suite.Name, Source: suite.source, Series: series, Value: x.cell.Value, Machine: m.Name, Dir: filepath.Join(x.dir, m.Name), Hosts: x.hosts, Counted: x.served != nil})
		if err != nil {
			return err
		}
		out, in := io.Pipe()
		p := &process{name: m.Name, cmd: exec.Command(program, x.h.Command[1:]...), told: json.NewDecoder(out), gone: make(chan struct{})}
		p.cmd.Stdout, p.cmd.Stderr = in, &p.said
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
			in.Close()
			close(p.gone)
			x.troubles <- fmt.Errorf("the process of %s ended by itself: %v: %s", p.name, err, strings.TrimSpace(p.said.String()))
		}()
		if _, err := input.Write(text); err != nil {
			return fmt.Errorf("start %s: %w", m.Name, err)
		}
	}
	return nil
}

// tell asks the servers what they did since they began to count.
func (x *hosted) tell() error {
	for _, p := range x.servers {
		var s spent
		_, err := p.input.Write([]byte{tellMark})
		if err == nil {
			err = p.told.Decode(&s)
		}
		if err != nil {
			return fmt.Errorf("ask %s what it did: %w", p.name, err)
		}
		x.served.add(s.Work)
		x.served.cpu += s.CPU
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
func (x *hosted) await(what string, within time.Duration, try func() error) error {
	deadline := time.Now().Add(within)
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
			return fmt.Errorf("%s, tried for %v: %w", what, within, err)
		}
		time.Sleep(hostPause)
	}
}
