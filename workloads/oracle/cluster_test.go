package oracle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"faultline/sim"
	"faultline/sim/machine"
	"faultline/sim/virtual"
	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWatermarks(t *testing.T) {
	begin := threeReplicas + leads(1, 0, 1, 2, 3) + `
		b1 leader.began t/0 - 0 0 0
		b1 log.appended t/0 - 0 5; b2 log.appended t/0 - 0 5; b3 log.appended t/0 - 0 5
		b1 log.committed t/0 - 5 0 1; b2 log.committed t/0 - 3 0 0`
	moved := begin + leads(2, 1, 2, 3) + "b2 leader.began t/0 - 1 5 3\n"
	w := func() leaning { return judging(replicatedPromise(-1), NewWatermarks) }
	t.Run("a new leader may begin lower", func(t *testing.T) {
		silent(t, w(), moved+"b2 log.committed t/0 - 5 1 1")
	})
	t.Run("but not move below what was told", func(t *testing.T) {
		fires(t, w(), HighMark, "a leader before told 5", moved+"b2 log.committed t/0 - 4 1 1")
	})
	t.Run("nor name an end below", func(t *testing.T) {
		fires(t, w(), HighMark, "b2, which leads t/0 in epoch 1, tells c1 that its log ends at 3, but a leader before told 5", moved+"+1s; ends c1 b2 t/0 3 10ms")
		silent(t, w(), moved+"+1s; ends c1 b2 t/0 5 10ms")
		silent(t, w(), begin+leads(2, 1, 2, 3)+"b2 leader.began t/0 - 1 5 3; ends c1 b2 t/0 3 10ms") // the question is older
		silent(t, w(), moved+"+1s; ends c1 b1 t/0 4 10ms")                                           // it knows of no leader before
	})
	t.Run("a broker does not take back what it told", func(t *testing.T) {
		fires(t, w(), HighMark, "but it told 3 before", begin+"\nb2 log.committed t/0 - 2 0 0")
	})
	t.Run("a process that restarted may", func(t *testing.T) {
		silent(t, w(), begin+"\nb2#2 log.opened t/0 - 0 5 0; b2#2 log.committed t/0 - 2 0 0")
	})
	t.Run("it is not above the log end", func(t *testing.T) {
		fires(t, w(), HighMark, "whose log has 0 to 5", begin+"\nb1 log.committed t/0 - 6 0 1")
	})
	t.Run("nor below the log start", func(t *testing.T) {
		fires(t, w(), HighMark, "above the high watermark 3", begin+"\nb2 log.deleted t/0 - 0 4")
	})
	t.Run("nor when the log is opened", func(t *testing.T) {
		opened := begin + "\nb1#2 log.opened t/0 - 0 3 0; "
		silent(t, w(), opened+"b1#2 log.committed t/0 - 3 -1 0; b1#2 log.deleted t/0 - 0 3")
		fires(t, w(), HighMark, "whose log has 0 to 3", opened+"b1#2 log.committed t/0 - 5 -1 0")
	})
	t.Run("and not above what was ever told", func(t *testing.T) {
		fires(t, w(), HighMark, "b1 opens t/0 with the high watermark 6, but nobody told more than 5", begin+"\nb1#2 log.opened t/0 - 0 6 0; b1#2 log.committed t/0 - 6 -1 0")
		silent(t, w(), begin+"\nb1#2 log.opened t/0 - 6 6 0; b1#2 log.committed t/0 - 6 -1 0") // but what retention deleted was
	})
	t.Run("what an earlier life deleted goes before the log is open", func(t *testing.T) {
		silent(t, w(), begin+"\nb1#2 log.deleted t/0 - 0 4; b1#2 log.opened t/0 - 4 5 0; b1#2 log.committed t/0 - 4 -1 0")
	})
	t.Run("what was told a while ago is written down", func(t *testing.T) {
		again := "b2#2 log.opened t/0 - 0 5 0; b2#2 log.committed t/0 - "
		long := begin + "\n+4s; b2 log.committed t/0 - 5 0 0; crash b2; "
		silent(t, w(), long+again+"3 -1 0")
		fires(t, w(), HighMark, "but it told 3 at least 3s before", long+again+"2 -1 0")
		silent(t, w(), long+"b2#2 log.opened t/0 - 0 2 0; b2#2 log.committed t/0 - 2 -1 0")
		silent(t, w(), begin+"\n+2s; crash b2; "+again+"0 -1 0")
		silent(t, w(), begin+"\n+2s; pause b2; +2s; resume b2; crash b2; "+again+"0 -1 0")
		silent(t, w(), begin+"\n+2s; fault 1 {fault: disk-stall}; +1s; healed 1 fault: disk-stall; +1s; crash b2; "+again+"0 -1 0")
		silent(t, w(), begin+"\n+4s; crash b2; wipe b2; "+again+"0 -1 0")
		// Its replica was moved away, and a new one came back.
		silent(t, w(), long[:len(long)-len("crash b2; ")]+"b2 log.opened t/0 - 0 0 0; b2 log.committed t/0 - 0 -1 0; b2 log.appended t/0 - 0 5; b2 log.committed t/0 - 5 0 0; crash b2; "+again+"0 -1 0")
	})
	t.Run("a restarted log takes it along", func(t *testing.T) {
		restarted := begin + "\nb3 log.truncated t/0 - 5 9\n"
		silent(t, w(), restarted+"b3 log.committed t/0 - 9 0 0; b3 log.appended t/0 - 9 10")
		fires(t, w(), HighMark, "whose log starts at 9, above the high watermark 0", restarted+"b3 log.appended t/0 - 9 10")
		where := begin + "\nb3 log.truncated t/0 - 5 5\n" // at its end
		silent(t, w(), where+"b3 log.committed t/0 - 5 0 0; b3 log.appended t/0 - 5 6")
		fires(t, w(), HighMark, "whose log starts at 5, above the high watermark 0", where+"b3 log.appended t/0 - 5 6")
	})
	t.Run("an unclean election may take it back", func(t *testing.T) {
		p := replicatedPromise(-1)
		p.Topics[0].Unclean = true
		silent(t, judging(p, NewWatermarks), begin+leads(-1, 1, 1)+leads(2, 2, 2)+`
			b2 leader.began t/0 - 2 3 2; b2 log.committed t/0 - 3 2 1; b1 log.committed t/0 - 5 0 1`+leads(3, 3, 3, 2)+`
			b3 leader.began t/0 - 3 3 2; b3 log.committed t/0 - 4 3 1`)
	})
}

