// Package client talks to brokers: pipelined connections ([Conn]) and, on top of them, the cluster's metadata with one
// connection for each broker ([Cluster]). Producer, consumer and workloads use it; so may tests.
//
// It speaks the Kafka protocol with kmsg's messages and picks the newest version of each that both sides know. Topics
// are named, not numbered, so produce and fetch stay at version 12.
//
// Nothing here retries a request on its own. A cluster paces what its callers repeat: however tight their loop,
// metadata is refreshed and a broker is dialled no more often than the back-off allows.
package client
