package replica

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"faultline/coord/jute"
	"faultline/coord/packed"
	"faultline/coord/tree"
)

// State is the replicated state.
type State struct {
	Tree    *tree.Tree
	seats   map[int64]int64 // session -> its seat
	given   int64           // the last seat that was given
	streams map[uint64]stream

	txn     tree.Txn      // reused
	effects []tree.Effect // reused
	command Command       // reused
}

// stream is how far the commands of a server have come.
type stream struct {
	incarnation uint64
	seq         uint64 // of the last command that counted
}

// New is the state before the first entry.
func New() *State {
	return &State{Tree: tree.New(), seats: map[int64]int64{}, streams: map[uint64]stream{}}
}

// Outcome is what became of a command. It is valid until the next Apply.
type Outcome struct {
	// Origin, Incarnation, Seq say which command it was; Origin is 0 for the end of a silent session.
	Origin, Incarnation, Seq uint64

	Command *Command
	// Fenced: the session is gone or has another seat (Attach: it is gone, or the password is wrong). Nothing happened.
	Fenced bool
	// Refused is the step that could not be done, and Code why. Nothing happened.
	Refused int
	Code    jute.Code

	// Txn is the transaction, nil when nothing changed; Effects are what it did.
	Txn     *tree.Txn
	Effects []tree.Effect

	// Session and Seat are the session of the command and its seat from now on (0: ended); Open and Attach tell the Timeout too.
	Session, Seat int64
	Timeout       time.Duration
}

// Seat is where a session is served, 0: there is no such session.
func (s *State) Seat(session int64) int64 { return s.seats[session] }

// Seq is the number of the last command of a server's life that counted.
func (s *State) Seq(origin, incarnation uint64) uint64 {
	if x := s.streams[origin]; x.incarnation == incarnation {
		return x.seq
	}
	return 0
}

// Apply works an entry of the log off and shows each command that counts, in order. own, which may be nil, knows commands that need not be decoded: if it
// knows one it knows all that follow in the batch. An error wraps tree.ErrCorrupt and spoils the state.
func (s *State) Apply(entry []byte, own func(origin, incarnation, seq uint64) *Command, show func(*Outcome) error) error {
	if len(entry) == 0 {
		return nil
	}
	d := packed.Reader{Rest: entry[1:], Wrap: tree.ErrCorrupt}
	now := time.UnixMilli(d.Int())
	switch entry[0] {
	case entryBatches:
		return Batches(entry, func(b *Batch) error { return s.batch(now, b, own, show) })
	case entryExpire:
		for range d.Count(1) {
			if err := s.expire(now, d.Int(), show); err != nil {
				return err
			}
		}
		_ = d.End()
	default:
		d.Fail("kind of entry")
	}
	if d.Err != nil {
		return fmt.Errorf("entry: %w", d.Err)
	}
	return nil
}

// Batches shows the batches of an entry, whose Commands alias it; none when it has others than batches. An error is show's, or wraps tree.ErrCorrupt.
func Batches(entry []byte, show func(*Batch) error) error {
	if len(entry) == 0 || entry[0] != entryBatches {
		return nil
	}
	d := packed.Reader{Rest: entry[1:], Wrap: tree.ErrCorrupt}
	d.Int() // when
	for d.Err == nil && len(d.Rest) > 0 {
		batch, rest, err := DecodeBatch(d.Rest)
		if err != nil {
			return fmt.Errorf("entry: %w", err)
		}
		if err := show(&batch); err != nil {
			return err
		}
		d.Rest = rest
	}
	if d.Err != nil {
		return fmt.Errorf("entry: %w", d.Err)
	}
	return nil
}

func (s *State) batch(now time.Time, b *Batch, own func(origin, incarnation, seq uint64) *Command, show func(*Outcome) error) error {
	at := s.streams[b.Origin]
	switch {
	case b.Incarnation < at.incarnation:
		return nil
	case b.Incarnation > at.incarnation:
		at = stream{incarnation: b.Incarnation}
	}
	if b.First > at.seq+1 {
		return nil // what is missing was lost; its sender sends all of it again
	}
	rest := b.Commands
	for i := range uint64(b.Count) {
		seq := b.First + i
		var c *Command
		if own != nil {
			c = own(b.Origin, b.Incarnation, seq)
		}
		if c == nil {
			c = &s.command
			var err error
			if rest, err = c.Decode(rest); err != nil {
				return fmt.Errorf("entry: command %d of server %d: %w", seq, b.Origin, err)
			}
		}
		if seq != at.seq+1 {
			continue
		}
		at.seq = seq
		s.streams[b.Origin] = at
		o := Outcome{Origin: b.Origin, Incarnation: b.Incarnation, Seq: seq, Command: c, Session: c.Session}
		if err := s.decide(now, c, &o); err != nil {
			return err
		}
		if err := show(&o); err != nil {
			return err
		}
	}
	return nil
}

