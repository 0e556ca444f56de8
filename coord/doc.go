// Package coord is the coordination service: one server that keeps a tree of znodes, sessions and watches, and speaks the ZooKeeper client
// protocol, so that ZooKeeper clients can use it as well as coord/client.
//
// # Pipeline
//
// Every connection has a task that reads requests and one that writes replies. All requests go through one queue to the commit task, which
// takes what is there as a batch: it decides and applies each request on the tree in order, stages the replies and watch events, writes
// the batch's transactions to the log, waits for one fsync, and only then lets the replies out. So nobody ever sees a state
// that is not durable, the requests of a session are handled in order, a read comes after the writes before it, and
// a watch event leaves before the reply of any later read. What arrives during the fsync is the next batch.
//
// # Durability
//
// The data directory holds snapshots and logs that are numbered together: log N has the transactions after snapshot N; see store.go. Any failure to write
// the log stops the server, because what is in memory is then ahead of the disk; [Server.Wait] returns the reason.
//
// # Sessions
//
// A session is opened, closed and expired by a transaction, so it survives a restart of the server; its time-out starts anew then. A client that
// comes back with its session id and password goes on with the session; its older connection is closed, and what is
// still queued from it is not executed: an unanswered write is settled once the client is connected again. Who is late is decided by Uptime; see tree.Expiry.
//
// ACLs are accepted and not kept: every node is open to the world.
package coord
