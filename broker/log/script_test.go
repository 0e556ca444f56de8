package log

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"faultline/broker/record"
	"faultline/sim/disk"
)

// TestScripts runs testdata/*: stories of one log, one verb a command. What was traced meanwhile comes after each answer.
//
//	open [clean] [segment=N] [age=D] [index=N] [flush-messages=N] [flush-interval=D] [retention=D] [retain-bytes=N]
//	     [compact] [ratio=F] [lag=D] [delete-retention=D] [keys=N]
//	append [batches=N] [records=N] [size=N] [time=MS] [codec=C] [cut=N (bytes left out at the end)] [flip=N (a byte to damage)]
//	put k=v ... [time=MS] [epoch=N] [producer=N seq=N] [codec=C] (a batch of keyed records; k= is a tombstone) | compact [below=N] | records
//	flush | request-flush | close | delete | retain | truncate to=N | state | check | files
//	read from=N [max=N] [below=N] | time ts=N
//	crash | power-loss | pass d=D | jump d=D (the wall clock)
//	fault id=S kind=K [ops=O] [path=G] [count=N] [bytes=N] | heal
//	damage file=S pos=N [set=B] | shorten file=S to=N | remove file=S
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, file string) {
		r := newRig(t, 1, Config{})
		defer r.w.Close()
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			r.t = t
			out := strings.TrimRight(runVerb(t, r, d), "\n")
			for _, e := range r.takeEvents() {
				out += fmt.Sprintf("\n  %s %d %d %d %s", e.Kind, e.A, e.B, e.C, e.Detail)
			}
			return strings.TrimLeft(out, "\n") + "\n"
		})
	})
}

func number(t *testing.T, d *datadriven.TestData, name string, def int) int {
	d.MaybeScanArgs(t, name, &def)
	return def
}

func duration(t *testing.T, d *datadriven.TestData, name string) time.Duration {
	var s string
	if !d.MaybeScanArgs(t, name, &s) {
		return 0
	}
	v, err := time.ParseDuration(s)
	require.NoError(t, err)
	return v
}

func say(err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return "ok"
}

