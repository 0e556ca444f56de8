// Package broker is one broker of an unreplicated log system: it keeps the logs of the partitions that the coordination
// service assigns to it and serves them by the Kafka protocol.
//
// Each connection has a task that reads a request, handles it and answers, in order. Only produce requests with acks=all do not hold
// up the next: their answers wait, still in order, in a second task until what they appended is flushed. A fetch that finds too
// little waits until the log's visible end moves. A keeper task mirrors the coordination service: it opens and drops logs, keeps
// the list of live brokers, and registers this one.
//
// Numbers in front of file names are the API keys of the requests that they handle.
//
// What a broker needs from its disk: DataDir/meta.properties (who it is), DataDir/clean-shutdown (exists only while the broker is
// regularly stopped) and DataDir/<topic>-<partition>/ (a log, and partition.metadata with the id of the topic that it belongs to).
package broker
