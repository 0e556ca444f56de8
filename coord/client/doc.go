// Package client talks to the coordination service (package coord, or any ZooKeeper server) by the ZooKeeper client protocol.
//
// A [Client] is one session. It owns the tasks that keep the session alive: it pings, reconnects to any of the servers with
// the same session after a connection is lost, and re-arms its watches there. Its methods block, and may be
// called by many tasks at once; requests are sent, and handled by the server, in the order of the calls.
//
// # Outcomes of a call
//
// An error of a write belongs to one of two classes, which [Unknown] tells apart:
//
//   - definite: the write was refused (ErrNoNode, ErrNodeExists, ErrBadVersion, ErrNotEmpty, ...) or never left this machine
//     (ErrNotConnected, ErrClosed, ErrSessionExpired). It has no effect, now or later.
//   - unknown: ErrConnectionLoss. It was sent and no answer came. It took effect once or never. It is settled by the time that the
//     client is connected again: a read that succeeds afterwards sees it or it will never happen.
//
// A call made while there is no connection waits for one, at most Config.RequestTimeout.
//
// # Watches
//
// Exists, Get and Children with watch=true leave a one-shot watch at the server: the next change of the node (of its list of children)
// produces one [Event]. Events and changes of the session's state reach Config.OnEvent one at a time and in order, on a task of
// the client's own. The event of a change is queued before any later read that sees the change returns. OnEvent may call
// the client, but while it blocks no further event is delivered. A watch survives reconnection: what changed meanwhile is reported then.
// A watch of a call that failed is not left, except that ErrNoNode of Exists is no failure: it waits for the creation.
//
// # Lease
//
// An ephemeral node lives as long as its session, but the owner can be cut off, paused or slow while the server already
// gave the session up. Whoever acts as owner of an ephemeral node must therefore ask [Client.Lease] right before it acts.
package client
