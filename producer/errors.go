package producer

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"faultline/broker/client"
)

var (
	// ErrUnknown: the record may or may not be in the log, or still come to be there. Every other error says that it surely is not.
	ErrUnknown = errors.New("delivery unknown")
	// ErrTooLarge: the record alone is more than the broker accepts, or than the buffer holds.
	ErrTooLarge = errors.New("record too large")
	// ErrTimedOut: the record was not sent, or not sent again, within DeliveryTimeout.
	ErrTimedOut = errors.New("delivery timed out")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("producer is closed")
	// ErrNoPartition: the topic has no partition of that number.
	ErrNoPartition = errors.New("no such partition")

	errMisfortune = errors.New("failpoint")
	errEncode     = errors.New("the batch cannot be encoded")
)

// verdict is what an error says about a batch.
type verdict struct {
	unknown bool // it may be in the log
	retry   bool // sending it again may help
	refresh bool // the metadata may be wrong
	split   bool // it is too large
}

// judge tells what an error of a request, or an error code of a partition, means. Where nothing is known for sure, the outcome is unknown: a broker may fail at
// any step, also after the append.
func judge(err error) verdict {
	switch {
	case errors.Is(err, client.ErrNotSent), errors.Is(err, client.ErrNoLeader), errors.Is(err, client.ErrUnknownTopic):
		return verdict{retry: true, refresh: true}
	case errors.Is(err, client.ErrUnknown):
		return verdict{unknown: true, retry: true, refresh: true}
	}
	var code *kerr.Error
	if !errors.As(err, &code) {
		return verdict{unknown: true}
	}
	switch code {
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return verdict{split: true}
	case kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.LeaderNotAvailable, kerr.ReplicaNotAvailable:
		return verdict{retry: true, refresh: true}
	case kerr.CorruptMessage, kerr.NotEnoughReplicas: // refused before the append
		return verdict{retry: true}
	case kerr.InvalidTopicException, kerr.InvalidRequiredAcks, kerr.InvalidTimestamp, kerr.InvalidRecord, kerr.InvalidRequest,
		kerr.UnsupportedVersion, kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType, kerr.PolicyViolation,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed:
		return verdict{}
	}
	return verdict{unknown: true, retry: code.Retriable, refresh: true}
}

// final is the error that the application gets.
func final(err error, unknown bool) error {
	if unknown {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