func runVerb(t *testing.T, r *rig, d *datadriven.TestData) string {
	switch d.Cmd {
	case "append", "put", "compact", "records", "flush", "request-flush", "close", "delete", "retain", "truncate", "state", "read", "time":
		if r.log == nil {
			return "no log is open"
		}
	}
	switch d.Cmd {
	case "open":
		r.cfg = Config{
			SegmentBytes: int64(number(t, d, "segment", 0)), SegmentAge: duration(t, d, "age"), IndexInterval: number(t, d, "index", 0),
			FlushMessages: int64(number(t, d, "flush-messages", 0)), FlushInterval: duration(t, d, "flush-interval"),
			RetentionTime: duration(t, d, "retention"), RetentionBytes: int64(number(t, d, "retain-bytes", 0)),
			Compact: d.HasArg("compact"), CompactLag: duration(t, d, "lag"), DeleteRetention: duration(t, d, "delete-retention"), CompactKeys: number(t, d, "keys", 0),
		}
		if d.HasArg("ratio") {
			var s string
			d.ScanArgs(t, "ratio", &s)
			_, err := fmt.Sscanf(s, "%g", &r.cfg.CompactRatio)
			require.NoError(t, err)
		}
		return say(r.open(d.HasArg("clean")))
	case "append":
		codec := record.None
		if d.HasArg("codec") {
			var s string
			d.ScanArgs(t, "codec", &s)
			codec, _ = record.ParseCodec(s)
		}
		var p []byte
		for range number(t, d, "batches", 1) {
			p = append(p, r.batch(number(t, d, "records", 1), number(t, d, "size", 10), int64(number(t, d, "time", 1000)), codec)...)
		}
		p = p[:len(p)-number(t, d, "cut", 0)]
		if d.HasArg("flip") {
			p[number(t, d, "flip", 0)] ^= 1
		}
		a, err := r.append(p)
		if err != nil {
			return say(err)
		}
		return fmt.Sprintf("offsets %d to %d, %d records, %d bytes, newest %d", a.Base, a.Next-1, a.Records, len(p), a.MaxTimestamp)
	case "put":
		p := r.put(t, d)
		a, err := r.append(p)
		if err != nil {
			return say(err)
		}
		return fmt.Sprintf("offsets %d to %d, %d bytes", a.Base, a.Next-1, len(p))
	case "compact":
		return say(r.do(func() error { return r.log.Compact(int64(number(t, d, "below", math.MaxInt64))) }))
	case "records":
		return r.records()
	case "flush":
		return say(r.do(func() error { return r.log.Flush() }))
	case "request-flush":
		return say(r.do(func() error { r.log.RequestFlush(); return nil }))
	case "close":
		return say(r.do(func() error { return r.log.Close() }))
	case "delete":
		return say(r.do(func() error { return r.log.Delete() }))
	case "retain":
		return say(r.do(func() error { return r.log.Retain(math.MaxInt64) }))
	case "truncate":
		return say(r.do(func() error { return r.log.Truncate(int64(number(t, d, "to", 0)), 0) }))
	case "state":
		s := r.state()
		return fmt.Sprintf("start %d visible %d end %d, %s", s.Start, s.Visible, s.End, say(s.Err))
	case "check":
		report, err := CheckDir(r.files())
		var segments []string
		for _, base := range report.Segments {
			n := 0
			for _, b := range report.Batches {
				if b.Segment == base {
					n++
				}
			}
			segments = append(segments, fmt.Sprintf("%d (%d batches)", base, n))
		}
		return fmt.Sprintf("%d to %d in segments %s, recovery point %d, %s", report.Start, report.End, strings.Join(segments, ", "), report.Recovery, say(err))
	case "files":
		var b strings.Builder
		for _, f := range r.files() {
			fmt.Fprintf(&b, "%s %d\n", f.Name, f.Size)
		}
		return b.String()
	case "read":
		p, span, err := r.read(int64(number(t, d, "from", 0)), number(t, d, "max", 1<<20), int64(number(t, d, "below", 1<<30)))
		if err != nil {
			return say(err)
		}
		if len(p) == 0 {
			return "nothing"
		}
		n := 0
		for rest := p; len(rest) > 0; n++ {
			var b record.Batch
			b, rest, err = record.Next(rest)
			require.NoError(t, err)
			require.NoError(t, b.Check())
		}
		return fmt.Sprintf("offsets %d to %d: %d batches, %d bytes at %d of %s", span.Base, span.Next-1, n, span.Len, span.Pos, strings.TrimPrefix(spanName(&span, r), dir+"/"))
	case "time":
		var offset, stamp int64
		err := r.do(func() (err error) {
			offset, stamp, err = r.log.OffsetForTime(int64(number(t, d, "ts", 0)), r.log.Visible())
			return err
		})
		return fmt.Sprintf("offset %d, timestamp %d, %s", offset, stamp, say(err))
	case "crash":
		r.crash()
	case "power-loss":
		r.powerLoss()
	case "pass":
		r.pass(duration(t, d, "d"))
	case "jump":
		r.c.JumpClock(duration(t, d, "d"))
	case "fault":
		f := disk.Fault{Count: number(t, d, "count", 0), Bytes: int64(number(t, d, "bytes", 0))}
		var kind, ops string
		d.ScanArgs(t, "id", &f.ID)
		d.ScanArgs(t, "kind", &kind)
		d.MaybeScanArgs(t, "path", &f.Path)
		require.NoError(t, f.Kind.UnmarshalText([]byte(kind)))
		if d.MaybeScanArgs(t, "ops", &ops) {
			require.NoError(t, f.Ops.UnmarshalText([]byte(ops)))
		}
		r.inject(f)
	case "heal":
		r.c.Disk().HealAll()
	case "damage", "shorten", "remove":
		var name string
		d.ScanArgs(t, "file", &name)
		return say(r.do(func() error {
			if d.Cmd == "remove" {
				return r.m.Disk().Remove(dir + "/" + name)
			}
			f, err := r.m.Disk().Open(dir+"/"+name, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			if d.Cmd == "shorten" {
				return f.Truncate(int64(number(t, d, "to", 0)))
			}
			_, err = f.Pwrite([]byte{byte(number(t, d, "set", 255))}, int64(number(t, d, "pos", 0)))
			return err
		}))
	default:
		t.Fatalf("%s: unknown verb %q", d.Pos, d.Cmd)
	}
	return "ok"
}

// spanName is the file that holds a span; the span itself was released.
func spanName(s *Span, r *rig) string {
	for _, seg := range r.log.segments {
		if seg.base <= s.Base && s.Base < seg.next {
			return seg.file.Name()
		}
	}
	return "?"
}
