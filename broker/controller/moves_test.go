package controller

import (
	"fmt"
	"strings"
	"testing"

	"faultline/broker/replica"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestMoves runs testdata/moves/*: what a controller decides about one partition "t/0", of which the writes take effect at once.
//
//	topic replicas=1,2,3 [least=N] [unclean]           a new topic
//	broker id=N [epoch=N] [clean-since=N] | gone id=N  it registers, or its registration ends
//	move to=1,2 [least=N]                              a reassignment begins
//	isr members=1,2                                    the leader changes the in-sync replicas
//	decide | prefer                                    and the partition as it is then
func TestMoves(t *testing.T) {
	datadriven.Walk(t, "testdata/moves", func(t *testing.T, file string) {
		v := &View{Epoch: 1}
		var p *Partition
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "topic":
				tp := Topic{Name: "t", LeastISR: 1, Unclean: d.HasArg("unclean"), Partitions: []Partition{{Replicas: numbers(t, d, "replicas")}}}
				d.MaybeScanArgs(t, "least", &tp.LeastISR)
				v.Topics = []Topic{tp}
				p = &v.Topics[0].Partitions[0]
			case "broker":
				b := Broker{Epoch: 1, CleanSince: -1}
				d.ScanArgs(t, "id", &b.ID)
				d.MaybeScanArgs(t, "epoch", &b.Epoch)
				if !d.MaybeScanArgs(t, "clean-since", &b.CleanSince) {
					b.CleanSince = b.Epoch
				}
				v.forget(b.ID)
				v.Brokers = append(v.Brokers, b)
			case "gone":
				var id int32
				d.ScanArgs(t, "id", &id)
				v.forget(id)
			case "move":
				to := numbers(t, d, "to")
				p.Moving, p.Leaving = true, nil
				for _, id := range p.Replicas {
					if replica.Find(members(to), id) < 0 {
						p.Leaving = append(p.Leaving, id)
					}
				}
				p.Replicas = append(to, p.Leaving...)
			case "isr":
				var isr []replica.Member
				for _, id := range numbers(t, d, "members") {
					isr = append(isr, replica.Member{ID: id, Epoch: v.broker(id).Epoch})
				}
				p.State.Resize(isr, v.Topics[0].LeastISR)
			case "decide", "prefer":
				writes := v.Decide()
				if d.Cmd == "prefer" {
					writes = v.Prefer()
				}
				out := "nothing\n"
				for _, w := range writes {
					out = w.Why + "\n"
					s := w.State
					p.State = &s
					if w.Replicas != nil {
						p.Replicas, p.Moving, p.Leaving = w.Replicas, false, nil
					}
				}
				return out + describe(p)
			default:
				t.Fatalf("%s: unknown verb %q", d.Pos, d.Cmd)
			}
			return "ok\n"
		})
	})
}

func (v *View) forget(id int32) {
	kept := v.Brokers[:0]
	for _, b := range v.Brokers {
		if b.ID != id {
			kept = append(kept, b)
		}
	}
	v.Brokers = kept
}

func members(ids []int32) (out []replica.Member) {
	for _, id := range ids {
		out = append(out, replica.Member{ID: id})
	}
	return out
}

func numbers(t *testing.T, d *datadriven.TestData, name string) (out []int32) {
	for i := range d.CmdArgs {
		if d.CmdArgs[i].Key != name {
			continue
		}
		for _, v := range strings.Split(strings.Join(d.CmdArgs[i].Vals, ","), ",") {
			var n int32
			_, err := fmt.Sscan(v, &n)
			require.NoError(t, err)
			out = append(out, n)
		}
	}
	return out
}

func describe(p *Partition) string {
	out := fmt.Sprintf("replicas %v", p.Replicas)
	if len(p.Leaving) > 0 {
		out += fmt.Sprintf(", of which %v leave", p.Leaving)
	}
	if s := p.State; s != nil {
		out += fmt.Sprintf("; leader %d in epoch %d; in sync %v", s.Leader, s.LeaderEpoch, s.ISR)
		if len(s.ELR) > 0 {
			out += fmt.Sprintf("; eligible %v", s.ELR)
		}
	}
	return out + "\n"
}
