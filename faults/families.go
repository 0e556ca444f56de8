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
	if spares := d.env.spares("consumer"); len(spares) > 0 && d.rng.IntN(2) == 0 {
		f := hit(Start, spares[d.rng.IntN(len(spares))])
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

// mostOfOne bounds the faults that one draw of a family gives.
const mostOfOne = 20

func drawRack(d *drawer) Fault {
	rack := fmt.Sprintf("%s-%d", rackRole, 1+d.rng.IntN(max(1, d.env.Racks)))
	f := hit([]Kind{PowerLoss, PowerLoss, Isolate}[d.rng.IntN(3)], rack)
	f.For = d.span(200*ms, 4*sc)
	return f
}

// drawRolling restarts few machines one after the other: their number bounds how many faults it gives.
func drawRolling(d *drawer) []Fault {
	f := hit(RollingRestart, []string{"broker-*", "broker-*", "consumer-*", "coord-*, broker-*"}[d.rng.IntN(4)])
	f.For, f.Gap = d.span(50*ms, 2*sc), d.span(50*ms, 1*sc)
	f.How = []string{"", "crash", "power-loss"}[d.rng.IntN(3)]
	return few(f.visits(d.rng, d.env))
}

func drawSwizzle(d *drawer) []Fault {
	f := hit(SwizzleClog, d.some())
	f.For, f.Gap = d.span(50*ms, 2*sc), d.span(10*ms, 500*ms)
	return few(f.visits(d.rng, d.env))
}

func few(list []Fault) []Fault { return list[:min(len(list), mostOfOne)] }

func drawFreeze(d *drawer) Fault {
	f := hit(Freeze, d.one("broker", "broker", "consumer", "consumer", "coord", "producer"))
	f.For = d.span(50*ms, 5*sc)
	return f
}

func drawFlapping(d *drawer) []Fault {
	f := hit(Isolate, d.one("broker", "broker", "consumer", "producer"))
	if d.rng.IntN(2) == 0 {
		f = hit(Partition, d.one("broker", "consumer"))
		f.Peer = d.one("coord")
	}
	f.Way = d.way()
	var out []Fault
	at := quantity.Duration(0)
	for range 2 + d.rng.IntN(8) {
		f.At, f.For = quantity.Just(at), d.span(10*ms, 500*ms)
		out = append(out, f)
		at += f.For.V() + d.span(10*ms, 800*ms).V()
	}
	return out
}

func drawJitter(d *drawer) Fault {
	f := hit(SlowLink, d.one("broker", "consumer", "producer", "coord"))
	f.Way, f.For = d.way(), d.span(500*ms, 5*sc)
	f.Latency, f.Spread = d.span(1*ms, 20*ms), d.span(10*ms, 2*sc)
	f.Shape = []string{"uniform", "heavy-tail", "heavy-tail"}[d.rng.IntN(3)]
	return f
}

func drawLoss(d *drawer) Fault {
	f := hit(Loss, d.one("broker", "consumer", "producer", "coord"))
	f.Way, f.For, f.Probability = d.way(), d.span(500*ms, 6*sc), d.percent(1, 30)
	return f
}

func drawCut(d *drawer) Fault {
	f := hit(Cut, d.one("broker", "broker", "consumer", "coord", "producer"))
	f.After = quantity.Just(quantity.Bytes(1 + d.rng.IntN(8<<10)))
	return f
}

func drawDiskEntry(d *drawer) Fault {
	f := hit(DiskErrors, d.one("broker", "broker", "coord"))
	f.Op = []string{"open", "create", "mkdir", "remove", "rename", "readdir", "stat", "syncdir", "truncate", "all"}[d.rng.IntN(10)]
	f.For = d.span(100*ms, 3*sc)
	if d.rng.IntN(2) == 0 {
		f.Count = quantity.Just(quantity.Count(1 + d.rng.IntN(3)))
	} else {
		f.Probability = d.percent(1, 30)
	}
	return f
}

func drawDiskBudget(d *drawer) Fault {
	f := hit(FullDisk, d.one("broker", "broker", "coord"))
	f.For, f.Free = d.span(500*ms, 5*sc), quantity.Just(quantity.Bytes(4<<10)<<d.rng.IntN(7))
	return f
}

func drawDiskHiccup(d *drawer) Fault {
	f := hit(StalledDisk, d.one("broker", "broker", "coord"))
	f.Op = []string{"", "fsync", "write", "read", "all"}[d.rng.IntN(5)]
	f.For, f.Count = d.span(100*ms, 3*sc), quantity.Just(quantity.Count(1+d.rng.IntN(3)))
	return f
}

// drawBrokers starts a spare broker and, a little later, gives it something to lead.
func drawBrokers(d *drawer) []Fault {
	spares := d.env.spares("broker")
	if len(spares) == 0 {
		return nil
	}
	out := []Fault{hit(Start, spares[d.rng.IntN(len(spares))])}
	grow := Fault{Kind: CreateTopic, Topic: fmt.Sprintf("wide-%d", d.number), Partitions: quantity.Just(quantity.Count(2 + d.rng.IntN(6)))}
	if len(d.env.Topics) > 0 && d.rng.IntN(2) == 0 {
		t := d.env.Topics[d.rng.IntN(len(d.env.Topics))]
		grow = Fault{Kind: AddPartitions, Topic: t.Name, Partitions: quantity.Just(quantity.Count(min(maxGrowth, t.Partitions+1+d.rng.IntN(4))))}
	} else if slices.ContainsFunc(d.env.Topics, func(t TopicInfo) bool { return t.Name == grow.Topic }) {
		return out
	}
	grow.At = d.span(200*ms, 2*sc)
	return append(out, grow)
}

// holder is a machine whose disk is to be ruined: a broker, or now and then a server of an ensemble. The only server of a coordination service is spared, for its disk is all there is
// of the registry.
func (d *drawer) holder() string {
	if len(d.env.Machines["coord"]) > 1 && d.rng.IntN(8) == 0 {
		return d.one("coord")
	}
	return d.one("broker")
}

func drawRot(d *drawer) Fault {
	f := hit(BitRot, d.holder())
	f.For, f.Probability = d.span(500*ms, 5*sc), quantity.Just(quantity.Percent(100<<d.rng.IntN(10))) // 0.01% to 5%
	f.Path = []string{"", "*.log", "*.log", "*.index"}[d.rng.IntN(4)]
	return f
}

func drawMisdirect(d *drawer) Fault {
	f := hit(Misdirected, d.holder())
	f.For = d.span(500*ms, 5*sc)
	if d.rng.IntN(2) == 0 {
		f.Count = quantity.Just(quantity.Count(1 + d.rng.IntN(3)))
	} else {
		f.Probability = d.percent(1, 20)
	}
	return f
}

// drawLie lets a disk lie, and mostly the power fail while it does or soon after: without that nobody would notice.
func drawLie(d *drawer) []Fault {
	f := hit(LyingDisk, d.holder())
	if f.Kind == "" {
		return nil
	}
	f.For = d.span(500*ms, 5*sc)
	out := []Fault{f}
	if d.rng.IntN(4) > 0 {
		p := hit(PowerLoss, f.Target)
		p.At, p.For = d.span(100*ms, 5*sc), d.span(100*ms, 2*sc)
		out = append(out, p)
	}
	return out
}

func drawReplace(d *drawer) Fault {
	f := hit(ReplaceDisk, d.holder())
	f.For = d.span(200*ms, 3*sc)
	return f
}

// headers is more than what precedes the records in a message between clients and brokers, mostly. What follows has a checksum.
const headers = 1 << 10

func drawWire(d *drawer) Fault {
	f := hit(Corruption, d.one("producer", "consumer"))
	f.Peer = d.one("broker")
	f.Way, f.For, f.Probability, f.After = d.way(), d.span(500*ms, 4*sc), d.percent(1, 20), quantity.Just(quantity.Bytes(headers))
	return f
}
