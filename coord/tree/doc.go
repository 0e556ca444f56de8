// Package tree is the state of the coordination service as plain data: znodes, sessions, and beside them the watches and session
// deadlines of one server. It does no I/O and reads no clock; time is an argument.
//
// A request goes through two steps that are kept apart so that the second can be replicated:
//
//   - decide: [Tree.Decide], [Tree.DecideOpen] and [Tree.DecideClose] check a request against the state and turn it into a [Txn] that has no choice
//     left in it: the number of a sequential node, the new version, the time are fixed. The tree is not changed.
//   - apply: [Tree.Apply] changes the tree by a Txn. It depends on nothing but the tree and the Txn: the same transactions make the same tree,
//     on whatever server, and the same [Effect]s.
//
// [Watches] and [Expiry] belong to one server and its connections. They are neither replicated nor kept over a restart.
package tree
