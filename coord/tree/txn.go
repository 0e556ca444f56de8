package tree

import (
	"encoding/binary"
	"errors"
	"fmt"

	"faultline/coord/jute"
)

// Txn is a decided transaction: what Apply needs and nothing it could choose.
type Txn struct {
	Zxid     int64 // its number: one more than the transaction before
	Time     int64 // ms since 1970 by the deciding server's wall clock
	Session  int64 // who asked; for the session kinds the session itself
	Kind     TxnKind
	Timeout  int64                  // TxnOpen: ms
	Password [jute.PasswordLen]byte // TxnOpen
	Changes  []Change               // TxnChange: in order, all or none
}

// TxnKind is what a transaction does.
type TxnKind uint8

const (
	TxnChange TxnKind = 1 + iota // changes nodes
	TxnOpen                      // opens a session; its id is the transaction's zxid
	TxnClose                     // the client ends its session; its ephemeral nodes go
	TxnExpire                    // a server ends a silent session; its ephemeral nodes go
)

// Change is one node's part of a transaction.
type Change struct {
	Kind    ChangeKind
	Path    string // Create: with the number of a sequential node
	Data    string // Create, Set
	Owner   int64  // Create: the session of an ephemeral node, 0: persistent
	Version int32  // Set: the version after it
}

// ChangeKind is what happens to a node.
type ChangeKind uint8

const (
	Create ChangeKind = 1 + iota
	Set
	Delete
)

// ErrCorrupt is wrapped by errors about bytes that are no transaction or snapshot, and about a transaction that does not fit the tree.
var ErrCorrupt = errors.New("corrupt")

// Append encodes the transaction.
func (x *Txn) Append(b []byte) []byte {
	b = append(b, byte(x.Kind))
	b = binary.AppendVarint(b, x.Zxid)
	b = binary.AppendVarint(b, x.Time)
	b = binary.AppendVarint(b, x.Session)
	switch x.Kind {
	case TxnOpen:
		b = binary.AppendVarint(b, x.Timeout)
		b = append(b, x.Password[:]...)
	case TxnChange:
		b = binary.AppendUvarint(b, uint64(len(x.Changes)))
		for i := range x.Changes {
			c := &x.Changes[i]
			b = append(b, byte(c.Kind))
			b = appendText(b, c.Path)
			switch c.Kind {
			case Create:
				b = appendText(b, c.Data)
				b = binary.AppendVarint(b, c.Owner)
			case Set:
				b = appendText(b, c.Data)
				b = binary.AppendVarint(b, int64(c.Version))
			}
		}
	}
	return b
}

// Decode reads a transaction that takes all of b. It copies what it keeps.
func (x *Txn) Decode(b []byte) error {
	d := decoder{rest: b}
	*x = Txn{Kind: TxnKind(d.byte()), Zxid: d.varint(), Time: d.varint(), Session: d.varint()}
	switch x.Kind {
	case TxnOpen:
		x.Timeout = d.varint()
		copy(x.Password[:], d.bytes(len(x.Password)))
	case TxnClose, TxnExpire:
	case TxnChange:
		n := d.count(2)
		x.Changes = make([]Change, 0, n)
		for range n {
			c := Change{Kind: ChangeKind(d.byte()), Path: d.text()}
			switch c.Kind {
			case Create:
				c.Data, c.Owner = d.text(), d.varint()
			case Set:
				c.Data, c.Version = d.text(), int32(d.varint())
			case Delete:
			default:
				d.fail("kind of change")
			}
			x.Changes = append(x.Changes, c)
		}
	default:
		d.fail("kind of transaction")
	}
	if err := d.end(); err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	return nil
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
		d.err = fmt.Errorf("%w: bad %s, %d bytes before the end", ErrCorrupt, what, len(d.rest))
	}
	d.rest = nil
}

func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.fail("length")
		return nil
	}
	v := d.rest[:n]
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

// count reads the number of elements that take at least size bytes each.
func (d *decoder) count(size int) int {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > uint64(len(d.rest)/size) {
		d.fail("count")
		return 0
	}
	d.rest = d.rest[n:]
	return int(v)
}

func (d *decoder) text() string { return string(d.bytes(d.count(1))) }

func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("end")
	}
	return d.err
}
