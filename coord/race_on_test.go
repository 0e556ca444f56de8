//go:build race

package coord_test

// The race detector finds a race inside the real client when it arms watches again (it reads its last zxid while its receiving goroutine writes it), and makes
// simulated worlds, which have no concurrency, slow.
const raceDetector = true
