package campaign

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// hugePieces of hugePiece bytes are how much of the heap gets huge pages: more than the worlds of a campaign take. Pieces, because the runtime clears what it takes unless all of it is new, and so touches it.
const (
	hugePieces = 64
	hugePiece  = 16 << 20
)

var hugeOnce sync.Once

// HugePages has the kernel back the memory into which this process's heap grows next by pages of 2 MiB instead of 4 KiB. A world touches small things all over its memory, and of small pages the processor finds only a few
// at once. Go asks for none by itself, and many systems give huge ones only to who asks (/sys/kernel/mm/transparent_hugepage/enabled: madvise). It changes how long a run takes, and nothing else.
func HugePages() {
	hugeOnce.Do(func() {
		var pieces [hugePieces][]byte // addresses: nobody touches them
		for i := range pieces {
			pieces[i] = make([]byte, hugePiece)
			_ = unix.Madvise(pieces[i], unix.MADV_HUGEPAGE) // a kernel without them goes on as before
		}
		clear(pieces[:]) // all of them were there until now
		runtime.GC()     // so that the heap has the addresses
	})
}
