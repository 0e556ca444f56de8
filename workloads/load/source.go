// Package load makes the load of a run: where messages come from ([Source]), and which of them are still owed to the log ([Feed]). Whoever runs
// the producers takes messages from the feed, at a rate of its own, and tells it how each attempt ended.
package load

// Source makes messages, one after the other. Its content does not depend on when it is asked, but for timestamps in it.
type Source interface {
	// Next returns the next message. ok is false after the last and after an error. Both slices are valid until the next
	// call; a nil key means a message without key.
	Next() (key, value []byte, ok bool)
	// Err tells why Next returned false: nil after the last message.
	Err() error
}
