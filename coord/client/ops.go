package client

import (
	"errors"
	"slices"
	"strings"

	"faultline/coord/jute"
)

// Create makes a node and returns its path (a Sequential one: with its number). ErrNodeExists, ErrNoNode (no parent), ErrNoChildrenForEphemerals.
func (c *Client) Create(path string, data []byte, flags Flags) (string, error) {
	record := c.begin(OpCreate, path)
	record.Data, record.Flags = data, flags
	reply, err := c.do(&record, jute.Request{Op: jute.OpCreate2, Path: path, Data: data, Flags: int32(flags)})
	record.Created, record.Stat = reply.Path, reply.Stat
	return reply.Path, c.finish(&record, err)
}

// Delete removes a node that has the version and no children. ErrNoNode, ErrBadVersion, ErrNotEmpty.
func (c *Client) Delete(path string, version int32) error {
	record := c.begin(OpDelete, path)
	record.Version = version
	_, err := c.do(&record, jute.Request{Op: jute.OpDelete, Path: path, Version: version})
	return c.finish(&record, err)
}

// Exists tells whether there is a node. With watch: its creation, deletion or next change of data is an event. A missing node is no error.
func (c *Client) Exists(path string, watch bool) (Stat, bool, error) {
	record := c.begin(OpExists, path)
	reply, err := c.do(&record, jute.Request{Op: jute.OpExists, Path: path, Watch: watch})
	if record.Found = err == nil; err == ErrNoNode {
		err = nil
	}
	record.Stat = reply.Stat
	return reply.Stat, record.Found, c.finish(&record, err)
}

// Get reads a node's data. With watch: its deletion or next change of data is an event. ErrNoNode (no watch is left then).
func (c *Client) Get(path string, watch bool) ([]byte, Stat, error) {
	record := c.begin(OpGet, path)
	reply, err := c.do(&record, jute.Request{Op: jute.OpGetData, Path: path, Watch: watch})
	record.Value, record.Stat = reply.Data, reply.Stat
	return reply.Data, reply.Stat, c.finish(&record, err)
}

// Got is what one read of Gets came to.
type Got struct {
	Data []byte
	Stat Stat
	Err  error // as that of Get
}

// Gets reads the data of several nodes, as so many calls of Get without a watch would, but sends them all before it waits for the first answer.
func (c *Client) Gets(paths []string) []Got {
	if len(paths) == 0 {
		return nil
	}
	start := c.m.Uptime()
	records := make([]Call, len(paths))
	for i, path := range paths {
		records[i] = Call{Kind: OpGet, Path: path, Start: start}
	}
	got := c.getAll(records, start+c.cfg.RequestTimeout)
	for i := range got {
		records[i].Value, records[i].Stat = got[i].Data, got[i].Stat
		got[i].Err = c.show(&records[i], got[i].Err)
	}
	return got
}

// Set replaces the data of a node that has the version, and returns its new Stat. ErrNoNode, ErrBadVersion.
func (c *Client) Set(path string, data []byte, version int32) (Stat, error) {
	record := c.begin(OpSet, path)
	record.Data, record.Version = data, version
	reply, err := c.do(&record, jute.Request{Op: jute.OpSetData, Path: path, Data: data, Version: version})
	record.Stat = reply.Stat
	return reply.Stat, c.finish(&record, err)
}

// Children lists the names (not paths) of a node's children, sorted. With watch: the next child created or deleted, or the deletion of the node, is an event. ErrNoNode.
func (c *Client) Children(path string, watch bool) ([]string, Stat, error) {
	record := c.begin(OpChildren, path)
	reply, err := c.do(&record, jute.Request{Op: jute.OpGetChildren2, Path: path, Watch: watch})
	slices.Sort(reply.Children)
	record.Children, record.Stat = reply.Children, reply.Stat
	return reply.Children, reply.Stat, c.finish(&record, err)
}

// Multi does all steps as one transaction or none. When a step is refused the error is a *MultiError.
func (c *Client) Multi(ops ...Op) error {
	record := c.begin(OpMulti, "")
	record.Ops = ops
	steps := make([]jute.Step, len(ops))
	for i, o := range ops {
		steps[i] = jute.Step{Path: o.Path, Data: o.Data, Flags: int32(o.Flags), Version: o.Version}
		switch o.Kind {
		case OpCreate:
			steps[i].Op = jute.OpCreate
		case OpDelete:
			steps[i].Op = jute.OpDelete
		case OpSet:
			steps[i].Op = jute.OpSetData
		case OpCheck:
			steps[i].Op = jute.OpCheck
		default:
			return c.finish(&record, &MultiError{Index: i, Op: o, Err: ErrBadArguments})
		}
	}
	reply, err := c.do(&record, jute.Request{Op: jute.OpMulti, Steps: steps})
	if err == nil {
		err = refusal(ops, reply.Results)
	}
	return c.finish(&record, err)
}

// refusal finds the step that made a multi fail: the first that has an error and is neither undone nor skipped.
func refusal(ops []Op, results []jute.StepResult) error {
	for i, r := range results {
		if r.Op == jute.OpError && r.Code != jute.OK && r.Code != jute.RuntimeInconsistency && i < len(ops) {
			return &MultiError{Index: i, Op: ops[i], Err: errorOf(r.Code)}
		}
	}
	return nil
}

// EnsurePath makes the node and its missing parents, persistent and empty. One that exists is no error.
func (c *Client) EnsurePath(path string) error {
	_, found, err := c.Exists(path, false)
	if err != nil || found {
		return err
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		if err := c.EnsurePath(path[:i]); err != nil {
			return err
		}
	}
	if _, err := c.Create(path, nil, Persistent); err != nil && !errors.Is(err, ErrNodeExists) {
		return err
	}
	return nil
}
