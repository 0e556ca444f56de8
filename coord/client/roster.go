package client

import (
	"errors"
	"fmt"
)

// Roster reads a node whose children are registrations, of brokers or of the members of a group: ephemeral nodes whose data is written once, so that a child changes only by going and coming
// again. It remembers what it has read, and reads what it does not know in one go: to a group of n members one that comes or goes means two rounds to the server for each of them, and not n.
//
// What it remembers of a child is of use as long as the child was not made anew under its name. The list tells: its version counts the children that were ever made and those
// that were ever deleted. Each name that is in only one of two lists took one of these changes at least, and each name in both that was made anew took two. So where the version moved by no
// more than the names that differ, all others are the nodes that they were; where it moved further, all are read again. A child is read after the list that names it, so if it is made anew in between, the next list tells.
//
// It is of one session, for it is the order of a session's reads that it relies on, and of one task.
type Roster[T any] struct {
	client *Client
	path   string
	decode func(name string, data []byte, stat Stat) (T, error)
	stat   Stat // of the node, when it had
	list   []registration[T]
}

// registration is a child as it was read after the list.
type registration[T any] struct {
	name  string
	read  bool
	value T
}

// NewRoster is for the children of a node. decode gives the data of a child its meaning; its error is that of Read.
func NewRoster[T any](c *Client, path string, decode func(name string, data []byte, stat Stat) (T, error)) *Roster[T] {
	return &Roster[T]{client: c, path: path, decode: decode}
}

// Read gives what is registered, by name, and leaves a watch on the list. left is how many went while they were read. ErrNoNode: there is no list.
func (r *Roster[T]) Read() (values []T, left int, err error) {
	names, stat, err := r.client.Children(r.path, true)
	if err != nil {
		return nil, 0, err
	}
	r.client.m.Failpoint("fault/session/listed")
	r.follow(names, stat)
	var paths []string
	for i := range r.list {
		if !r.list[i].read {
			paths = append(paths, r.path+"/"+r.list[i].name)
		}
	}
	answers := r.client.Gets(paths)
	values = make([]T, 0, len(r.list))
	for i := range r.list {
		x := &r.list[i]
		if !x.read {
			a := answers[0]
			answers = answers[1:]
			if errors.Is(a.Err, ErrNoNode) {
				left++
				continue
			}
			if a.Err != nil {
				return nil, 0, a.Err
			}
			if x.value, err = r.decode(x.name, a.Data, a.Stat); err != nil {
				return nil, 0, fmt.Errorf("%s/%s: %w", r.path, x.name, err)
			}
			x.read = true
		}
		values = append(values, x.value)
	}
	return values, left, nil
}

// follow takes the sorted names of a list, and keeps what was read of those that are surely the same nodes.
func (r *Roster[T]) follow(names []string, stat Stat) {
	list := make([]registration[T], len(names))
	both, old := 0, r.list
	for i, name := range names {
		list[i].name = name
		for len(old) > 0 && old[0].name < name {
			old = old[1:]
		}
		if len(old) > 0 && old[0].name == name {
			list[i] = old[0]
			both++
		}
	}
	differ := len(names) + len(r.list) - 2*both
	if stat.Czxid != r.stat.Czxid || int(stat.Cversion-r.stat.Cversion) != differ {
		if both > 0 {
			r.client.m.Mark("mark/session/registered-anew")
		}
		for i, name := range names {
			list[i] = registration[T]{name: name}
		}
	}
	r.list, r.stat = list, stat
}
