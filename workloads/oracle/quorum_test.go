package oracle

import (
	"strings"
	"testing"

	"faultline/workloads/history"

	"github.com/stretchr/testify/require"
)

func quorum() leaning { return judging(replicatedPromise(-1), NewQuorum) }

// eligible is leads with replicas that left while too few were in sync.
func eligible(leader, epoch int, elr string, isr ...int) string {
	return strings.Replace(leads(leader, epoch, isr...), `"controller_epoch"`, `"elr":[`+elr+`],"controller_epoch"`, 1)
}

// What is committed is on two of three replicas, of which acks=all needs as many.
func TestWhatIsCommittedIsWhereItMustBe(t *testing.T) {
	begin := threeReplicas + leads(1, 0, 1, 2, 3) + "b1 leader.began t/0 - 0 0 0; b1 log.appended t/0 - 0 5;"
	all := begin + "b2 log.appended t/0 - 0 5; b3 log.appended t/0 - 0 5;"
	const (
		up    = "start b1; start b2; start b3;"
		lost  = "power b2; +1s; start b2; b2 log.truncated t/0 - 5 2; b2 log.opened t/0 - 0 2;"
		again = `+1s; z znode.deleted /brokers/ids/2; z znode.created /brokers/ids/2 {"host":"b2","epoch":2,"clean_since":2} 22;`
	)
	back := strings.Replace(leads(1, 0, 1, 3, 2), `"id":2,"epoch":1`, `"id":2,"epoch":2`, 1)
	silent(t, quorum(), all+"b1 log.committed t/0 - 5 0 1")
	silent(t, quorum(), begin+"b2 log.appended t/0 - 0 5;"+leads(1, 0, 1, 2)+"b1 log.committed t/0 - 5 0 1")
	// It lost its tail since, and the leader has not heard of that.
	silent(t, quorum(), all+"power b2; b2#2 log.opened t/0 - 0 2; b1 log.committed t/0 - 5 0 1")
	silent(t, quorum(), up+all+lost+"b1 log.committed t/0 - 5 0 1")
	silent(t, quorum(), up+all+lost+again+"b1 log.committed t/0 - 5 0 1")
	silent(t, quorum(), up+all+lost+again+leads(1, 0, 1, 3)+"b1 log.committed t/0 - 5 0 1")
	silent(t, quorum(), up+all+lost+again+back+"b2#2 log.appended t/0 - 2 5; b1 log.committed t/0 - 5 0 1")
	// One who is deposed tells what it pleases.
	silent(t, quorum(), begin+leads(2, 1, 2, 3)+"b1 log.committed t/0 - 5 0 1")
	// A follower that hears of it later.
	silent(t, quorum(), begin+"b2 log.committed t/0 - 5 0 0")

	for _, c := range []struct{ invariant, says, story string }{
		{Match, "b3, which is in sync, has had no more than what lies below 0", begin + "b2 log.appended t/0 - 0 5; b1 log.committed t/0 - 5 0 1"},
		{Match, "b2, which is in sync, has had no more than what lies below 3", all + "b2 log.truncated t/0 - 5 3; b1 log.committed t/0 - 5 0 1"},
		{Match, "b2, which is in sync, has had no more than what lies below 2", up + all + lost + again + back + "b1 log.committed t/0 - 5 0 1"},
		{Match, "b2, which is in sync, has had no more than what lies below 3", up + begin + "b2 log.appended t/0 - 0 3; b3 log.appended t/0 - 0 5;" + lost + "b1 log.committed t/0 - 5 0 1"},
		{Match, "b2, which is in sync, has had no more than what lies below 2", up + all + lost + "b2 log.truncated t/0 - 2 1; b2 log.appended t/0 - 1 2; b1 log.committed t/0 - 5 0 1"},
		{Match, "b3, which is eligible, has had no more than what lies below 2", begin + "b2 log.appended t/0 - 0 5; b3 log.appended t/0 - 0 2; crash b3;" + eligible(1, 0, `{"id":3,"epoch":1}`, 1) + "b1 log.committed t/0 - 5 0 1"},
		{HighMark, "only 1 replicas have had it; acks=all needs 2", begin + leads(1, 0, 1) + "b1 log.committed t/0 - 5 0 1"},
	} {
		fires(t, quorum(), c.invariant, c.says, c.story)
	}
}

