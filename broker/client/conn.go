package client

import (
	"errors"

	"faultline/sim/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is a connection to one broker. Any number of tasks may use it at once: requests go out in the order of the
// Start calls, the broker answers in that order, and a reader task hands each answer to whoever waits for it.
//
// After a time-out or any other failure the connection is closed for good and all its pending requests fail.
type Conn struct {
}

// Dial connects to a broker ("host:port") and asks it for the versions that it speaks. Its errors are ErrNotSent.
func Dial(m machine.Machine, addr string, cfg Config) (*Conn, error) {
	return nil, notSent(errors.ErrUnsupported)
}

// Request sends req and waits for the answer: Start and Wait.
func (c *Conn) Request(req kmsg.Request) (kmsg.Response, error) {
	return c.Start(req).Wait()
}

// Start puts req on the wire and returns without waiting for the answer. It blocks only as long as other writers and a full
// socket make it. It sets the request's version. req must not be changed before Wait returns.
//
// Requests that one task starts one after the other reach the broker in that order.
// Whoever starts a request must wait for it, once.
func (c *Conn) Start(req kmsg.Request) *Pending { return nil }

// Pending is a request under way.
type Pending struct {
}

// Wait returns the answer. A produce request with acks=0 has none: nil, nil as soon as it is written.
// The answer and every byte that it refers to (record batches) belong to the caller. p must not be used afterwards.
func (p *Pending) Wait() (kmsg.Response, error) { return nil, nil }

// Broker is the address that was dialled.
func (c *Conn) Broker() string { return "" }

// Err tells why the connection is closed; nil while it is usable.
func (c *Conn) Err() error { return nil }

// Close closes the connection. Its pending requests fail with ErrUnknown and ErrClosed.
func (c *Conn) Close() error { return nil }
