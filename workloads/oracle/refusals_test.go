package oracle

import "testing"

func TestRefusalsNeedADiskThatFails(t *testing.T) {
	refused := "refused b1 t/0 56; "
	const text = "b1 refused a fetch request for t/0 with a storage error, though its disk did not fail"
	fires(t, NewRefusals(calmly()), Live, text, refused)
	fires(t, NewRefusals(calmly()), Live, text, "fault 1 {fault: disk-short, target: b1}; fault 2 {fault: disk-slow, target: b1}; crash b1; start b1;"+refused)
	fires(t, NewRefusals(calmly()), Live, text, "fault 1 {fault: disk-error, target: b1}; healed 1 {}; +4s;"+refused)
	fires(t, NewRefusals(calmly()), Live, text, "b2 log.failed t/1;"+refused)
	silent(t, NewRefusals(calmly()), "fault 1 {fault: disk-error, target: b1};"+refused)
	silent(t, NewRefusals(calmly()), "fault 1 {fault: disk-full, target: b1}; healed 1 {}; +2s;"+refused)
	silent(t, NewRefusals(calmly()), "fault 1 {fault: disk-error, target: b1}; +9s; phase heal; +2s;"+refused)
	silent(t, NewRefusals(calmly()), "b1 log.failed t/1; +2s;"+refused)
	silent(t, NewRefusals(calmly()), "refused b1 t/0 0; refused b1 t/0 6; refused b1 t/0 1")
	small := calmly()
	small.Small = true
	silent(t, NewRefusals(small), refused)
	if got := judge(t, NewRefusals(calmly()), refused+refused); len(got) != 1 {
		t.Fatal("told once a partition", got)
	}
}
