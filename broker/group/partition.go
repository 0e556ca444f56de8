package group

import "unicode/utf16"

// PartitionOf is the partition of the offsets topic, which has n, that keeps a group: Java's hash of its name, as in Kafka, so that tools which look there find it.
func PartitionOf(group string, n int32) int32 {
	var h int32
	for _, u := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(u)
	}
	if h < 0 {
		h = -h
	}
	if h < 0 {
		h = 0 // the least number has no positive counterpart
	}
	return h % n
}
