// Package consumer reads topics: as a member of a group ([Group]), which divides the partitions among its members, or alone ([Simple]). Members of a registry
// group ([Registry]) do that without any master; those of a coordinator group ([Coordinator]) meet at a broker.
//
// # The registry group
//
// It is the paper's (Kreps, Narkhede, Rao: Kafka, NetDB 2011, section 3.2). The members meet in the coordination service:
//
//	/brokers/ids/<id>                                 ephemeral   the brokers that are up
//	/brokers/topics/<topic>                           persistent  the topic's partitions and the broker of each
//	/consumers/<group>/ids/<member>                   ephemeral   the members and their subscriptions
//	/consumers/<group>/owners/<topic>/<partition>     ephemeral   value: the member that owns the partition
//	/consumers/<group>/offsets/<topic>/<partition>    persistent  value: the next offset to read, in decimal
//
// Whenever brokers, partitions or members change, every member gives up what it owns, reads the registries, computes its
// part (see sharesOf), claims it by creating the owner nodes, reads the committed offsets, and fetches from there. A
// claim that fails means that somebody else has not let go yet: the member gives up all that it claimed, waits and tries again.
//
// # The coordinator group
//
// It is Kafka's classic protocol. One of the brokers coordinates the group; it lets members in and out, and makes one of them divide the partitions (see package assign) whenever members or
// partitions change. What a member has to do next is said by package member. A member that the coordinator did not hear of for its session is no member any more, and one whose application works too long
// on one record leaves by itself ([Config.MaxPollInterval]).
//
// # What is promised
//
//   - A record is handed over only while the member's session, there or at the coordinator, is surely alive and its claim stands, so at most one member hands over records of
//     a partition at any time.
//   - A commit is written in one transaction with a check of the claim, or with the generation for which the coordinator refuses it, so who lost a partition cannot move its offset, however late
//     its request arrives. A commit covers processed records only, and says where to read next.
//   - At least once (AtLeastOnce): no record is skipped; after a crash or a rebalance, records that were not committed come again.
//   - At most once (AtMostOnce): no record comes twice; see [AtMostOnce] for what may be lost.
//   - Out of range (retention passed the group, or the log lost its end): the position goes to the start or end of the log as
//     [Config.Reset] says, and what is already in the queue is still handed over.
//
// A known gap, Kafka's own (KAFKA-12261): with [Largest], a partition that is new, or that nobody has committed an offset for, is read from its end as of
// the moment when its owner gets to it. What was produced before is not read.
package consumer