// A follower whose log begins behind all that the new leader has begins anew.
func TestWatermarksOfALogThatBeginsFurtherBack(t *testing.T) {
	p := replicatedPromise(-1)
	p.Topics[0].Unclean = true
	begin := threeReplicas + leads(1, 0, 1, 2, 3) + `
		b1 leader.began t/0 - 0 0 0
		b1 log.appended t/0 - 0 5; b2 log.appended t/0 - 0 5; b3 log.appended t/0 - 0 2
		b1 log.committed t/0 - 5 0 1; b2 log.committed t/0 - 5 0 0; b2 log.deleted t/0 - 0 5`
	unclean := begin + leads(-1, 1, 1) + leads(3, 2, 3) + "b3 leader.began t/0 - 2 2 0; b3 log.committed t/0 - 2 2 1; "
	w := func() leaning { return judging(p, NewWatermarks) }
	silent(t, w(), unclean+"b2 log.committed t/0 - 2 2 0; b2 log.truncated t/0 - 5 2; b2 log.appended t/0 - 2 3; b2 log.committed t/0 - 3 2 0")
	fires(t, w(), HighMark, "appends to t/0, whose log starts at 5, above the high watermark 2", unclean+"b2 log.committed t/0 - 2 2 0; b2 log.appended t/0 - 5 6")
	fires(t, w(), HighMark, "tells the high watermark 2 of t/0, whose log has 5 to 5", begin+leads(3, 1, 3)+"b3 leader.began t/0 - 1 2 0; b2 log.committed t/0 - 2 1 0")
}

