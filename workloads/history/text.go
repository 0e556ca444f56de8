package history

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// String is one line for people: time, machine, what happened.
func (e *Event) String() string { return string(e.AppendText(nil)) }

// AppendText appends what String returns.
func (e *Event) AppendText(b []byte) []byte {
	b = fmt.Appendf(b, "%12.6fs  ", e.At.Seconds())
	who := e.Machine
	if e.Incarnation > 1 {
		who += "#" + strconv.Itoa(e.Incarnation)
	}
	b = fmt.Appendf(b, "%-14s ", who)
	switch e.Kind {
	case Sent:
		b = fmt.Appendf(b, "sent %v by %s to %s", e.ID, e.Producer, place(e.Topic, e.Partition))
	case Acked:
		b = fmt.Appendf(b, "acked %v at %s offset %d", e.ID, place(e.Topic, e.Partition), e.Offset)
	case Failed:
		b = fmt.Appendf(b, "failed %v: %s", e.ID, e.Text)
	case Unknown:
		b = fmt.Appendf(b, "unknown outcome of %v: %s", e.ID, e.Text)
	case Processed:
		b = fmt.Appendf(b, "processed %v from %s offset %d by %s of group %s", e.ID, place(e.Topic, e.Partition), e.Offset, e.Consumer, e.Group)
	case Sought:
		b = fmt.Appendf(b, "seek of %s to offset %d by %s of group %s", place(e.Topic, e.Partition), e.Offset, e.Consumer, e.Group)
	case Suspended, Continued:
		b = fmt.Appendf(b, "%s %s by %s of group %s", place(e.Topic, e.Partition), e.Kind, e.Consumer, e.Group)
	case Traced:
		t := &e.Trace
		b = fmt.Appendf(b, "%s %s", t.Kind, t.Subject)
		if t.Detail != "" {
			b = fmt.Appendf(b, " %.200q", t.Detail)
		}
		b = fmt.Appendf(b, " (%d, %d, %d)", t.A, t.B, t.C)
	case KafkaCalled:
		c := e.Kafka
		b = fmt.Appendf(b, "%s to %s from %.6fs to %.6fs", kmsg.NameForKey(c.Key), c.Broker, c.Start.Seconds(), c.End.Seconds())
		if c.Err != nil {
			b = fmt.Appendf(b, ": %v", c.Err)
			if !c.Sent {
				b = append(b, " (never sent)"...)
			}
		}
	case CoordCalled, CoordAsked:
		c := e.Coord
		b = fmt.Appendf(b, "%s %s session 0x%x from %.6fs to %.6fs", c.Op, c.Path, c.Session, c.Start.Seconds(), c.End.Seconds())
		if len(c.Data) > 0 {
			b = fmt.Appendf(b, " %.200q", c.Data)
		}
		switch {
		case c.Err != nil:
			b = fmt.Appendf(b, ": %v", c.Err)
		case c.Name != "":
			b = fmt.Appendf(b, " -> %s", c.Name)
		case len(c.Value) > 0:
			b = fmt.Appendf(b, " -> %.200q", c.Value)
		case len(c.Children) > 0:
			b = fmt.Appendf(b, " -> %q", c.Children)
		}
	case CoordHeard:
		c := e.Heard
		b = fmt.Appendf(b, "session 0x%x hears %s", c.Session, c.What)
		if c.Path != "" {
			b = fmt.Appendf(b, " %s", c.Path)
		}
		if c.Watch {
			b = append(b, " (asked for a watch)"...)
		}
		if c.Zxid != 0 {
			b = fmt.Appendf(b, " at transaction %d", c.Zxid)
		}
	case FaultInjected:
		b = fmt.Appendf(b, "fault %d begins: %s", e.Number, e.Text)
	case FaultHealed:
		b = fmt.Appendf(b, "fault %d ends: %s", e.Number, e.Text)
	case FaultHeld:
		b = fmt.Appendf(b, "fault %d is held back: %s", e.Number, e.Text)
	case PartitionRuined:
		b = fmt.Appendf(b, "%s lacks good copies by fault %d: promises about it are freed", place(e.Topic, e.Partition), e.Number)
	case MachineCrashed:
		b = append(b, "process crash"...)
		if e.Power {
			b = append(b[:len(b)-len("process crash")], "power loss"...)
		}
		if e.Text != "" {
			b = append(append(b, ": "...), e.Text...)
		}
	case MachineExited:
		b = append(b, "exited"...)
		if e.Text != "" {
			b = append(append(b, ": "...), e.Text...)
		}
	case MachineRuined:
		b = fmt.Appendf(b, "ruined (%s) by fault %d: promises about it are freed", e.Text, e.Number)
	case MachineMended:
		b = fmt.Appendf(b, "ruined (%s) by fault %d no longer", e.Text, e.Number)
	case PhaseBegan:
		b = fmt.Appendf(b, "---- %v ----", e.Phase)
	default:
		b = append(b, e.Kind.String()...)
	}
	return b
}

func place(topic string, partition int32) string {
	if partition < 0 {
		return topic
	}
	return topic + "/" + strconv.Itoa(int(partition))
}
