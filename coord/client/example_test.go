package client_test

import (
	"errors"
	"fmt"
	"os"

	"faultline/coord"
	"faultline/coord/client"
	"faultline/sim/host"
	"faultline/sim/machine"
)

// Two members of a group compete for a seat: an ephemeral node. The second one gets it when the first one's session ends.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	m, _ := host.New(host.Options{Name: "here", Root: dir})
	m.Do("main", func() {
		server, err := coord.Start(m, coord.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		servers := []string{fmt.Sprintf("here:%d", server.Port())}

		first := client.Connect(m, client.Config{Servers: servers, Name: "first"})
		if err := first.EnsurePath("/seats"); err != nil {
			fmt.Println(err)
		}
		path, err := first.Create("/seats/0", []byte("first"), client.Ephemeral)
		fmt.Println(path, err)
		fmt.Println("may act:", first.Lease() > 0)

		free := newFlag(m)
		second := client.Connect(m, client.Config{Servers: servers, Name: "second", OnEvent: func(e client.Event) {
			if e.Type == client.EventDeleted {
				free.set()
			}
		}})
		_, err = second.Create("/seats/0", []byte("second"), client.Ephemeral)
		fmt.Println(errors.Is(err, client.ErrNodeExists), "-", err)
		_, found, err := second.Exists("/seats/0", true) // leaves a watch
		fmt.Println(found, err)

		fmt.Println(first.Close())
		free.wait()
		path, err = second.Create("/seats/0", []byte("second"), client.Ephemeral)
		fmt.Println(path, err)
		_ = second.Close()
		fmt.Println(server.Stop())
	})
	m.Shutdown()
	// Output:
	// /seats/0 <nil>
	// may act: true
	// true - create /seats/0: node exists already
	// true <nil>
	// <nil>
	// /seats/0 <nil>
	// <nil>
}

// flag is something to wait for by means of the seam.
type flag struct {
	l  machine.Mutex
	c  machine.Cond
	up bool
}

func newFlag(m machine.Machine) *flag {
	f := &flag{l: m.NewMutex("flag")}
	f.c = m.NewCond("flag", f.l)
	return f
}

func (f *flag) set() { f.l.Lock(); f.up = true; f.c.Broadcast(); f.l.Unlock() }

func (f *flag) wait() {
	f.l.Lock()
	for !f.up {
		f.c.Wait()
	}
	f.l.Unlock()
}