func TestEpochs(t *testing.T) {
	begin := threeReplicas + "z znode.created /controller_epoch -; z znode.set /controller_epoch - 1" + leads(1, 0, 1, 2, 3) + "b1 leader.began t/0 - 0 0 0\n"
	o := func() leaning { return judging(replicatedPromise(-1), NewEpochs) }
	t.Run("a leader after the other, each in its own epoch", func(t *testing.T) {
		silent(t, o(), begin+leads(2, 1, 2, 3)+"b2 leader.began t/0 - 1 0 0; b1#2 log.opened t/0 - 0 0"+leads(2, 1, 2, 3, 1))
	})
	t.Run("another leader in the same epoch", func(t *testing.T) {
		fires(t, o(), Gen, "names another leader, 2 after 1, in the same leader epoch 0", begin+leads(2, 0, 2, 3))
	})
	t.Run("an epoch that goes back", func(t *testing.T) {
		fires(t, o(), Gen, "goes back from leader epoch 2 to 1", begin+leads(2, 2, 2, 3)+leads(1, 1, 1, 3))
	})
	t.Run("a controller that is none any more", func(t *testing.T) {
		fires(t, o(), Gen, "gets leader epoch 1 from controller epoch 1, the controller's is 2 by now", begin+"z znode.set /controller_epoch - 2"+leads(2, 1, 2, 3))
	})
	t.Run("two leaders of one epoch", func(t *testing.T) {
		fires(t, o(), Gen, "b1 and b3 both lead t/0 in epoch 0", begin+"b3 leader.began t/0 - 0 0 0")
	})
	t.Run("the same leader after a power loss", func(t *testing.T) {
		fires(t, o(), Gen, "b1 leads t/0 again in epoch 0 after a power loss", begin+"power b1; start b1; b1 leader.began t/0 - 0 0 0")
	})
	t.Run("a stranger in sync", func(t *testing.T) {
		fires(t, o(), Gen, "lists broker 4, which is no replica", begin+leads(1, 0, 1, 4))
	})
	t.Run("two controllers of one epoch", func(t *testing.T) {
		fires(t, o(), Gen, "brokers 1 and 2 are both controllers in epoch 1", begin+"b1 controller.elected - - 1 1; b2 controller.elected - - 2 1")
	})
}

func TestSteadiness(t *testing.T) {
	o := func() leaning {
		p := replicatedPromise(-1)
		p.ReplicaLag, p.SessionTimeout = time.Second, time.Second
		return judging(p, NewSteadiness)
	}
	begin := "start z; " + threeReplicas + leads(1, 0, 1, 2, 3)
	silent(t, o(), begin+"+2s"+leads(1, 0, 1, 2))
	fires(t, o(), Budget, "broker 3 leaves the in-sync replicas of t/0", begin+"+20s"+leads(1, 0, 1, 2))
	silent(t, o(), begin+"+20s; fault 1 x"+leads(1, 0, 1, 2))
}

func TestUncommitted(t *testing.T) {
	for hw, want := range map[int64]bool{1: false, 2: true} {
		o := judging(replicatedPromise(-1), NewUncommitted)
		s := newStory(t, o)
		s.tell(threeReplicas + leads(1, 0, 1, 2, 3) + "b1 leader.began t/0 - 0 0 0; b1 log.committed t/0 - 1 0 1")
		resp := kmsg.NewPtrFetchResponse()
		rt, rp := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		rt.Topic, rp.HighWatermark = "t", hw
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		s.rec.KafkaCalled(s.who("c1"), &history.KafkaCall{Broker: "b1:9092", Key: 1, Resp: resp, Sent: true})
		require.Equal(t, want, len(o.Violations()) > 0, o.Violations())
	}
}

// trio are three brokers' disks with a log of t/0 each, written by hand.
type trio struct {
	*story
	w       *sim.World
	brokers []*virtual.Computer
	disk    []machine.Disk
	files   []machine.File
	promise *Promise
	match   *Agreement
	acked   *Acknowledged
}

