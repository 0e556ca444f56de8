package history

import (
	"bufio"
	"encoding/base64"
	"io"
	"strconv"
	"unicode/utf8"
)

// Writer writes events as JSON lines, one object an event; fields that are zero are left out. [Reader] reads them.
// Times are nanoseconds of world time, hashes hexadecimal, data of znodes base64. Requests and responses of brokers are not written, only what
// was asked (API key), of whom, when, and how it ended. It is an observer; the first error of the
// destination ends the writing and is told by Flush.
type Writer struct {
	w    *bufio.Writer
	line []byte
	err  error
}

// NewWriter writes to w. Call Flush at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 1<<16)} }

// Observe writes the event.
func (w *Writer) Observe(e *Event) {
	if w.err != nil {
		return
	}
	w.line = append(appendEvent(w.line[:0], e), '\n')
	_, w.err = w.w.Write(w.line)
}

// Flush writes what is buffered and returns the first error that the destination gave.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

func appendEvent(b []byte, e *Event) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, int64(e.At), 10)
	b = str(b, "kind", e.Kind.String())
	b = str(b, "machine", e.Machine)
	b = num(b, "incarnation", int64(e.Incarnation))
	switch e.Kind {
	case Sent, Acked, Failed, Unknown, Processed:
		b = append(b, `,"id":"`...)
		b = append(b, e.ID.String()...)
		b = append(b, '"')
	}
	if e.Hash != 0 {
		b = append(b, `,"hash":"`...)
		b = strconv.AppendUint(b, e.Hash, 16)
		b = append(b, '"')
	}
	if e.Key != 0 {
		b = append(b, `,"key":"`...)
		b = strconv.AppendUint(b, e.Key, 16)
		b = append(b, '"')
	}
	b = str(b, "producer", e.Producer)
	b = str(b, "group", e.Group)
	b = str(b, "consumer", e.Consumer)
	b = str(b, "topic", e.Topic)
	b = num(b, "partition", int64(e.Partition))
	b = num(b, "offset", e.Offset)
	b = str(b, "text", e.Text)
	b = num(b, "number", int64(e.Number))
	if f := e.Fault; f != nil {
		b = append(b, `,"fault":{"kind":`...)
		b = quote(b, string(f.Kind))
		b = texts(b, "hit", f.Hit)
		b = texts(b, "peers", f.Peers)
		b = append(b, '}')
	}
	b = flag(b, "power", e.Power)
	if e.Phase != 0 {
		b = str(b, "phase", e.Phase.String())
	}
	if e.Kind == Traced {
		b = append(b, `,"trace":{"kind":`...)
		b = quote(b, e.Trace.Kind.String())
		b = str(b, "subject", e.Trace.Subject)
		b = str(b, "detail", e.Trace.Detail)
		b = num(b, "a", e.Trace.A)
		b = num(b, "b", e.Trace.B)
		b = num(b, "c", e.Trace.C)
		b = append(b, '}')
	}
	if c := e.Kafka; c != nil {
		b = append(b, `,"kafka":{"broker":`...)
		b = quote(b, c.Broker)
		b = num(b, "key", int64(c.Key))
		b = num(b, "version", int64(c.Version))
		b = fail(b, c.Err)
		b = flag(b, "sent", c.Sent)
		b = num(b, "start", int64(c.Start))
		b = num(b, "end", int64(c.End))
		b = append(b, '}')
	}
	if e.Coord != nil {
		b = append(b, `,"coord":`...)
		b = appendCoord(b, e.Coord)
	}
	if c := e.Heard; c != nil {
		b = append(b, `,"heard":{"what":`...)
		b = quote(b, c.What)
		b = num(b, "session", c.Session)
		b = str(b, "path", c.Path)
		b = str(b, "op", c.Op)
		b = flag(b, "watch", c.Watch)
		b = flag(b, "found", c.Found)
		b = num(b, "zxid", c.Zxid)
		b = num(b, "mzxid", c.Mzxid)
		b = num(b, "pzxid", c.Pzxid)
		b = num(b, "since", int64(c.Since))
		b = append(b, '}')
	}
	return append(b, '}')
}

func texts(b []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":[`...)
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(b, s)
	}
	return append(b, ']')
}

func appendCoord(b []byte, c *CoordCall) []byte {
	b = append(b, `{"op":`...)
	b = quote(b, c.Op)
	b = num(b, "session", c.Session)
	b = str(b, "path", c.Path)
	b = data(b, "data", c.Data)
	b = num(b, "expect", int64(c.Version))
	b = flag(b, "ephemeral", c.Ephemeral)
	b = flag(b, "sequential", c.Sequential)
	if len(c.Ops) > 0 {
		b = append(b, `,"ops":[`...)
		for i := range c.Ops {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCoord(b, &c.Ops[i])
		}
		b = append(b, ']')
	}
	b = str(b, "name", c.Name)
	b = data(b, "value", c.Value)
	b = texts(b, "children", c.Children)
	b = flag(b, "found", c.Found)
	b = num(b, "czxid", c.Stat.Czxid)
	b = num(b, "mzxid", c.Stat.Mzxid)
	b = num(b, "version", int64(c.Stat.Version))
	b = num(b, "owner", c.Stat.Owner)
	b = fail(b, c.Err)
	b = flag(b, "unknown", c.Unknown)
	b = flag(b, "sent", c.Sent)
	b = num(b, "start", int64(c.Start))
	b = num(b, "end", int64(c.End))
	return append(b, '}')
}

func num(b []byte, name string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(field(b, name), v, 10)
}

func str(b []byte, name, v string) []byte {
	if v == "" {
		return b
	}
	return quote(field(b, name), v)
}

func flag(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(field(b, name), "true"...)
}

func data(b []byte, name string, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	b = append(field(b, name), '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

func fail(b []byte, err error) []byte {
	if err == nil {
		return b
	}
	return quote(field(b, "error"), err.Error())
}

func field(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// quote appends a JSON string. Bytes that are not UTF-8 become U+FFFD, as encoding/json does.
func quote(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
		}
	}
	return append(b, '"')
}
