package broker

import (
	"errors"

	"faultline/broker/log"
	"faultline/broker/record"
	"faultline/broker/sequence"
	coord "faultline/coord/client"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Kafka error codes by the names that this package needs.
var (
	codeUnknown                  = kerr.UnknownServerError.Code
	codeOffsetOutOfRange         = kerr.OffsetOutOfRange.Code
	codeCorruptMessage           = kerr.CorruptMessage.Code
	codeUnknownTopicOrPartition  = kerr.UnknownTopicOrPartition.Code
	codeLeaderNotAvailable       = kerr.LeaderNotAvailable.Code
	codeNotLeader                = kerr.NotLeaderForPartition.Code
	codeRequestTimedOut          = kerr.RequestTimedOut.Code
	codeMessageTooLarge          = kerr.MessageTooLarge.Code
	codeInvalidTopic             = kerr.InvalidTopicException.Code
	codeInvalidRequiredAcks      = kerr.InvalidRequiredAcks.Code
	codeUnsupportedVersion       = kerr.UnsupportedVersion.Code
	codeTopicAlreadyExists       = kerr.TopicAlreadyExists.Code
	codeInvalidPartitions        = kerr.InvalidPartitions.Code
	codeInvalidReplicationFactor = kerr.InvalidReplicationFactor.Code
	codeInvalidReplicaAssignment = kerr.InvalidReplicaAssignment.Code
	codeInvalidConfig            = kerr.InvalidConfig.Code
	codeInvalidRequest           = kerr.InvalidRequest.Code
	codeUnsupportedFormat        = kerr.UnsupportedForMessageFormat.Code
	codeStorageError             = kerr.KafkaStorageError.Code
	codeFetchSessionIDNotFound   = kerr.FetchSessionIDNotFound.Code
	codeUnknownLeaderEpoch       = kerr.UnknownLeaderEpoch.Code
	codeInvalidRecord            = kerr.InvalidRecord.Code
	codeUnknownTopicID           = kerr.UnknownTopicID.Code
	codeNotEnoughReplicas        = kerr.NotEnoughReplicas.Code
	codeNotCoordinator           = kerr.NotCoordinator.Code
	codeCoordinatorNotAvailable  = kerr.CoordinatorNotAvailable.Code
	codeUnknownProducerID        = kerr.UnknownProducerID.Code
	codeOutOfOrderSequence       = kerr.OutOfOrderSequenceNumber.Code
	codeDuplicateSequence        = kerr.DuplicateSequenceNumber.Code
	codeInvalidProducerEpoch     = kerr.InvalidProducerEpoch.Code
	codeNotController            = kerr.NotController.Code
	codeNoReassignment           = kerr.NoReassignmentInProgress.Code
	codeElectionNotNeeded        = kerr.ElectionNotNeeded.Code
	codePreferredNotAvailable    = kerr.PreferredLeaderNotAvailable.Code
	codeFencedLeaderEpoch        = kerr.FencedLeaderEpoch.Code
	codeOffsetNotAvailable       = kerr.OffsetNotAvailable.Code
)

// appendCode is the code for an error of Log.Append. Only codeStorageError leaves open whether the records are in the log.
func appendCode(err error) int16 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrPartial):
		return codeCorruptMessage
	case errors.Is(err, record.ErrInvalid):
		return codeInvalidRecord
	case errors.Is(err, sequence.ErrOutOfOrder):
		return codeOutOfOrderSequence
	case errors.Is(err, sequence.ErrUnknown):
		return codeUnknownProducerID
	case errors.Is(err, sequence.ErrDuplicate):
		return codeDuplicateSequence
	case errors.Is(err, sequence.ErrFenced):
		return codeInvalidProducerEpoch
	case errors.Is(err, log.ErrTooLarge):
		return codeMessageTooLarge
	case errors.Is(err, log.ErrClosed), errors.Is(err, log.ErrOldEpoch):
		return codeNotLeader // dropped, deposed, or the broker stops: look for another
	}
	return codeStorageError
}

// flushCode is the code for an error of Log.WaitVisible: the records were appended, and whether they last is not known.
func flushCode(err error) int16 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, log.ErrFenced):
		return codeStorageError
	}
	return codeRequestTimedOut // out of time, or closed
}

// coordCode is the code for a registry operation that failed for a reason of the coordination service.
func coordCode(err error) int16 {
	if errors.Is(err, coord.ErrConnectionLoss) || errors.Is(err, coord.ErrNotConnected) || errors.Is(err, coord.ErrSessionExpired) || errors.Is(err, coord.ErrClosed) {
		return codeRequestTimedOut
	}
	return codeUnknown
}
