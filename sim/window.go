package sim

import "time"

// Window is a stretch of world time in which devices count how long they are busy. The zero value holds nothing.
type Window struct{ From, To time.Duration }

// Holds is how much of the time from begin to end lies in the window.
func (w Window) Holds(begin, end time.Duration) time.Duration {
	return max(0, min(end, w.To)-max(begin, w.From))
}
