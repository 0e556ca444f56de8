package tree

import (
	"slices"

	"faultline/coord/jute"
)

// Watches are the one-shot watches of the sessions connected to one server. A data watch is left by getData and exists (also when there is no node
// yet), a child watch by getChildren. A session has at most one of each at a path, however often it asks.
type Watches struct {
	data, child map[string][]int64 // path -> sessions in the order they asked
	of          map[int64]map[watchKey]struct{}
	count       int
}

type watchKey struct {
	child bool
	path  string
}

// Notice is a fired watch.
type Notice struct {
	Session int64
	Type    jute.EventType
	Path    string
}

// NewWatches has none.
func NewWatches() *Watches {
	return &Watches{data: map[string][]int64{}, child: map[string][]int64{}, of: map[int64]map[watchKey]struct{}{}}
}

// Len is the number of watches.
func (w *Watches) Len() int { return w.count }

// Data leaves a data watch.
func (w *Watches) Data(session int64, path string) { w.add(session, watchKey{false, path}) }

// Child leaves a child watch.
func (w *Watches) Child(session int64, path string) { w.add(session, watchKey{true, path}) }

func (w *Watches) table(child bool) map[string][]int64 {
	if child {
		return w.child
	}
	return w.data
}

func (w *Watches) add(session int64, k watchKey) {
	keys := w.of[session]
	if keys == nil {
		keys = map[watchKey]struct{}{}
		w.of[session] = keys
	}
	if _, ok := keys[k]; ok {
		return
	}
	keys[k] = struct{}{}
	table := w.table(k.child)
	table[k.path] = append(table[k.path], session)
	w.count++
}

// Drop forgets all watches of a session: its connection is gone.
func (w *Watches) Drop(session int64) {
	// order: each is dropped from a list of its own
	for k := range w.of[session] {
		table := w.table(k.child)
		list := table[k.path]
		list = slices.Delete(list, slices.Index(list, session), slices.Index(list, session)+1)
		if len(list) == 0 {
			delete(table, k.path)
		} else {
			table[k.path] = list
		}
		w.count--
	}
	delete(w.of, session)
}

// Fire removes the watches that an effect fires and appends a notice for each: data watches of the node, then its child watches (only of
// sessions that had no data watch: a deletion is told once), then child watches of its parent.
func (w *Watches) Fire(e *Effect, notices []Notice) []Notice {
	if w.count == 0 {
		return notices
	}
	first := len(notices)
	switch e.Kind {
	case Set:
		return w.take(false, e.Path, jute.EventDataChanged, notices, first)
	case Create:
		notices = w.take(false, e.Path, jute.EventCreated, notices, first)
	case Delete:
		notices = w.take(false, e.Path, jute.EventDeleted, notices, first)
		notices = w.take(true, e.Path, jute.EventDeleted, notices, first)
	}
	return w.take(true, Parent(e.Path), jute.EventChildrenChanged, notices, len(notices))
}

// take moves the watches of a path to notices, but for those whose session has one since notices[first].
func (w *Watches) take(child bool, path string, typ jute.EventType, notices []Notice, first int) []Notice {
	table := w.table(child)
	list, ok := table[path]
	if !ok {
		return notices
	}
	delete(table, path)
	w.count -= len(list)
	told := notices[first:]
	for _, s := range list {
		w.forget(s, watchKey{child, path})
		if !slices.ContainsFunc(told, func(n Notice) bool { return n.Session == s }) {
			notices = append(notices, Notice{Session: s, Type: typ, Path: path})
		}
	}
	return notices
}

func (w *Watches) forget(session int64, k watchKey) {
	keys := w.of[session]
	delete(keys, k)
	if len(keys) == 0 {
		delete(w.of, session)
	}
}

// Rearm leaves a session's watches again after it moved to this connection, and appends a notice at once for each whose node changed after the
// zxid that the client has seen.
func (w *Watches) Rearm(t *Tree, session int64, r *jute.SetWatches, notices []Notice) []Notice {
	for _, path := range r.Data {
		switch n := t.nodes[path]; {
		case n == nil:
			notices = append(notices, Notice{session, jute.EventDeleted, path})
		case n.mzxid > r.RelativeZxid:
			notices = append(notices, Notice{session, jute.EventDataChanged, path})
		default:
			w.Data(session, path)
		}
	}
	for _, path := range r.Exist {
		if t.nodes[path] != nil {
			notices = append(notices, Notice{session, jute.EventCreated, path})
		} else {
			w.Data(session, path)
		}
	}
	for _, path := range r.Child {
		switch n := t.nodes[path]; {
		case n == nil:
			notices = append(notices, Notice{session, jute.EventDeleted, path})
		case n.pzxid > r.RelativeZxid:
			notices = append(notices, Notice{session, jute.EventChildrenChanged, path})
		default:
			w.Child(session, path)
		}
	}
	return notices
}
