package main

import (
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"faultline/broker"
	"faultline/broker/log"
	"faultline/coord"
	"faultline/sim/host"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	dir        string
	listen     string
	advertise  string
	id         int
	port       int
	coordPort  int
	coord      []string
	peers      []string
	partitions int
	replicas   int
	autoCreate bool
	flush      time.Duration
	retention  time.Duration
}

func serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker and its coordination service on this machine, for real clients",
		Long: `Run a broker and its coordination service on this machine, on files and TCP: Kafka clients connect to the broker, ZooKeeper clients to the
coordination service. Ctrl-C stops both regularly; a second one at once, as a crash would.

With --coord the broker joins a cluster that is there and runs no coordination service of its own. With --peers its coordination server is one of an ensemble
of three or five, the same list everywhere; --id is then the place in it, too.`,
		Example: `  faultline serve --dir data
  faultline serve --dir data2 --id 2 --port 9093 --coord 127.0.0.1:2181
  faultline serve --dir data --listen 0.0.0.0 --advertise a --id 1 --replicas 3 --peers a:2888,b:2888,c:2888   # on machine a; alike on b and c`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := noEmpty(cmd); err != nil {
				return err
			}
			stop, release := onInterrupt()
			defer release()
			return f.serve(cmd.OutOrStdout(), stop)
		},
	}
	c.Flags().StringVar(&f.dir, "dir", "faultline-data", "folder for everything that is kept")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1", "IP address to listen on; 0.0.0.0: every one of this machine")
	c.Flags().StringVar(&f.advertise, "advertise", "", "host that clients are told to dial (default: --listen, or this machine's name where that is every address)")
	c.Flags().IntVar(&f.id, "id", 1, "id of the broker, which no other in its cluster has")
	c.Flags().IntVar(&f.port, "port", 9092, "port of the broker; 0: any that is free")
	c.Flags().IntVar(&f.coordPort, "coord-port", 2181, "port of the coordination service; 0: any that is free")
	c.Flags().StringSliceVar(&f.coord, "coord", nil, "addresses of a coordination service that is there, each HOST:PORT")
	c.Flags().StringSliceVar(&f.peers, "peers", nil, "addresses at which the coordination servers of an ensemble talk to each other, each HOST:PORT")
	c.Flags().IntVar(&f.partitions, "partitions", 1, "partitions of topics that are created without a number")
	c.Flags().IntVar(&f.replicas, "replicas", 1, "replicas of these; above 1, also of the offsets of groups")
	c.Flags().BoolVar(&f.autoCreate, "auto-create", true, "create a topic when a client asks for one that is not there")
	c.Flags().DurationVar(&f.flush, "flush-interval", log.Defaults().FlushInterval, "flush logs so often: without replicas, what is not flushed is not visible")
	c.Flags().DurationVar(&f.retention, "retention", log.Defaults().RetentionTime, "keep records so long; negative: for ever")
	c.MarkFlagsMutuallyExclusive("coord", "peers")
	return c
}

// patience is how long a broker may wait for its registration before serve tells why.
const patience = 2 * time.Second

// looking is how often serve looks whether it is to stop.
const looking = 20 * time.Millisecond

