package log_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/sim/host"
	"faultline/sim/machine"
)

// A log on real files: append, make durable, read back, open again.
func Example() {
	root, _ := os.MkdirTemp("", "log")
	defer os.RemoveAll(root)
	m, _ := host.New(host.Options{Root: filepath.Join(root, "machine")})
	defer m.Shutdown()

	l, err := log.Open(m, "data/visits-0", "visits", 0, log.Config{}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	var b record.Builder
	b.Reset(record.Zstd)
	b.Add(1_300_000_000_000, []byte("10.0.0.1"), []byte("/index"), nil)
	b.Add(1_300_000_000_250, []byte("10.0.0.2"), []byte("/about"), nil)
	batch, _ := b.Finish()

	a, _ := l.Append(batch, log.AppendOptions{})
	fmt.Println("appended", a.Base, "to", a.Next, "visible below", l.Visible())
	l.WaitVisible(a.Next, time.Minute)
	fmt.Println("visible below", l.Visible())

	span, _ := l.Read(0, 1<<20, l.Visible())
	p := make([]byte, span.Len)
	machine.ReadFull(span.File, p, span.Pos)
	span.Release()
	got, _, _ := record.Next(p)
	var it record.Iterator
	for it.Reset(got); it.Next(); {
		fmt.Printf("%d %s %s\n", it.Record.Offset, it.Record.Key, it.Record.Value)
	}
	offset, _, _ := l.OffsetForTime(1_300_000_000_001, l.Visible())
	fmt.Println("a moment later:", offset)

	clean := l.Close() == nil
	l, _ = log.Open(m, "data/visits-0", "visits", 0, log.Config{}, clean)
	fmt.Println("again up to", l.End())
	l.Close()
	// Output:
	// appended 0 to 2 visible below 0
	// visible below 2
	// 0 10.0.0.1 /index
	// 1 10.0.0.2 /about
	// a moment later: 1
	// again up to 2
}
