package client

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"faultline/coord/jute"
	"faultline/sim/machine"
)

// call is a request on its way.
type call struct {
	request jute.Request
	reply   jute.Reply
	err     error
	done    bool
	sent    bool          // it may have reached the wire
	sentAt  time.Duration // Uptime before it could
	ready   machine.Cond
}

// settle gives the call its outcome. Under lock.
func (k *call) settle(err error) {
	k.err, k.done = err, true
	k.ready.Signal()
}

// newCall takes a call for reuse or makes one. Under lock.
func (c *Client) newCall(r jute.Request) *call {
	if n := len(c.free); n > 0 {
		k := c.free[n-1]
		c.free = c.free[:n-1]
		*k = call{request: r, ready: k.ready}
		return k
	}
	return &call{request: r, ready: c.m.NewCond("coord/client/call", c.lock)}
}

// recycle gives back a call that nobody refers to. Under lock.
func (c *Client) recycle(k *call) {
	if len(c.free) < 64 {
		*k = call{ready: k.ready}
		c.free = append(c.free, k)
	}
}

// send sends calls, now or when there is a connection. Under lock.
func (c *Client) send(calls ...*call) {
	if c.conn == nil {
		c.waiting = append(c.waiting, calls...)
		return
	}
	for _, k := range calls {
		c.encode(k)
	}
	c.output.Signal()
}

// await waits for the outcome of a call that was sent, until the deadline. Under lock, which is released meanwhile.
func (c *Client) await(k *call, deadline time.Duration) error {
	for !k.done {
		left := deadline - c.m.Uptime()
		if left > 0 {
			k.ready.WaitTimeout(left)
			continue
		}
		if i := slices.Index(c.waiting, k); i >= 0 {
			c.m.Mark("mark/session/never-connected")
			c.waiting = slices.Delete(c.waiting, i, i+1)
			k.settle(ErrNotConnected)
			break
		}
		// In flight. The answers come in order, so a late one holds up all others, and only the end of the connection
		// settles it. One that is not even written goes back to the waiting ones.
		c.m.Mark("mark/session/request-timed-out")
		c.drop(c.conn)
	}
	return k.err
}

// encode puts a call behind the others of the connection. Under lock.
func (c *Client) encode(k *call) {
	l := &c.link
	if l.xid++; l.xid <= 0 {
		l.xid = 1
	}
	k.request.Xid = l.xid
	k.sent, k.sentAt = true, c.m.Uptime()
	l.out = appendRequest(l.out, &k.request)
	l.flight = append(l.flight, k)
	l.unwritten++
}

// do makes one request. The record gets what was sent and the result.
func (c *Client) do(record *Call, r jute.Request) (jute.Reply, error) {
	if size := requestSize(&r); size > jute.MaxPacket {
		return jute.Reply{}, fmt.Errorf("%w: a request of %d bytes, at most %d are accepted", ErrBadArguments, size, jute.MaxPacket)
	}
	if c.cfg.Tap != nil && record.Kind.writes() {
		record.Session = c.Session()
		c.cfg.Tap.Asked(*record)
	}
	if c.m.Failpoint("fault/session/call") { // as if there had been no connection all the time
		return jute.Reply{}, ErrNotConnected
	}
	reply, err := c.request(record, r)
	if err == nil && c.m.Failpoint("fault/session/answer") {
		return jute.Reply{}, ErrConnectionLoss
	}
	return reply, err
}

func (c *Client) request(record *Call, r jute.Request) (jute.Reply, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.over(); err != nil {
		return jute.Reply{}, err
	}
	k := c.newCall(r)
	c.send(k)
	err := c.await(k, record.Start+c.cfg.RequestTimeout)
	reply := k.reply
	record.Sent = k.sent
	c.recycle(k)
	return reply, err
}

// getAll makes the requests of Gets.
func (c *Client) getAll(records []Call, deadline time.Duration) []Got {
	got := make([]Got, len(records))
	refuse := func(err error) []Got {
		for i := range got {
			got[i] = Got{Err: err}
		}
		return got
	}
	if c.m.Failpoint("fault/session/call") {
		return refuse(ErrNotConnected)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.over(); err != nil {
		return refuse(err)
	}
	calls := make([]*call, len(records))
	for i := range records {
		calls[i] = c.newCall(jute.Request{Op: jute.OpGetData, Path: records[i].Path})
	}
	c.send(calls...)
	for i, k := range slices.Backward(calls) { // answers come in order: with the last one all are there
		err := c.await(k, deadline)
		got[i] = Got{k.reply.Data, k.reply.Stat, err}
		records[i].Session, records[i].Sent = c.session, k.sent
	}
	for _, k := range calls {
		c.recycle(k)
	}
	return got
}

// over is why there are no more calls; nil: there are. Under lock.
func (c *Client) over() error {
	switch c.phase {
	case expired:
		return ErrSessionExpired
	case closing, closed:
		return ErrClosed
	}
	return nil
}

// requestSize is no less than the size of the packet.
func requestSize(r *jute.Request) int {
	n := 100 + len(r.Path) + len(r.Data)
	for i := range r.Steps {
		n += 100 + len(r.Steps[i].Path) + len(r.Steps[i].Data)
	}
	return n
}

func (c *Client) begin(kind OpKind, path string) Call {
	return Call{Kind: kind, Path: path, Start: c.m.Uptime()}
}

// finish shows the call to the tap and wraps its error.
func (c *Client) finish(record *Call, err error) error {
	if c.cfg.Tap != nil {
		record.Session = c.Session()
	}
	return c.show(record, err)
}

// show is finish for a record that has its session.
func (c *Client) show(record *Call, err error) error {
	switch {
	case err == nil:
	case record.Path == "":
		err = fmt.Errorf("%s: %w", record.Kind, err)
	default:
		err = fmt.Errorf("%s %s: %w", record.Kind, record.Path, err)
	}
	if c.cfg.Tap != nil {
		record.Err, record.End = err, c.m.Uptime()
		c.cfg.Tap.Done(*record)
	}
	return err
}

var kindNames = [...]string{OpCreate: "create", OpDelete: "delete", OpSet: "set", OpCheck: "check", OpExists: "exists", OpGet: "get",
	OpChildren: "children", OpMulti: "multi", OpClose: "close"}

func (k OpKind) String() string { return kindNames[k] }

// writes tells that an operation may change nodes.
func (k OpKind) writes() bool { return k == OpCreate || k == OpDelete || k == OpSet || k == OpMulti }

// String shows a step as a person would write it.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", o.Kind, o.Path)
	if o.Kind == OpCreate && o.Flags != 0 {
		fmt.Fprintf(&b, " flags=%d", o.Flags)
	}
	if o.Kind != OpCreate && o.Version != AnyVersion {
		fmt.Fprintf(&b, " version=%d", o.Version)
	}
	return b.String()
}
