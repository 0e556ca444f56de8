// Package member is a consumer's side of a coordinator group (Kafka's classic protocol) as plain data: member id, generation, what it owns and what it has to do
// next. It does no I/O and reads no clock.
//
// One task asks [Member.Next] what to do, does it, and says how it went; another sends heartbeats as [Member.HeartbeatDue] asks for. What one of them learns may change
// what the other has to do next, so every call is made under one lock and none waits.
//
// # Alive
//
// A member may act as owner only as long as the coordinator surely counts it in: until [Member.Lease]. That is nine tenths of its session, or of its rebalance time-out if that is
// shorter, after it SENT the last request whose answer proves that it was a member of the current generation when it arrived. An answer that says that a rebalance is under way
// proves nothing of the kind: the time until the group goes on without this member runs already. Who got another proof only after the lease had run out takes up again what it owns
// if the coordinator says that the generation in which it was given is still the one; across a join or a sync it gives up what it had.
package member