func newTrio(t *testing.T, acks int16) *trio {
	p := replicatedPromise(acks)
	x := &trio{w: sim.New(sim.Config{Seed: 1}), promise: p}
	d, c := NewDisks(p, x.w.Now), NewCluster(p)
	x.match, x.acked = NewAgreement(c, d), NewAcknowledged(c, d)
	vc := virtual.New(x.w, virtual.Config{})
	for i, name := range p.Brokers {
		comp := vc.Add(name)
		x.brokers = append(x.brokers, comp)
		d.Watch(name, comp.Disk(), func() time.Time { return sim.Epoch })
		comp.Boot(func(m machine.Machine) error {
			disk := m.Disk()
			for _, dir := range []string{"broker", "broker/t-0"} {
				require.NoError(t, disk.Mkdir(dir))
			}
			f, err := disk.Open("broker/t-0/00000000000000000000.log", machine.Create)
			require.NoError(t, err)
			x.disk, x.files = append(x.disk, disk), append(x.files, f)
			x.w.Halt()
			m.Sleep(1 << 60)
			return nil
		})
		x.w.Run(x.w.Now() + time.Hour)
		require.Len(t, x.files, i+1)
	}
	x.story = newStory(t, d, c, x.match, x.acked)
	x.tell(threeReplicas + leads(1, 0, 1, 2, 3) + "b1 leader.began t/0 - 0 0 0")
	return x
}

// write makes a broker's log anew of batches with one record each: "0a" has leader epoch 0 and content a.
func (x *trio) write(broker int, batches ...string) { x.writeFrom(broker, 0, batches...) }

// writeFrom is write for a log that begins at an offset. Once only, if that is not 0.
func (x *trio) writeFrom(broker, base int, batches ...string) {
	var p []byte
	for i, b := range batches {
		p = append(p, oneRecord(int64(base+i), int32(b[0]-'0'), b[1:])...)
	}
	done := false
	x.brokers[broker-1].Go("write", func() {
		if base > 0 {
			f, err := x.disk[broker-1].Open(fmt.Sprintf("broker/t-0/%020d.log", base), machine.Create)
			require.NoError(x.t, err)
			x.files[broker-1] = f
			require.NoError(x.t, x.disk[broker-1].Remove("broker/t-0/00000000000000000000.log"))
		}
		if size, err := x.files[broker-1].Size(); err != nil || size > 0 {
			require.NoError(x.t, x.files[broker-1].Truncate(0))
		}
		_, err := machine.WriteFull(x.files[broker-1], p, 0)
		require.NoError(x.t, err)
		done = true
		x.w.Halt()
	})
	x.w.Run(x.w.Now() + time.Hour)
	require.True(x.t, done)
}

func (x *trio) found() []Violation {
	x.match.Finish(End{At: x.now})
	x.acked.Finish(End{At: x.now})
	return append(x.match.Violations(), x.acked.Violations()...)
}

func (x *trio) fires(invariant, text string) {
	x.t.Helper()
	all := x.found()
	for _, v := range all {
		if v.Invariant == invariant {
			require.Contains(x.t, v.Message, text)
			return
		}
	}
	require.Fail(x.t, "no violation of "+invariant, "%v", all)
}

