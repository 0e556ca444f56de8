// Package coord is the coordination service: 1, 3 or 5 servers that keep a tree of znodes, sessions and watches, and speak the ZooKeeper client
// protocol, so that ZooKeeper clients can use it as well as coord/client.
//
// # What clients can rely on
//
// Any server serves any client. All calls, reads too, are linearizable: they take effect at one moment between call and answer. The calls of a session take effect in the
// order in which they were made. A watch event leaves before the reply of any later read that sees the change. The service works as long as more than half
// of the servers do and reach each other; the others serve nothing, and turn their clients away.
//
// # Pipeline
//
// Every connection has a task that reads requests and one that writes replies. All requests go through one queue to the commit task, which keeps them in
// the order of their connection (conn.go, commit.go):
//
//   - A write becomes a command in this server's stream (outbox.go). Its stream goes to the leader, and again whenever the leader or the way to it is another
//     one. The leader puts commands into the replicated log (raft.go, replicate.go), as requests, not as results.
//   - What the log agrees on is decided and applied on every server in the same way (package replica, apply.go), so that versions are checked against the
//     agreed state, nothing counts twice, and nothing counts out of order. The server whose client asked replies.
//   - A read waits for the writes before it on its connection, and for its round (rounds.go): the leader, having made sure that it still leads, says what must
//     be applied here first. Nobody ever sees a state that is not agreed on and durable.
//   - A disk task writes the log; what arrives during its fsync shares the next one (diskjob.go).
//
// A server that is alone does the same without a library and a disk task (alone.go).
//
// # Durability
//
// The data directory holds snapshots and logs that are numbered together; see store.go. Nothing is promised, to a client or to another server, before it is
// synced. Any failure to write the log stops the server, because what is in memory is then ahead of the disk; [Server.Wait] returns the reason. A server whose
// disk was lost must not come back with an empty one: it would have forgotten what it promised to the others.
//
// # Sessions
//
// A session is opened, closed and expired by entries of the log, so it survives its server, and the leader. A client that comes back to any server with its session id
// and password goes on with the session: it gets a new seat, by an entry too, which fences what is still on its way from the older connection. So an unanswered write is
// settled once the client is connected again. The leader alone decides who is late, by its Uptime (see tree.Expiry); a new leader begins every time-out
// anew. It hears of all requests and pings, wherever their clients are connected, before these are answered.
//
// # Elections
//
// Time and chance come from the machine, never from the library; see elector.
//
// ACLs are accepted and not kept: every node is open to the world.
package coord
