package oracle

import (
	"testing"
	"time"
)

func TestUnflushedRecordsStayHidden(t *testing.T) {
	f := twoFlushed(t)
	f.put(1, "three")
	f.fetched(0, 5, f.w.Now(), f.w.Now(), forged(0, 2, 0, "one"), forged(2, 3, 0, "two"))
	f.silent()
}

func TestUnflushedRecordsAreMadeVisible(t *testing.T) {
	f := twoFlushed(t)
	f.put(1, "three")
	f.visible(6)
	f.fires(Dirty, "made records up to 5 visible, but only those below 5 are flushed")
}

func TestUnflushedRecordsAreServed(t *testing.T) {
	f := twoFlushed(t)
	f.put(1, "three")
	f.pass(time.Second)
	f.fetched(5, 6, f.w.Now(), f.w.Now(), forged(5, 1, 0, "three"))
	f.fires(Dirty, "consumer-1 was shown that visits/0 reaches 6, but only records below 5 were flushed")
}

func TestUnflushedRecordsAreServedAndFlushedMeanwhile(t *testing.T) {
	f := twoFlushed(t)
	f.dirty.Delay = 2 * time.Millisecond
	f.put(1, "three")
	f.pass(time.Second)
	start := f.w.Now()
	f.sync() // takes less than a reply does
	f.visible(6)
	f.fetched(5, 6, start, f.w.Now(), forged(5, 1, 0, "three"))
	f.fires(Dirty, "consumer-1 was shown that visits/0 reaches 6")
	f = twoFlushed(t)
	f.dirty.Delay = 2 * time.Millisecond
	f.put(1, "three")
	f.sync()
	f.visible(6)
	start = f.w.Now()
	f.pass(3 * time.Millisecond)
	f.fetched(5, 6, start, f.w.Now(), forged(5, 1, 0, "three"))
	f.silent()
}

func TestRecordsAboveTheirOwnHighWatermark(t *testing.T) {
	f := twoFlushed(t)
	f.fetched(0, 2, f.w.Now(), f.w.Now(), forged(0, 2, 0, "one"), forged(2, 3, 0, "two"))
	f.fires(Dirty, "got records of visits/0 up to 4, with a high watermark of 2")
}
