package tree

import (
	"encoding/binary"
	"errors"
	"fmt"

	"faultline/coord/jute"
	"faultline/coord/packed"
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
			b = packed.AppendText(b, c.Path)
			switch c.Kind {
			case Create:
				b = packed.AppendText(b, c.Data)
				b = binary.AppendVarint(b, c.Owner)
			case Set:
				b = packed.AppendText(b, c.Data)
				b = binary.AppendVarint(b, int64(c.Version))
			}
		}
	}
	return b
}

// Decode reads a transaction that takes all of b. It copies what it keeps.
func (x *Txn) Decode(b []byte) error {
	d := packed.Reader{Rest: b, Wrap: ErrCorrupt}
	*x = Txn{Kind: TxnKind(d.Byte()), Zxid: d.Int(), Time: d.Int(), Session: d.Int()}
	switch x.Kind {
	case TxnOpen:
		x.Timeout = d.Int()
		copy(x.Password[:], d.Bytes(len(x.Password)))
	case TxnClose, TxnExpire:
	case TxnChange:
		n := d.Count(2)
		x.Changes = make([]Change, 0, n)
		for range n {
			c := Change{Kind: ChangeKind(d.Byte()), Path: string(d.Text())}
			switch c.Kind {
			case Create:
				c.Data, c.Owner = string(d.Text()), d.Int()
			case Set:
				c.Data, c.Version = string(d.Text()), int32(d.Int())
			case Delete:
			default:
				d.Fail("kind of change")
			}
			x.Changes = append(x.Changes, c)
		}
	default:
		d.Fail("kind of transaction")
	}
	if err := d.End(); err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	return nil
}
