package consumer

import (
	"sync/atomic"

	"faultline/broker/wire"
)

// frame is the memory of an answer to a fetch, which its chunks refer to. When the application has asked for what comes after the last record of each, no record in it is valid any more (see Message), and
// it goes back to where other answers get theirs from: a reader of large answers would have the collector run for every few of them. A chunk that is dropped before its end keeps it from that: the
// application may have a record of it in its hands.
type frame struct {
	spare  *wire.Spare
	bytes  []byte
	unread atomic.Int32 // chunks in it
}

// read says that a chunk was read to its end.
func (f *frame) read() {
	if f.unread.Add(-1) == 0 {
		f.spare.Keep(f.bytes, nil)
	}
}
