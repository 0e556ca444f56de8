package campaign

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// hugeBytes is how much of the heap gets huge pages: more than the worlds of a campaign take.
const hugeBytes = 1 << 30

var hugeOnce sync.Once

// HugePages has the kernel back the memory into which this process's heap grows next by pages of 2 MiB instead of 4 KiB. A world touches small things all over its memory, and of small pages the processor finds only a few
// at once. Go asks for none by itself, and many systems give huge ones only to who asks (/sys/kernel/mm/transparent_hugepage/enabled: madvise). It changes how long a run takes, and nothing else.
func HugePages() {
	hugeOnce.Do(func() {
		memory := make([]byte, hugeBytes)            // addresses: nobody touches it
		_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // a kernel without them goes on as before
		runtime.GC()                                 // so that the heap has the addresses
	})
}
