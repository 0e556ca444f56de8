package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"faultline/sim/machine"
)

// Reader reads what a [Writer] wrote.
type Reader struct {
	r    *bufio.Reader
	line int
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 1<<16)} }

// Next returns the next event, or io.EOF after the last. Other errors name the line.
func (r *Reader) Next() (Event, error) {
	text, err := r.r.ReadBytes('\n')
	if err == io.EOF && len(text) > 0 {
		return Event{}, fmt.Errorf("history line %d: cut off before its end", r.line+1)
	}
	if err != nil {
		return Event{}, err
	}
	r.line++
	e, err := parseEvent(text)
	if err != nil {
		return Event{}, fmt.Errorf("history line %d: %w", r.line, err)
	}
	return e, nil
}

type eventLine struct {
	Seq, At     int64
	Kind        string
	Machine     string
	Incarnation int
	ID          string
	Hash, Key   string
	Producer    string
	Group       string
	Consumer    string
	Topic       string
	Partition   int32
	Offset      int64
	Text        string
	Number      int
	Fault       *Fault
	Power       bool
	Phase       string
	Trace       *machine.Event
	Kafka       *struct {
		Broker       string
		Key, Version int16
		Error        *string
		Sent         bool
		Start, End   int64
	}
	Coord *coordLine
	Heard *CoordSaid
}

type coordLine struct {
	Op            string
	Session       int64
	Path          string
	Data          []byte
	Expect        int32
	Ephemeral     bool
	Sequential    bool
	Ops           []coordLine
	Name          string
	Value         []byte
	Children      []string
	Found         bool
	Czxid, Mzxid  int64
	Version       int32
	Owner         int64
	Error         *string
	Unknown, Sent bool
	Start, End    int64
}

func parseEvent(text []byte) (Event, error) {
	var l eventLine
	if err := json.Unmarshal(text, &l); err != nil {
		return Event{}, err
	}
	kind := slices.Index(kindNames[:], l.Kind)
	if kind <= 0 {
		return Event{}, fmt.Errorf("unknown kind %q", l.Kind)
	}
	e := Event{
		Seq: l.Seq, At: time.Duration(l.At), Kind: Kind(kind), Machine: l.Machine, Incarnation: l.Incarnation,
		Producer: l.Producer, Group: l.Group, Consumer: l.Consumer, Topic: l.Topic, Partition: l.Partition, Offset: l.Offset,
		Text: l.Text, Number: l.Number, Fault: l.Fault, Power: l.Power,
	}
	if l.Phase != "" {
		phase := slices.Index(phaseNames[:], l.Phase)
		if phase <= 0 {
			return Event{}, fmt.Errorf("unknown phase %q", l.Phase)
		}
		e.Phase = Phase(phase)
	}
	var err error
	if l.Hash != "" {
		if e.Hash, err = strconv.ParseUint(l.Hash, 16, 64); err != nil {
			return Event{}, fmt.Errorf("hash: %w", err)
		}
	}
	if l.Key != "" {
		if e.Key, err = strconv.ParseUint(l.Key, 16, 64); err != nil {
			return Event{}, fmt.Errorf("key: %w", err)
		}
	}
	if l.ID != "" {
		if e.ID, err = ParseID(l.ID); err != nil {
			return Event{}, err
		}
	}
	if l.Trace != nil {
		e.Trace = *l.Trace
	}
	if k := l.Kafka; k != nil {
		e.Kafka = &KafkaCall{Broker: k.Broker, Key: k.Key, Version: k.Version, Err: toError(k.Error), Sent: k.Sent,
			Start: time.Duration(k.Start), End: time.Duration(k.End)}
	}
	if l.Coord != nil {
		c := l.Coord.call()
		e.Coord = &c
	}
	e.Heard = l.Heard
	return e, nil
}

func (l *coordLine) call() CoordCall {
	c := CoordCall{
		Session: l.Session, Op: l.Op, Path: l.Path, Data: l.Data, Version: l.Expect, Ephemeral: l.Ephemeral, Sequential: l.Sequential,
		Name: l.Name, Value: l.Value, Children: l.Children, Found: l.Found,
		Stat: Stat{Czxid: l.Czxid, Mzxid: l.Mzxid, Version: l.Version, Owner: l.Owner},
		Err:  toError(l.Error), Unknown: l.Unknown, Sent: l.Sent, Start: time.Duration(l.Start), End: time.Duration(l.End),
	}
	for i := range l.Ops {
		c.Ops = append(c.Ops, l.Ops[i].call())
	}
	return c
}

func toError(s *string) error {
	if s == nil {
		return nil
	}
	return errors.New(*s)
}

// ParseID reads what [ID.String] writes.
func ParseID(s string) (ID, error) {
	source, seq, ok := strings.Cut(s, "/")
	n, err1 := strconv.ParseUint(source, 10, 64-seqBits)
	q, err2 := strconv.ParseUint(seq, 10, seqBits)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("id %q: want source/sequence", s)
	}
	return NewID(int(n), int64(q)), nil
}
