package replica

import (
	"encoding/binary"

	"faultline/coord/jute"
	"faultline/coord/packed"
	"faultline/coord/tree"
)

// Kind is what a command asks.
type Kind uint8

const (
	Open   Kind = 1 + iota // a new session, which gets a seat
	Attach                 // a new seat for a session whose client knows the password
	Change                 // the steps of a session's request, all or none
	Close                  // the session ends, as its client asked
)

// Command is a request of a client, as the server that it is connected to passes it on.
type Command struct {
	Kind     Kind
	Session  int64                  // all but Open
	Seat     int64                  // Change, Close: where the client asked
	Timeout  int64                  // Open: ms
	Password [jute.PasswordLen]byte // Open, Attach
	Steps    []tree.Step            // Change
}

// Batch is some commands of one server that follow each other.
type Batch struct {
	Origin      uint64 // the server
	Incarnation uint64 // which of its lives
	First       uint64 // number of the first command in this life, from 1
	Count       int
	Commands    []byte // encoded
}

// Append encodes the command.
func (c *Command) Append(b []byte) []byte {
	b = append(b, byte(c.Kind))
	switch c.Kind {
	case Open:
		b = binary.AppendVarint(b, c.Timeout)
		return append(b, c.Password[:]...)
	case Attach:
		b = binary.AppendVarint(b, c.Session)
		return append(b, c.Password[:]...)
	}
	b = binary.AppendVarint(b, c.Session)
	b = binary.AppendVarint(b, c.Seat)
	if c.Kind != Change {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(c.Steps)))
	for i := range c.Steps {
		s := &c.Steps[i]
		b = binary.AppendVarint(b, int64(s.Op))
		b = packed.AppendText(b, s.Path)
		b = packed.AppendText(b, s.Data)
		b = binary.AppendVarint(b, int64(s.Flags))
		b = binary.AppendVarint(b, int64(s.Version))
	}
	return b
}

// Decode reads a command and returns the rest. It copies what it keeps; Steps' memory is used again.
func (c *Command) Decode(b []byte) (rest []byte, err error) {
	d := packed.Reader{Rest: b, Wrap: tree.ErrCorrupt}
	*c = Command{Kind: Kind(d.Byte()), Steps: c.Steps[:0]}
	switch c.Kind {
	case Open:
		c.Timeout = d.Int()
		copy(c.Password[:], d.Bytes(len(c.Password)))
	case Attach:
		c.Session = d.Int()
		copy(c.Password[:], d.Bytes(len(c.Password)))
	case Change, Close:
		c.Session, c.Seat = d.Int(), d.Int()
		if c.Kind == Change {
			for range d.Count(5) {
				c.Steps = append(c.Steps, tree.Step{Op: jute.OpCode(d.Int()), Path: string(d.Text()), Data: string(d.Text()), Flags: int32(d.Int()), Version: int32(d.Int())})
			}
		}
	default:
		d.Fail("kind of command")
	}
	return d.Rest, d.Err
}

// An entry of the log is either batches of commands under one time, or the end of sessions that were silent for too long. An empty entry says nothing.
const (
	entryBatches = 'B'
	entryExpire  = 'X'
)

// BeginEntry begins an entry of batches; now is ms since 1970 by the wall clock of the server that leads.
func BeginEntry(b []byte, now int64) []byte { return binary.AppendVarint(append(b, entryBatches), now) }

// Append adds a batch to an entry.
func (x *Batch) Append(b []byte) []byte {
	for _, v := range [...]uint64{x.Origin, x.Incarnation, x.First, uint64(x.Count), uint64(len(x.Commands))} {
		b = binary.AppendUvarint(b, v)
	}
	return append(b, x.Commands...)
}

// DecodeBatch reads a batch, whose Commands alias b, and returns the rest.
func DecodeBatch(b []byte) (x Batch, rest []byte, err error) {
	d := packed.Reader{Rest: b, Wrap: tree.ErrCorrupt}
	x = Batch{Origin: d.Uint(), Incarnation: d.Uint(), First: d.Uint()}
	n := d.Uint()
	x.Commands = d.Text()
	if x.First == 0 || n > uint64(len(x.Commands)) {
		d.Fail("batch")
	}
	x.Count = int(n)
	return x, d.Rest, d.Err
}

// ExpireEntry is an entry that ends sessions.
func ExpireEntry(now int64, sessions []int64) []byte {
	b := binary.AppendVarint([]byte{entryExpire}, now)
	b = binary.AppendUvarint(b, uint64(len(sessions)))
	for _, id := range sessions {
		b = binary.AppendVarint(b, id)
	}
	return b
}