// decide does what a command asks.
func (s *State) decide(now time.Time, c *Command, o *Outcome) error {
	switch c.Kind {
	case Open:
		s.txn = s.Tree.DecideOpen(now, time.Duration(c.Timeout)*time.Millisecond, c.Password)
		o.Session, o.Timeout = s.txn.Session, time.Duration(c.Timeout)*time.Millisecond
		if err := s.commit(o); err != nil {
			return err
		}
		s.sit(o)
	case Attach:
		timeout, password, ok := s.Tree.Session(c.Session)
		if o.Fenced = !ok || password != c.Password; o.Fenced {
			return nil
		}
		o.Timeout = timeout
		s.sit(o)
	default:
		o.Seat = s.seats[c.Session]
		if o.Fenced = o.Seat == 0 || o.Seat != c.Seat; o.Fenced {
			return nil
		}
		if c.Kind == Close {
			s.txn, _ = s.Tree.DecideClose(now, c.Session, tree.TxnClose)
			return s.end(o)
		}
		if o.Refused, o.Code = s.Tree.Decide(now, c.Session, c.Steps, &s.txn); o.Code == jute.OK && len(s.txn.Changes) > 0 {
			return s.commit(o)
		}
	}
	return nil
}

// sit gives the session a new seat.
func (s *State) sit(o *Outcome) {
	s.given++
	s.seats[o.Session], o.Seat = s.given, s.given
}

// expire ends a silent session, unless it ended otherwise.
func (s *State) expire(now time.Time, session int64, show func(*Outcome) error) error {
	txn, ok := s.Tree.DecideClose(now, session, tree.TxnExpire)
	if !ok {
		return nil
	}
	s.txn = txn
	o := Outcome{Session: session}
	if err := s.end(&o); err != nil {
		return err
	}
	return show(&o)
}

func (s *State) end(o *Outcome) error {
	o.Seat = 0
	delete(s.seats, o.Session)
	return s.commit(o)
}

func (s *State) commit(o *Outcome) (err error) {
	s.effects, err = s.Tree.Apply(&s.txn, s.effects[:0])
	o.Txn, o.Effects = &s.txn, s.effects
	return err
}

// Append encodes the state. Equal states give equal bytes.
func (s *State) Append(b []byte) []byte {
	b = binary.AppendVarint(b, s.given)
	origins := make([]uint64, 0, len(s.streams))
	// order: sorted below
	for id := range s.streams {
		origins = append(origins, id)
	}
	slices.Sort(origins)
	b = binary.AppendUvarint(b, uint64(len(origins)))
	for _, id := range origins {
		b = binary.AppendUvarint(b, id)
		b = binary.AppendUvarint(b, s.streams[id].incarnation)
		b = binary.AppendUvarint(b, s.streams[id].seq)
	}
	ids := s.Tree.Sessions()
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = binary.AppendVarint(b, id)
		b = binary.AppendVarint(b, s.seats[id])
	}
	return s.Tree.Append(b)
}

// Decode reads a state that takes all of b. Errors wrap tree.ErrCorrupt.
func Decode(b []byte) (*State, error) {
	s := New()
	d := packed.Reader{Rest: b, Wrap: tree.ErrCorrupt}
	s.given = d.Int()
	for range d.Count(3) {
		id := d.Uint()
		s.streams[id] = stream{incarnation: d.Uint(), seq: d.Uint()}
	}
	for range d.Count(2) {
		id := d.Int()
		s.seats[id] = d.Int()
	}
	if d.Err != nil {
		return nil, fmt.Errorf("state: %w", d.Err)
	}
	var err error
	if s.Tree, err = tree.Decode(d.Rest); err != nil {
		return nil, err
	}
	ids := s.Tree.Sessions()
	if len(ids) != len(s.seats) {
		return nil, fmt.Errorf("state: %w: %d sessions have %d seats", tree.ErrCorrupt, len(ids), len(s.seats))
	}
	for _, id := range ids {
		if seat := s.seats[id]; seat <= 0 || seat > s.given {
			return nil, fmt.Errorf("state: %w: session %#x has no seat", tree.ErrCorrupt, id)
		}
	}
	return s, nil
}