func (f *serveFlags) serve(w io.Writer, stop func() bool) error {
	if err := f.check(); err != nil {
		return err
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	ended := make(chan error, 2) // a process of ours ended by itself
	process := func(name string) (*host.Machine, error) {
		return host.New(host.Options{Name: name, Root: f.dir, Address: f.listen, Hosts: map[string]string{}, OnExit: func(reason error) {
			ended <- fmt.Errorf("the %s ended by itself: %v", name, reason)
		}})
	}
	servers := f.coord
	if len(servers) == 0 {
		m, err := process("coordination server")
		if err != nil {
			return err
		}
		defer m.Shutdown()
		s, err := coord.Start(m, coord.Config{Port: f.coordPort, Peers: f.peers, ID: f.place()})
		if err != nil {
			return err
		}
		defer m.Do("stop", func() { s.Stop() })
		servers = f.coordinators(s.Port())
		fmt.Fprintf(w, "coordination service on %s\n", net.JoinHostPort(f.advertise, strconv.Itoa(s.Port())))
	}
	m, err := process("broker")
	if err != nil {
		return err
	}
	defer m.Shutdown()
	port := f.port
	if port == 0 {
		port = -1
	}
	cfg := broker.Config{
		ID: int32(f.id), Port: port, AdvertisedHost: f.advertise, Coord: servers,
		Partitions: int32(f.partitions), Replicas: f.replicas, LeastISR: f.replicas/2 + 1, AutoCreateTopics: f.autoCreate, Log: log.Defaults(),
	}
	if f.replicas > 1 {
		cfg.OffsetsReplicas = f.replicas // not as many as there are when the first group comes: they would stay so few
	}
	waits := make(chan error, 1)
	cfg.Waits = func(reason error) {
		select {
		case waits <- reason:
		default: // one is enough
		}
	}
	cfg.Log.FlushInterval, cfg.Log.RetentionTime = f.flush, f.retention
	started, refused := make(chan *broker.Broker, 1), make(chan error, 1)
	m.Go("start", func() {
		if b, err := broker.Start(m, cfg); err != nil {
			refused <- err
		} else {
			started <- b
		}
	})
	var b *broker.Broker
	began, said := time.Now(), ""
	tell := func(reason string) {
		if b == nil && reason != said && time.Since(began) > patience {
			said = reason
			fmt.Fprintf(w, "broker %d is not up yet, coordination service %s: %s\n", f.id, strings.Join(servers, ", "), reason)
		}
	}
	tick := time.NewTicker(looking)
	defer tick.Stop()
	for {
		select {
		case err := <-refused:
			return fmt.Errorf("%w (everything is kept in %s)", err, filepath.Clean(f.dir))
		case reason := <-waits:
			tell(reason.Error())
		case b = <-started:
			fmt.Fprintf(w, "broker %d on %s\ndata in %s\n", f.id, b.Addr(), filepath.Clean(f.dir))
		case err := <-ended:
			return err
		case <-tick.C:
			if said == "" && time.Since(began) > 2*patience {
				tell(f.silent())
			}
			if !stop() {
				continue
			}
			var err error
			if b != nil {
				m.Do("stop", func() { err = b.Stop() })
			}
			return err
		}
	}
}

func (f *serveFlags) check() error {
	if net.ParseIP(f.listen) == nil {
		return fmt.Errorf("--listen %s: want an IP address", f.listen)
	}
	for _, n := range []struct {
		flag             string
		found, low, high int
	}{{"id", f.id, 0, math.MaxInt32}, {"partitions", f.partitions, 1, broker.MaxPartitions}, {"replicas", f.replicas, 1, math.MaxInt16}, {"port", f.port, 0, 65535}, {"coord-port", f.coordPort, 0, 65535}} {
		if n.found < n.low || n.found > n.high {
			return fmt.Errorf("found --%s %d, allowed is %d to %d", n.flag, n.found, n.low, n.high)
		}
	}
	if f.flush <= 0 || f.retention == 0 {
		return fmt.Errorf("found --flush-interval %v, --retention %v: the first is above 0, the second not 0 (negative: for ever)", f.flush, f.retention)
	}
	for _, a := range slices.Concat(f.coord, f.peers) {
		host, port, err := net.SplitHostPort(a)
		if n, e := strconv.Atoi(port); err != nil || e != nil || host == "" || n < 1 || n > 65535 {
			return fmt.Errorf("found the address %q of a coordination server, allowed is HOST:PORT, like 127.0.0.1:2181", a)
		}
	}
	if f.advertise == "" {
		f.advertise = f.listen
		if net.ParseIP(f.listen).IsUnspecified() {
			name, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("this machine's name, for clients: %w; give --advertise", err)
			}
			f.advertise = name
		}
	}
	return nil
}

// silent says why no coordination service may answer.
func (f *serveFlags) silent() string {
	if len(f.peers) > 1 {
		return fmt.Sprintf("no answer, %d of the %d servers of --peers must be up", len(f.peers)/2+1, len(f.peers))
	}
	return "no answer"
}

// lock takes the folder for this process: two that write into it would lose what either of them keeps.
func (f *serveFlags) lock() (unlock func(), err error) {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(f.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	mine, err := lockFile(file)
	if err == nil && !mine {
		err = fmt.Errorf("another faultline serves from %s: stop it, or give this one a folder of its own", filepath.Clean(f.dir))
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("--dir: %w", err)
	}
	return func() { file.Close() }, nil
}

// place is this server's in its ensemble; 0: it is the only one.
func (f *serveFlags) place() int {
	if len(f.peers) == 0 {
		return 0
	}
	return f.id
}

// coordinators are where clients find the coordination service that runs here: its own server first.
func (f *serveFlags) coordinators(port int) []string {
	own := f.listen
	if net.ParseIP(own).IsUnspecified() {
		own = "127.0.0.1"
	}
	list := []string{net.JoinHostPort(own, strconv.Itoa(port))}
	for i, p := range f.peers {
		if host, _, err := net.SplitHostPort(p); err == nil && i+1 != f.id {
			list = append(list, net.JoinHostPort(host, strconv.Itoa(f.coordPort)))
		}
	}
	return list
}
