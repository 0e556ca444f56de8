package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Meter counts what the clients of one run send and receive. All methods may be called from everywhere.
type Meter struct {
	mu       sync.Mutex
	from, to time.Duration // of the window, counted from the start of the load
	step     time.Duration // of the time line; 0: none
	result   Result
	kept     int64         // messages received in the window that were there before the load
	lastKept time.Duration // when the last such message was received
}

// Result is what one run measured.
type Result struct {
	Window        time.Duration
	Sent          int64 // messages whose sending succeeded in the window
	SentBytes     int64
	Received      int64
	ReceivedBytes int64
	Drained       time.Duration // how far into the window all that was there before the load was received and next to nothing came after it; 0: it lasted
	Refused       int64         // messages that were surely or perhaps not taken, in the whole run
	// Latency is from the moment at which a message was due, whether its client was ready or not, to the moment at which it was received, in microseconds.
	Latency  *hdrhistogram.Histogram
	TimeLine []Step
	Bands    []Band
	Usage    []Usage // the busiest first; of a simulated run
	Speed    float64 // of the processor in a real run, as a share of what a profile says; 0: unknown
}

// Step is a stretch of a time line.
type Step struct {
	At             time.Duration // its begin, from the start of the load
	Sent, Received int64
	Latency        *hdrhistogram.Histogram
}

// Band is a fault on a time line.
type Band struct {
	Name     string
	From, To time.Duration // from the start of the load
}

// Latencies are told apart up to a minute, to a thousandth of their value.
const (
	longestLatency = int64(time.Minute / time.Microsecond)
	latencyDigits  = 3
	stepDigits     = 2
)

// drainedRest is the share of messages, and of the window, that is too little to count as a load: a hundredth.
const drainedRest = 100

// NewMeter counts between two moments after the start of the load.
func NewMeter(from, to, step time.Duration) *Meter {
	return &Meter{from: from, to: to, step: step, result: Result{Window: to - from, Latency: hdrhistogram.New(1, longestLatency, latencyDigits)}}
}

// Result is what was counted so far.
func (m *Meter) Result() *Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.result
	if few := r.Received - m.kept; m.kept > 0 && few*drainedRest < m.kept && m.lastKept < m.to-r.Window/drainedRest {
		r.Drained = m.lastKept - m.from
	}
	return r
}

// early says that all that was there before the load was received before the window, and next to nothing in it.
func (m *Meter) early() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastKept > 0 && m.kept == 0 && m.result.Received < drainedRest
}

// at finds the step of a time line; one that the load does not fill is left out, it would look like a dip. The lock is held.
func (m *Meter) at(now time.Duration) *Step {
	if m.step <= 0 || now < 0 {
		return nil
	}
	i := int(now / m.step)
	if time.Duration(i+1)*m.step > m.to {
		return nil
	}
	for len(m.result.TimeLine) <= i {
		m.result.TimeLine = append(m.result.TimeLine, Step{At: time.Duration(len(m.result.TimeLine)) * m.step, Latency: hdrhistogram.New(1, longestLatency, stepDigits)})
	}
	return &m.result.TimeLine[i]
}

// sent notes a message that the system took.
func (m *Meter) sent(now time.Duration, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now >= m.from && now < m.to {
		m.result.Sent++
		m.result.SentBytes += int64(bytes)
	}
	if s := m.at(now); s != nil {
		s.Sent++
	}
}

func (m *Meter) refused() {
	m.mu.Lock()
	m.result.Refused++
	m.mu.Unlock()
}

// received notes a message that was due at a moment; a negative one: it was there before the load.
func (m *Meter) received(now, due time.Duration, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := now >= m.from && now < m.to
	if in {
		m.result.Received++
		m.result.ReceivedBytes += int64(bytes)
	}
	took := min(max((now-due).Microseconds(), 1), longestLatency)
	if due < 0 {
		m.lastKept = max(m.lastKept, now)
		if in {
			m.kept++
		}
	}
	if in && due >= 0 {
		_ = m.result.Latency.RecordValue(took)
	}
	if s := m.at(now); s != nil {
		s.Received++
		if due >= 0 {
			_ = s.Latency.RecordValue(took)
		}
	}
}