func TestAgreement(t *testing.T) {
	t.Run("of replicas that are the same", func(t *testing.T) {
		x := newTrio(t, -1)
		for b := 1; b <= 3; b++ {
			x.write(b, "0a", "0b")
		}
		x.tell("b1 log.committed t/0 - 1 0 1; b1 log.committed t/0 - 2 0 1")
		require.Empty(t, x.found())
	})
	t.Run("an in-sync replica lacks what is committed", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b")
		x.write(2, "0a", "0b")
		x.write(3, "0a")
		x.tell("b1 log.committed t/0 - 1 0 1; b1 log.committed t/0 - 2 0 1")
		x.fires(Match, "b3, which is in sync, differs: it ends at 1, and should reach 2")
	})
	t.Run("an eligible replica lacks what is committed", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b")
		x.write(2, "0a", "0b")
		x.write(3, "0a")
		x.tell(strings.Replace(leads(1, 0, 1, 2), `"controller_epoch"`, `"elr":[{"id":3,"epoch":1}],"controller_epoch"`, 1) + "b1 log.committed t/0 - 1 0 1; b1 log.committed t/0 - 2 0 1")
		x.fires(Match, "b3, which is eligible, differs: it ends at 1, and should reach 2")
	})
	t.Run("one that is not in sync may lack it, while the run goes on", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b")
		x.write(2, "0a", "0b")
		x.write(3, "0a")
		x.tell(leads(1, 0, 1, 2) + "b1 log.committed t/0 - 2 0 1")
		x.write(3, "0a", "0b")
		require.Empty(t, x.found())
	})
	t.Run("an in-sync replica has other bytes", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b")
		x.write(2, "0a", "0c")
		x.write(3, "0a", "0b")
		x.tell("b1 log.committed t/0 - 2 0 1")
		x.fires(Match, "b2, which is in sync, differs")
	})
	t.Run("retention has removed what is committed now, on one disk earlier than on another", func(t *testing.T) {
		for _, early := range []int{1, 3} {
			x := newTrio(t, -1)
			for b := 1; b <= 3; b++ {
				x.write(b, "0a", "0b")
			}
			x.tell("b1 log.committed t/0 - 1 0 1")
			for b := 1; b <= 3; b++ {
				if b == early {
					x.writeFrom(b, 2, "0c", "0d")
				} else {
					x.write(b, "0a", "0b", "0c", "0d")
				}
			}
			x.tell("b1 log.committed t/0 - 4 0 1")
			require.Empty(t, x.found())
		}
	})
	t.Run("a follower began anew where no copy begins", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b", "0c")
		x.write(2, "0a", "0b", "0c")
		x.writeFrom(3, 2, "0c")
		x.tell("b3 log.truncated t/0 - 0 2 0; b1 log.committed t/0 - 3 0 1")
		x.fires(Match, "b3, which is in sync, differs: it ends at 0, and should reach 3")
	})
	t.Run("a leader begins without what is committed", func(t *testing.T) {
		x := newTrio(t, -1)
		for b := 1; b <= 3; b++ {
			x.write(b, "0a", "0b")
		}
		x.tell("b1 log.committed t/0 - 2 0 1")
		x.write(2, "0a")
		x.tell(leads(2, 1, 2, 3) + "b2 leader.began t/0 - 1 1 1")
		x.fires(Durable, "b2 begins to lead t/0 in epoch 1 without what was committed at 1..1")
	})
	t.Run("after an unclean election that is no violation", func(t *testing.T) {
		x := newTrio(t, 1)
		x.promise.Topics[0].Unclean = true
		x.write(1, "0a", "0b")
		x.tell(leads(1, 0, 1) + "b1 log.committed t/0 - 2 0 1")
		x.write(2, "0a")
		x.write(3, "0a")
		x.tell(leads(2, 1, 2) + "b2 leader.began t/0 - 1 1 1")
		x.write(1, "0a")
		require.Empty(t, x.found())
	})
	t.Run("which a topic must allow", func(t *testing.T) {
		x := newTrio(t, -1)
		x.tell(leads(1, 0, 1) + leads(2, 1, 2))
		x.fires(Durable, "broker 2 is elected to lead t/0 in epoch 1, though it was neither in sync nor eligible")
	})
	t.Run("a follower joins without what is committed", func(t *testing.T) {
		for logs, lacks := range map[string]bool{"0a 0b": false, "0a": true, "0a 0c": true} {
			x := newTrio(t, -1)
			x.write(1, "0a", "0b")
			x.write(2, "0a", "0b")
			x.write(3, strings.Fields(logs)...)
			x.tell(leads(1, 0, 1, 2) + "b1 log.committed t/0 - 2 0 1" + leads(1, 0, 1, 2, 3))
			x.write(3, "0a", "0b")
			if lacks {
				x.fires(Match, "broker 3 joins the in-sync replicas of t/0 without what was committed at 1..1")
			} else {
				require.Empty(t, x.found())
			}
		}
	})
	t.Run("a follower joins with a log that was begun anew behind what is committed", func(t *testing.T) {
		for _, anew := range []bool{true, false} {
			x := newTrio(t, -1)
			x.write(1, "0a", "0b")
			x.write(2, "0a", "0b")
			x.write(3)
			x.tell(leads(1, 0, 1, 2) + "b1 log.committed t/0 - 2 0 1")
			if x.writeFrom(3, 2); anew {
				x.tell("b3 log.truncated t/0 - 0 2")
			} // else retention took it
			if x.tell(leads(1, 0, 1, 2, 3)); anew {
				x.fires(Match, "broker 3 joins the in-sync replicas of t/0 without what was committed at 0..0")
			} else {
				require.Empty(t, x.found())
			}
		}
	})
	t.Run("a follower joins with another leader", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b")
		x.write(2, "0a", "0b")
		x.write(3, "0a")
		x.tell(leads(1, 0, 1, 2) + "b1 log.committed t/0 - 2 0 1" + leads(2, 1, 2, 3))
		x.write(3, "0a", "0b")
		x.fires(Match, "broker 3 joins the in-sync replicas of t/0 without what was committed at 1..1")
	})
	t.Run("logs differ in the end", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b")
		x.write(2, "0a", "0b")
		x.write(3, "0a", "1z")
		x.tell(leads(1, 0, 1, 2) + "b1 log.committed t/0 - 2 0 1")
		x.fires(Match, "the logs of t/0 on b1, which leads, and on b3 differ: below the high watermark 2")
	})
	t.Run("one of them is empty in the end", func(t *testing.T) {
		x := newTrio(t, -1)
		x.write(1, "0a", "0b")
		x.write(2, "0a", "0b")
		x.tell(leads(1, 0, 1, 2) + "b1 log.committed t/0 - 2 0 1")
		x.fires(Match, "the logs of t/0 on b1, which leads, and on b3 differ: below the high watermark 2")
	})
	t.Run("above the high watermark they may, but not in one leader epoch", func(t *testing.T) {
		x := newTrio(t, -1)
		for b, batch := range []string{"0b", "1b", "0b"} {
			x.write(b+1, "0a", batch)
		}
		x.tell("b1 log.committed t/0 - 1 0 1")
		require.Empty(t, x.found())
		x.write(2, "0a", "0z")
		x.fires(Match, "differ: batch 1..1 of epoch 0")
	})
}

