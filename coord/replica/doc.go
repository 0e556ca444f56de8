// Package replica is what every server of the coordination service agrees on, as plain data: the tree of znodes, where each session is served, and how far
// the requests of each server have come. It does no I/O and reads no clock.
//
// The replicated log holds requests, not their results: each server decides and applies them in the order of the log ([State.Apply]), so that versions
// are checked against the agreed state and the same log makes the same state everywhere. Two things make that exact:
//
//   - Streams. A server numbers the commands that it passes on, and starts anew with each incarnation. A command counts only as the next one of its
//     stream. So a server may send again whatever it does not see applied: nothing is applied twice, out of order, or after a gap.
//   - Seats. A session is served at one seat, which is given when it is opened and whenever its client connects anew. A command of another seat is
//     refused. So a request whose answer got lost is settled once the same session is answered again, on any server: it came before, or never will.
package replica
