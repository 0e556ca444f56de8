//go:build !race

package coord_test

const raceDetector = false
