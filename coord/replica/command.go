package replica

import (
	"encoding/binary"
	"fmt"

	"faultline/coord/jute"
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
		b = appendText(b, s.Path)
		b = appendText(b, s.Data)
		b = binary.AppendVarint(b, int64(s.Flags))
		b = binary.AppendVarint(b, int64(s.Version))
	}
	return b
}

// Decode reads a command and returns the rest. It copies what it keeps; Steps' memory is used again.
func (c *Command) Decode(b []byte) (rest []byte, err error) {
	d := decoder{rest: b}
	*c = Command{Kind: Kind(d.byte()), Steps: c.Steps[:0]}
	switch c.Kind {
	case Open:
		c.Timeout = d.varint()
		copy(c.Password[:], d.bytes(len(c.Password)))
	case Attach:
		c.Session = d.varint()
		copy(c.Password[:], d.bytes(len(c.Password)))
	case Change, Close:
		c.Session, c.Seat = d.varint(), d.varint()
		if c.Kind == Change {
			for range d.count(5) {
				c.Steps = append(c.Steps, tree.Step{Op: jute.OpCode(d.varint()), Path: d.text(), Data: d.text(), Flags: int32(d.varint()), Version: int32(d.varint())})
			}
		}
	default:
		d.fail("kind of command")
	}
	return d.rest, d.err
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
	d := decoder{rest: b}
	x = Batch{Origin: d.uvarint(), Incarnation: d.uvarint(), First: d.uvarint()}
	n := d.uvarint()
	x.Commands = d.bytes(d.count(1))
	if x.First == 0 || n > uint64(len(x.Commands)) {
		d.fail("batch")
	}
	x.Count = int(n)
	return x, d.rest, d.err
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

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads from the front. The first error sticks.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: bad %s, %d bytes before the end", tree.ErrCorrupt, what, len(d.rest))
	}
	d.rest = nil
}

func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.fail("length")
		return nil
	}
	v := d.rest[:n:n]
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count reads the number of elements that take at least size bytes each.
func (d *decoder) count(size int) int {
	v := d.uvarint()
	if v > uint64(len(d.rest)/size) {
		d.fail("count")
		return 0
	}
	return int(v)
}

func (d *decoder) text() string { return string(d.bytes(d.count(1))) }
