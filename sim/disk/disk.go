// Package disk is the virtual disk of a simulated machine: the platter, the page cache above it and the device's timing.
//
// # Fault model
//
// A [Model] outlives the processes that use it. It holds two states of everything: the cached one, which every
// operation reads and changes, and the durable one, which is promised to survive. All that follows is exact: a
// test holds the set of disks that may exist after a power loss to this page.
//
// Geometry. A file is a row of pages of 4096 bytes; a page is 8 sectors of 512 bytes. A sector never tears.
//
// What makes durable.
//   - Sync takes the file's pages and length as they are when it is called ("captures" them) and makes exactly these durable when the
//     device is done, at the end of its wait. What is written during the wait is not covered.
//   - SyncDir does the same for the changes of one directory's entries: made, removed, renamed. Sync of a file says
//     nothing about its name, SyncDir nothing about the bytes. A rename is one change, on both names at one
//     stroke, and durable as a whole with either directory.
//   - Nothing else makes anything durable. Write-back by the kernel costs device time but promises nothing. (One
//     exception bounds memory: of more than 4096 pending entry changes the oldest half becomes durable.)
//
// Process crash. The page cache survives whole, and so does every entry. Open handles are gone. A Sync that was waiting promises nothing;
// its pages are unsynced again. A Pwrite that was waiting has landed: all of it or, sometimes, when it
// spans pages, a prefix that ends at a page boundary. Readers can see such a prefix too.
//
// Power loss. Every change that is not durable survives or not. Drawn independently of each other:
//   - each pending change of a directory's entries (a create, a remove, a rename as a whole). Those that survive are
//     applied in the order in which they were made. A file or directory that is then in no surviving directory is gone.
//   - for each file whether an unsynced truncation below its durable length happened (it covers the smallest length since that
//     state). If not: the length is the durable one, pages that reach beyond the cut are as durable, pages below it are drawn as follows.
//   - each unsynced page: the durable version, the newest one, or one that a Sync in flight has captured;
//     or torn: each of its sectors from the durable or from the other version. Bytes that the truncation cut never come back with a surviving truncation.
//   - each file's length, when it grew: the old (durable or truncated) length, the newest, or any multiple of 512 between. Pages
//     inside the length that never reached the device read as zeros.
//   - each file's modification time: that of the last Sync or the newest.
//
// Not modelled: page versions, lengths and names that were overwritten before any Sync captured them (except names, of which each
// pending change counts), the device reordering what it has acknowledged, and hard links.
//
// After a power loss what is there is durable, and the cache is cold. [Model.PowerLoss] draws one of the disks that may be left;
// [Model.Outcomes] lists all of them, by the same code: testdata/outcomes shows them for many small scripts.
//
// Failed Sync. Its pages count as clean: they stay readable in the cache, but no later Sync writes them unless they are
// written again. They are lost or not at the next power loss, drawn like unsynced pages, or when the cache
// drops them. The length is metadata: a later Sync that succeeds makes it durable, and then lost pages inside read as zeros or old bytes.
//
// # Injected faults
//
// They lie in an overlay ([Fault]) apart from the true bytes: healing one shows the truth again, and leaving one out changes no decision about the
// others. Every fault in force judges an operation once, when it begins, by draws of its own; what was decided then stands.
//   - Error (EIO): a read moves nothing, a write writes nothing, a Sync is the failed Sync above; an operation on entries (open, create, mkdir,
//     remove, rename, readdir, stat, syncdir) changes nothing, and what was pending stays so.
//   - Short: a read or write moves at least one byte and fewer than asked.
//   - Slow: an operation takes longer.
//   - Stall: an operation waits until the fault is healed, without an event meanwhile. A Sync waits after its capture, others before any effect. A stall that is
//     injected while an operation is held holds it too. A process that dies gives its operations up.
//   - Full (ENOSPC): so many bytes are free, by 4096 for each page that has bytes; names cost nothing, and what has its page can be written. A write takes what
//     fits and returns a short count, or machine.ErrNoSpace when nothing fits. [Config].Capacity is the same for ever.
//   - Rot: sectors that are durable when it is injected read with one bit flipped.
//   - Misdirect: the first page of a write seems to have gone to another page of the file: in its own place sectors read as before, in the other
//     as what was meant. What rot and misdirected writes changed reads so, from the cache too, until it is written again or cut off.
//   - Lie: Sync and SyncDir take their time, report success and make nothing durable. At a power loss their pages and entries are drawn like any that are not synced. The
//     next honest Sync of the file, or SyncDir of the directory, covers them.
//
// [Model.Wipe] is a disk replaced by a new one. [Active] says what a fault has hit and what it did to the latest operation.
//
// # Order of effect and wait
//
// An operation that changes the cached state does so first and then waits for its cost: a kill during the wait finds
// the change made and nobody told. A read waits first and returns the bytes as they are then. Sync captures, waits, makes durable.
//
// # Timing
//
// One device with one queue: it is busy until some time, and a transfer starts then. A transfer costs a seek, unless it continues where the
// last one ended, plus bytes by bandwidth. Sync waits for its transfers and then for the device's flush; flushes overlap. Reads of
// cached extents (64 KiB) cost the call only; others are loaded with read-ahead. The cache drops
// the extents that were used longest ago. Unsynced pages beyond a background limit are written back, oldest first, and writers are
// held back when the device lags by more than the dirty limit allows. See [Config].
package disk

