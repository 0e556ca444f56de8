// Package jute holds the records of the ZooKeeper client protocol, as ZooKeeper's zookeeper.jute defines them: big-endian integers,
// booleans of a byte, strings and buffers behind a 4-byte length (-1: null), vectors behind a 4-byte count.
//
// On a connection every packet has a 4-byte length before it. The first packet each way is a [ConnectRequest] and a
// [ConnectReply]; then the client sends [Request]s (xid, operation, body) and the server [Reply]s in the same order, with
// [Event]s between them. Encoders append to a slice; decoders alias the packet for buffers and copy strings. Nothing uses reflection.
package jute
