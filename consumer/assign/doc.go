// Package assign divides the partitions of the subscribed topics among the members of a coordinator group, as Kafka's consumers do: the
// member that the coordinator made leader of a generation calls [Assignor.Assign] and sends the [Plan] with its SyncGroup.
//
// There are four assignors: [Range], [RoundRobin], [Sticky] (KIP-54) and [CooperativeSticky] (KIP-429). They are pure functions: the same members
// and partition counts make the same plan, in whatever order they come. Racks are not looked at.
//
// Members talk about themselves in Kafka's consumer protocol ("consumer" is the [ProtocolType]): [Assignor.Metadata] and [Assignor.Parse] for what goes into
// JoinGroup, [Plan.Encode] and [ParseAssignment] for what goes into SyncGroup.
//
// The registry group of the paper does not use this package: there every member computes its own part.
package assign
