package group

import "github.com/twmb/franz-go/pkg/kerr"

// Kafka error codes by the names that this package needs.
var (
	codeLoading              = kerr.CoordinatorLoadInProgress.Code
	codeNotAvailable         = kerr.CoordinatorNotAvailable.Code
	codeNotCoordinator       = kerr.NotCoordinator.Code
	codeUnknownPartition     = kerr.UnknownTopicOrPartition.Code
	codeMetadataTooLarge     = kerr.OffsetMetadataTooLarge.Code
	codeIllegalGeneration    = kerr.IllegalGeneration.Code
	codeInconsistentProtocol = kerr.InconsistentGroupProtocol.Code
	codeInvalidGroup         = kerr.InvalidGroupID.Code
	codeUnknownMember        = kerr.UnknownMemberID.Code
	codeInvalidSession       = kerr.InvalidSessionTimeout.Code
	codeRebalancing          = kerr.RebalanceInProgress.Code
	codeNonEmpty             = kerr.NonEmptyGroup.Code
	codeGroupNotFound        = kerr.GroupIDNotFound.Code
	codeMemberIDRequired     = kerr.MemberIDRequired.Code
	codeMaxSize              = kerr.GroupMaxSizeReached.Code
	codeFenced               = kerr.FencedInstanceID.Code
	codeUnknownTopicID       = kerr.UnknownTopicID.Code
	codeSubscribed           = kerr.GroupSubscribedToTopic.Code
)
