package group

import "github.com/twmb/franz-go/pkg/kmsg" // encoders and decoders of generated code: no goroutine, clock or randomness; no map but of unknown tags, which are not kept here

// Ref names a request. The caller chooses it; each request is answered by one effect that has its Ref.
type Ref uint64

// Token names an append.
type Token uint64

// Kind says what an effect is.
type Kind int8

const (
	Reply   Kind = iota // Ref and Response
	Append              // Token and Records
	Changed             // Change
	Came                // Change and Member: it is in the group from now on
	Went                // Change and Member: it is not any more
	Given               // Change, Member and Seats: what it owns from now on, in this generation
	Stored              // Change, Member and Seats: the offsets that count from now on. Without a member: as they were loaded
	Expired             // Change and Seats: the offsets that count no more, because nobody used them for the retention time
)

// Effect is one thing that a call leads to.
type Effect struct {
	Kind     Kind
	Ref      Ref
	Response kmsg.Response // its version is the request's
	Token    Token
	Records  []Record // of one batch: all of them last, or none
	Change   Change
	Member   string
	Seats    []Seat
}

// Seat is a partition as a group sees it.
type Seat struct {
	Topic     string
	ID        TopicID // of Stored and Expired
	Partition int32
	Offset    int64 // of Stored and Expired
}

// Change is a group's passing from one state to another.
type Change struct {
	Group      string
	From, To   State
	Generation int32 // after it
	Members    int   // after it
	Reason     string
}

// tell lists what became of a member.
func (g *group) tell(kind Kind, member string, generation int32, seats []Seat) {
	g.c.effects = append(g.c.effects, Effect{Kind: kind, Member: member, Seats: seats,
		Change: Change{Group: g.id, From: g.state, To: g.state, Generation: generation, Members: len(g.members)}})
}

// give tells what a member owns by its assignment.
func (g *group) give(m *member) {
	var seats []Seat
	a := kmsg.NewConsumerMemberAssignment()
	if g.protocolType == consumerType && len(m.assignment) > 0 && a.ReadFrom(m.assignment) == nil {
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				seats = append(seats, Seat{Topic: t.Topic, Partition: p})
			}
		}
	}
	g.tell(Given, m.id, g.generation, seats)
}

func (c *Coordinator) reply(ref Ref, r kmsg.Response) {
	c.effects = append(c.effects, Effect{Kind: Reply, Ref: ref, Response: r})
}

// appending is an append that was not confirmed yet.
type appending struct {
	token Token
	done  func(now Time, ok bool) // what follows, answers included
	// abandon answers the request that waits for it when the coordinator is unloaded. nil: no request waits.
	abandon func(code int16)
}

func (c *Coordinator) append(records []Record, done func(now Time, ok bool), abandon func(code int16)) {
	c.token++
	c.appending = append(c.appending, appending{c.token, done, abandon})
	c.effects = append(c.effects, Effect{Kind: Append, Token: c.token, Records: records})
}

// Effects lists what the calls since the last Effects lead to, in order. Appends must reach the log in this order. The slice is the caller's until the next Effects.
func (c *Coordinator) Effects() []Effect {
	e := c.effects
	c.effects, c.spare = c.spare[:0], c.effects
	return e
}

// Appended says what became of an append: ok when its records are below the high watermark, so that they survive this coordinator. Those that are ok are reported in the order
// of their tokens. When it is not ok the records may yet turn up in the log: whoever waits is told to try again, and the next coordinator goes by the log.
func (c *Coordinator) Appended(now Time, token Token, ok bool) {
	for i := range c.appending {
		if c.appending[i].token == token {
			done := c.appending[i].done
			c.appending = append(c.appending[:i], c.appending[i+1:]...)
			if done != nil {
				done(now, ok)
			}
			return
		}
	}
}