func TestNothingIsCommittedWhileTooFewAreInSync(t *testing.T) {
	begin := threeReplicas + leads(1, 0, 1, 2, 3) + "b1 leader.began t/0 - 0 0 0; b1 log.appended t/0 - 0 5; b2 log.appended t/0 - 0 5; b3 log.appended t/0 - 0 5;"
	alone := eligible(1, 0, `{"id":2,"epoch":1},{"id":3,"epoch":1}`, 1)
	told := "b1 log.committed t/0 - 5 0 1"
	judgedAt := func(version int32, writer, after string) []Violation {
		o := quorum()
		s := newStory(t, o)
		s.tell(begin + at(1, alone) + at(2, alone))
		if writer != "" {
			_, state, _ := strings.Cut(alone, "/state ")
			s.rec.CoordCalled(s.who("b1"), &history.CoordCall{Op: "multi", Ops: []history.CoordCall{{Op: "check", Path: writer}, {Op: "set", Path: "/brokers/topics/t/state", Version: version, Data: []byte(state)}}})
		}
		s.tell(after)
		return o.Violations()
	}
	judged := func(writer, after string) []Violation { return judgedAt(0, writer, after) }
	const leader, controller = "/brokers/epochs/1", "/controller_epoch"
	fired := judged(leader, "+1s;"+told)
	require.Len(t, fired, 1)
	require.Equal(t, HighMark, fired[0].Invariant)
	require.Contains(t, fired[0].Message, "since 0s it knows that only 1 replicas are in sync; acks=all needs 2")
	for after, writer := range map[string]string{
		told:                               leader,     // it was under way
		"+1s;   " + told:                   "",         // it has not heard of what the controller wrote
		"+1s;  " + told:                    controller, // its own broker is the controller, but not the one who leads
		"+1s;" + leads(1, 0, 1, 2) + told:  leader,     // somebody came back
		"pause b1; +1s; resume b1;" + told: leader,
	} {
		require.Empty(t, judged(writer, after), after)
	}

	require.Empty(t, judgedAt(1, leader, "+1s;"+told), "its broker wrote what it leads besides, and found this there")

	// A leader that begins alone knows it.
	elected := begin + eligible(2, 1, `{"id":3,"epoch":1}`, 2) + "b2 leader.began t/0 - 1 5 0;"
	fires(t, quorum(), HighMark, "in its leader epoch 1 there were never more than 1 replicas in sync", elected+"b2 log.committed t/0 - 5 1 1")
	silent(t, quorum(), elected+leads(2, 1, 2, 3)+"b2 log.committed t/0 - 5 1 1")
	one := replicatedPromise(-1)
	one.Topics[0].MinISR = 1
	silent(t, judging(one, NewQuorum), elected+"b2 log.committed t/0 - 5 1 1")
}

// A reassignment takes a replica out when all that stay are in sync.
func TestWhoStaysIsInSync(t *testing.T) {
	topic := func(replicas string) string {
		return `z znode.set /brokers/topics/t {"partitions":{"0":[` + replicas + `]}};`
	}
	begin := threeReplicas + leads(1, 0, 1, 2, 3)
	silent(t, quorum(), begin+leads(1, 1, 1, 2)+topic("1,2"))
	silent(t, quorum(), begin+leads(1, 0, 1)+topic("1,2,3,4"))
	fires(t, quorum(), Durable, "broker 3 is no replica of t/0 any more, though broker 2, which stays, is not in sync", begin+leads(1, 1, 1)+topic("1,2"))
}
