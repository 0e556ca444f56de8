package disk

import (
	"fmt"

	"faultline/sim/machine"
)

// A process writes two files and syncs one; then the power fails.
func Example() {
	w := newWorld(1) // the simulated computer, in real life
	m := New("broker-1", Config{})
	d := m.Attach(w, w.wall)

	for _, name := range []string{"synced", "not"} {
		f, _ := d.Open(name, machine.Create)
		_, _ = machine.WriteFull(f, []byte("some bytes"), 0)
		if name == "synced" {
			_ = f.Sync()
		}
	}
	_ = d.SyncDir("")
	for _, v := range m.Files() { // what an oracle sees
		fmt.Println(v.Path, v.Size, "bytes,", v.Synced, "of them promised; its name too:", v.EntryDurable())
	}

	m.PowerLoss(w.Stream)
	d = m.Attach(w, w.wall)
	info, _ := d.Stat("synced")
	fmt.Println(info.Name, info.Size)
	// Output:
	// not 10 bytes, 0 of them promised; its name too: true
	// synced 10 bytes, 10 of them promised; its name too: true
	// synced 10
}