func TestAcknowledged(t *testing.T) {
	t.Run("before it is committed", func(t *testing.T) {
		x := newTrio(t, -1)
		x.tell("sent 0/0 t; acked 0/0 t/0 0")
		x.fires(Durable, "acked with acks=all at offset 0 of t/0, but no leader told")
	})
	t.Run("and gone in the end", func(t *testing.T) {
		x := newTrio(t, -1)
		x.tell("b1 log.committed t/0 - 1 0 1; sent 0/0 t; acked 0/0 t/0 0")
		x.fires(Durable, "is not there any more: its leader b1 has nothing there")
	})
	t.Run("with acks=1 nothing is owed", func(t *testing.T) {
		x := newTrio(t, 1)
		x.tell("sent 0/0 t; acked 0/0 t/0 0")
		require.Empty(t, x.found())
	})
}

func oneRecord(base int64, epoch int32, content string) []byte {
	p := make([]byte, batchHead, batchHead+len(content))
	p = append(p, content...)
	binary.BigEndian.PutUint64(p, uint64(base))
	binary.BigEndian.PutUint32(p[8:], uint32(len(p)-batchPrefix))
	binary.BigEndian.PutUint32(p[12:], uint32(epoch))
	p[16] = 2
	binary.BigEndian.PutUint32(p[57:], 1)
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[batchSummed:], castagnoli))
	return p
}
