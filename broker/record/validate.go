package record

import (
	"encoding/binary"
	"fmt"
)

// Validator checks batches before they are appended to a log. The zero value is ready. It keeps memory for decompression, so keep it; one task at a time.
type Validator struct {
	Keyed bool // every record must have a key, as in a log that is compacted

	it Iterator
}

// Inflated is how many bytes the batch that was checked last was decompressed to, 0: it was not compressed.
func (v *Validator) Inflated() int64 { return v.it.Inflated() }

// Validate checks one batch from a client as a broker must before it writes it: the CRC, that it has records, that their number, offsets and lengths are what
// the header says, and that it claims nothing that only a broker may (control records, append time). Compressed records are inflated and checked the same way.
//
// A header whose MaxTimestamp is not that of its records is put right, with a new CRC, since time lookups and retention go by it: some clients write it
// wrong.
//
// Errors: ErrCorrupt (CRC), ErrInvalid.
func (v *Validator) Validate(b *Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	switch {
	case b.Count == 0:
		return fmt.Errorf("%w: it has no records", ErrInvalid)
	case b.LastOffsetDelta != b.Count-1:
		return fmt.Errorf("%w: last offset delta %d with %d records", ErrInvalid, b.LastOffsetDelta, b.Count)
	case b.Control():
		return fmt.Errorf("%w: only a broker may write control records", ErrInvalid)
	case b.Attributes&attrHorizon != 0:
		return fmt.Errorf("%w: only a broker may say until when tombstones stay", ErrInvalid)
	case b.LogAppendTime():
		return fmt.Errorf("%w: only a broker may give the time of append", ErrInvalid)
	}
	latest := int64(-1)
	v.it.Reset(*b)
	for v.it.Next() {
		if v.Keyed && v.it.Record.Key == nil {
			return fmt.Errorf("%w: the record at offset delta %d has no key; a log that is compacted needs them", ErrInvalid, v.it.index-1)
		}
		latest = max(latest, v.it.Record.Timestamp)
	}
	if err := v.it.Err(); err != nil {
		return err
	}
	if b.MaxTimestamp != latest {
		b.MaxTimestamp = latest
		binary.BigEndian.PutUint64(b.Bytes[35:], uint64(latest))
		b.CRC = Sum(b.Bytes)
		binary.BigEndian.PutUint32(b.Bytes[17:], b.CRC)
	}
	return nil
}
