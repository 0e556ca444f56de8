package faults

import (
	"fmt"
	"slices"
	"time"

	"faultline/faults/quantity"
)

const (
	ms = time.Millisecond
	sc = time.Second
)

func drawCrash(d *drawer) Fault {
	f := hit(Crash, d.one("broker", "broker", "consumer", "consumer", "coord"))
	f.For = d.span(50*ms, 4*sc) // from far below a session time-out to above it
	return f
}

func drawPower(d *drawer) Fault {
	f := hit(PowerLoss, d.one("broker", "broker", "broker", "coord", "consumer"))
	f.For = d.span(100*ms, 4*sc)
	return f
}

func drawPause(d *drawer) Fault {
	f := hit(Pause, d.one("broker", "consumer", "consumer", "coord", "producer"))
	f.For = d.span(50*ms, 5*sc)
	if s := d.env.Session; s > 0 && slices.Contains(d.env.Machines["coord"], f.Target) && d.rng.IntN(2) == 0 {
		f.For = d.between(s, 2*s+sc) // it wakes up when every session is overdue, its clients' pings unread
	}
	return f
}

func drawPartition(d *drawer) Fault {
	var f Fault
	switch d.rng.IntN(4) {
	case 0:
		f = hit(Isolate, d.one("broker", "consumer", "producer"))
	case 1:
		f = hit(Isolate, d.some())
	case 2:
		f = hit(Partition, d.one("broker", "consumer"))
		f.Peer = d.one("coord")
	default:
		f = hit(Partition, d.one("producer", "consumer"))
		f.Peer = d.one("broker")
	}
	f.Way, f.For = d.way(), d.span(100*ms, 5*sc)
	return f
}

func drawSlowLink(d *drawer) Fault {
	f := hit(SlowLink, d.one("broker", "consumer", "producer", "coord"))
	f.Way, f.For = d.way(), d.span(200*ms, 5*sc)
	switch d.rng.IntN(4) {
	case 0:
		f.Kind, f.For = Clog, d.span(50*ms, 3*sc)
	case 1:
		f.Bandwidth = quantity.Just(quantity.Bandwidth(1<<10) * quantity.Bandwidth(16<<d.rng.IntN(7)))
	default:
		f.Latency = d.span(2*ms, 500*ms)
	}
	return f
}

func drawReset(d *drawer) Fault {
	return hit(Reset, d.one("broker", "broker", "consumer", "coord", "producer"))
}

func drawSession(d *drawer) Fault {
	return hit(SessionExpiry, d.one("consumer", "consumer", "broker"))
}

func drawClock(d *drawer) Fault {
	f := hit(ClockJump, d.one("broker", "consumer", "producer", "coord"))
	if d.rng.IntN(2) == 0 {
		f.By = d.span(10*ms, 4*sc)
		if d.rng.IntN(2) == 0 {
			f.By = quantity.Just(-f.By.V())
		}
		return f
	}
	f.Kind, f.For = ClockDrift, d.span(500*ms, 8*sc)
	f.Drift = d.percent(1, 5)
	if d.rng.IntN(2) == 0 {
		f.Drift = quantity.Just(-f.Drift.V())
	}
	return f
}

func drawDiskError(d *drawer) Fault {
	f := hit(DiskErrors, d.one("broker", "broker", "coord"))
	f.Op = []string{"", "write", "fsync", "read"}[d.rng.IntN(4)]
	f.For = d.span(100*ms, 3*sc)
	if d.rng.IntN(2) == 0 {
		f.Count = quantity.Just(quantity.Count(1 + d.rng.IntN(3)))
	} else {
		f.Probability = d.percent(1, 20)
	}
	return f
}

func drawDiskFull(d *drawer) Fault {
	f := hit(FullDisk, d.one("broker", "broker", "coord"))
	f.For = d.span(100*ms, 3*sc)
	return f
}

func drawDiskShort(d *drawer) Fault {
	f := hit(ShortDisk, d.one("broker", "broker", "coord"))
	f.Op = []string{"", "write", "read"}[d.rng.IntN(3)]
	f.For, f.Probability = d.span(500*ms, 5*sc), d.percent(5, 60)
	return f
}

func drawDiskSlow(d *drawer) Fault {
	f := hit(SlowDisk, d.one("broker", "broker", "coord"))
	f.Op = []string{"", "fsync", "write", "read"}[d.rng.IntN(4)]
	if d.rng.IntN(3) == 0 {
		f.Kind, f.For = StalledDisk, d.span(50*ms, 2*sc)
		return f
	}
	f.For, f.Latency, f.Probability = d.span(200*ms, 5*sc), d.span(1*ms, 300*ms), d.percent(10, 100)
	return f
}

func drawSlowCPU(d *drawer) Fault {
	f := hit(SlowCPU, d.one("broker", "consumer", "producer", "coord"))
	f.For, f.Factor = d.span(200*ms, 5*sc), quantity.Just(quantity.Count(int64(2)<<d.rng.IntN(6)))
	return f
}

func drawChurn(d *drawer) Fault {
	if len(d.env.Spare) > 0 && d.rng.IntN(2) == 0 {
		f := hit(Start, d.env.Spare[d.rng.IntN(len(d.env.Spare))])
		if d.rng.IntN(2) == 0 {
			f.For = d.span(200*ms, 5*sc)
		}
		return f
	}
	f := hit(Stop, d.one("consumer", "consumer", "consumer", "broker"))
	f.For = d.span(50*ms, 4*sc)
	return f
}

// maxGrowth bounds the partitions that a drawn fault gives a topic.
const maxGrowth = 16

func drawTopics(d *drawer) Fault {
	if len(d.env.Topics) > 0 && d.rng.IntN(3) > 0 {
		t := d.env.Topics[d.rng.IntN(len(d.env.Topics))]
		more := t.Partitions + 1 + d.rng.IntN(3)
		if more > maxGrowth {
			return Fault{}
		}
		return Fault{Kind: AddPartitions, Topic: t.Name, Partitions: quantity.Just(quantity.Count(more))}
	}
	name := fmt.Sprintf("extra-%d", d.number)
	if slices.ContainsFunc(d.env.Topics, func(t TopicInfo) bool { return t.Name == name }) {
		return Fault{}
	}
	return Fault{Kind: CreateTopic, Topic: name, Partitions: quantity.Just(quantity.Count(1 + d.rng.IntN(4)))}
}
