// Package group is Kafka's classic group coordinator as plain data: members, generations and committed offsets of the groups whose records are in one
// partition of the offsets topic. It does no I/O and reads no clock.
//
// A [Coordinator] belongs to one leadership of that partition. Who leads it makes one with [New], feeds it the partition's records from the start to the end
// ([Coordinator.Load], [Coordinator.Loaded]), then hands it requests, and calls [Coordinator.Unload] when the leadership is over. The next leadership gets a new one: nothing
// of an older state can be left in it.
//
// What a call leads to is listed by [Coordinator.Effects]:
//
//   - a reply to a request, named by the [Ref] that came with it: often of an earlier one that waited;
//   - records to append to the partition, named by a [Token]. When they are below the high watermark, or cannot get there, [Coordinator.Appended] says so, and only then
//     what depends on them takes effect and is answered;
//   - a change of a group's state, for traces.
//
// Time is an argument: timers are asked for by [Coordinator.Next] and fired by [Coordinator.Tick].
//
// Where a rule of the protocol is less than obvious its comment names the proposal (KIP) or the public report (KAFKA-n) that taught it.
package group