import (
	"math/rand/v2"
	"time"

	"faultline/sim/machine"
)

// World is what a disk asks of the world that it lives in. When the process of an attached view is dead, none of the
// methods returns: the task unwinds. Every operation asks Now before it touches any state.
type World interface {
	// Now is the world's time.
	Now() time.Duration
	// Wait blocks the calling task until that world time; it is a scheduling point also when that is past.
	Wait(until time.Duration)
	// Waker returns what wakes the calling task from Park; called at any other time it does nothing.
	Waker() (wake func())
	// Park blocks the calling task until it is woken, without a timer.
	Park()
	// Record folds an operation into the run's hash and trace. op is a constant; a and b are usually offset and count, or size; a negative
	// b is an error number.
	Record(op, file string, a, b int64)
	// Stream is the keyed random stream of (seed, purpose, entity). The entity starts with the disk's name.
	Stream(purpose, entity string) *rand.Rand
}

// Model is one disk. It is not safe for concurrent use: a world runs one task at a time.
type Model struct {
	name string
	cfg  Config
	root *node

	epoch   int // counts incarnations; a handle of an older one is void
	handles []*file
	births  [256]int // how many files were made under the paths of a hash: keys their streams
	losses  int      // power losses so far: keys their streams

	named      int64     // changes of the cached tree so far
	pending    []*change // entry changes that are not durable, oldest first
	pendingSeq int64

	free    []*page  // recycled pages
	slab    int      // pages that were allocated last: more as the disk fills
	slabs   [][]page // the full ones
	flights []*flight
	used    int64 // pages that hold bytes, of files that are linked or open

	dev        device
	lru        extent // ring: next is the most recently used extent, prev the least
	resident   int64  // extents in the ring
	dirtyPages int64  // unsynced pages that write-back has not written
	queue      []*node
	queueLimit int   // length at which enqueue looks for files that have nothing to write
	world      World // of the last view attached, for draws about cached pages

	faults   []*active
	faultSeq int64 // faults injected so far
	leftOut  map[string]bool
	patched  []*node

	observe func(Event)
}

// New returns an empty disk. The name is usually that of its machine and keys its random streams.
func New(name string, cfg Config) *Model {
	m := &Model{name: name, cfg: cfg.withDefaults(), leftOut: map[string]bool{}}
	m.wipe()
	return m
}

// Name is the name the disk was made with.
func (m *Model) Name() string { return m.name }

// Attach returns the view of one process incarnation. wallClock dates files. When the process ends, in whatever
// way, call ProcessCrash or PowerLoss before the next Attach.
func (m *Model) Attach(w World, wallClock func() time.Time) machine.Disk {
	m.world = w
	return &view{m: m, w: w, clock: wallClock, epoch: m.epoch}
}

// ProcessCrash ends the incarnation: open handles are gone, Syncs in flight promise nothing, everything cached stays.
func (m *Model) ProcessCrash() {
	m.notify(Event{Kind: ProcessCrashed})
	m.epoch++
	for _, f := range m.handles {
		for _, fl := range f.n.flights {
			m.cancel(fl)
		}
		f.n.flights = f.n.flights[:0]
	}
	for _, f := range m.handles {
		f.open = false
		m.closed(f.n)
	}
	m.handles = m.handles[:0]
	m.forgetHeld()
}

// forgetHeld forgets the stalled operations of a process that has ended.
func (m *Model) forgetHeld() {
	for _, a := range m.faults {
		a.held = nil
	}
}

// Wipe empties the disk, as a new one in its place would be. Fault injections stay. Call it while no process is attached.
func (m *Model) Wipe() {
	m.notify(Event{Kind: Wiped})
	m.epoch++
	m.wipe()
}

func (m *Model) wipe() {
	m.named++
	m.root = &node{dir: true, entries: map[string]*node{}, durable: map[string]*node{}}
	m.handles, m.pending, m.patched, m.queue = nil, nil, nil, nil
	m.used, m.dirtyPages = 0, 0
	m.dropCache()
	m.dev = device{watched: m.dev.watched, works: m.dev.works}
	m.forgetHeld()
}
