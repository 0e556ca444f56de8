package host_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"faultline/sim/host"
	"faultline/sim/machine"
)

// A program that knows only the seam runs on the real computer.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)

	exit := make(chan error)
	m, err := host.New(host.Options{Name: "broker-1", Root: dir, OnExit: func(reason error) { exit <- reason }})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Go("main", func() { m.Exit(program(m)) })
	fmt.Println("ended:", <-exit)
	// Output:
	// the file says hello
	// ended: <nil>
}

func program(m machine.Machine) error {
	f, err := m.Disk().Open("greeting", machine.Create)
	if err != nil {
		return err
	}
	if _, err := machine.WriteFull(f, []byte("hello"), 0); err != nil {
		return err
	}
	l, err := m.Listen(0)
	if err != nil {
		return err
	}
	m.Go("server", func() {
		if c, err := l.Accept(); err == nil {
			_, _ = m.SendFile(c, f, 0, 5)
			_ = c.Close()
		}
	})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c, err := m.Dial("broker-1:"+port, time.Minute)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(c)
	fmt.Printf("the file says %s\n", said)
	return err
}
