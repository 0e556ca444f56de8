package bench

import (
	"errors"
	"fmt"
	"sync/atomic"

	"faultline/sim/machine"
)

// System is a messaging system as a bench drives it: this one, the baseline queue, or a real one that is compared with it.
type System struct {
	Name string
	// Guarantee is what it promises about an acknowledged message in the measured configuration, for tables and legends.
	Guarantee string
	// Serve gives the program of a server's machine; nil: the machine keeps what the scenario has.
	Serve func(c *Cell, role string, index int) func(m machine.Machine) error
	// Outside prepares a cell on a system whose servers run already, elsewhere, and were not started for it; release, which is run after the load, takes back what it made there. It is tried
	// again for a while when it fails. nil: the servers are the scenario's.
	Outside func(c *Cell) (release func(), err error)
	// Fill has every partition keep so many bytes of messages that were there before the load (see the load's retained); nil: its first sender does.
	Fill func(m machine.Machine, c *Cell, bytes int64, stop func() bool) error
	// Send connects a client that sends. told runs once for each message that Send took, with its outcome, never in two tasks at once.
	Send func(m machine.Machine, c *Cell, index int, told func(err error)) (Sender, error)
	// Receive connects a client that receives. hand runs for each message; its value is valid until it returns. Several tasks may run it at once.
	Receive func(m machine.Machine, c *Cell, group string, index int, hand func(value []byte)) (Receiver, error)
}

// Sender is a client that sends.
type Sender interface {
	// Send takes a message, of which it keeps nothing. It blocks while the client's buffer is full.
	Send(value []byte) error
	// Close sends what is buffered and ends.
	Close() error
}

// Receiver is a client that receives, by itself, until it is closed.
type Receiver interface {
	Close() error
}

// sendAhead sends so many bytes of messages that are stamped as due before the load, and returns when all are acknowledged.
func (s *System) sendAhead(m machine.Machine, c *Cell, bytes int64, stop func() bool) error {
	var failed atomic.Pointer[error]
	out, err := s.Send(m, c, 1, func(err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	})
	if err != nil {
		return err
	}
	values := aheadOf(c)
	for n := 0; bytes > 0 && err == nil; n++ {
		v := values[n%len(values)]
		bytes -= int64(len(v))
		if err = out.Send(v); n%1024 == 0 && stop() {
			err = ErrStopped
		}
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if e := failed.Load(); err == nil && e != nil {
		err = *e
	}
	if err != nil && !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("fill: %w", err)
	}
	return err
}

// aheadOf are a cell's messages, stamped as due before the load.
func aheadOf(c *Cell) [][]byte {
	values := (&drive{cell: c}).values(0)
	for _, v := range values {
		for i := range stampBytes {
			v[i] = 0xff // -1
		}
	}
	return values
}
