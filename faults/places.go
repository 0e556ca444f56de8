package faults

// Places are the failpoints in the programs, where a misfortune may strike. A test holds the list against the sources.
var Places = []string{
	"fault/consumer/begin",
	"fault/consumer/claimed",
	"fault/consumer/commit",
	"fault/consumer/commit-again",
	"fault/consumer/fetched",
	"fault/consumer/rebalance",
	"fault/consumer/release",
	"fault/consumer/release-commit",
	"fault/consumer/retry",
	"fault/coord/drop-reply",
	"fault/coord/slow-fsync",
	"fault/coord/slow-ping",
	"fault/log/append-slow",
	"fault/log/append-unpublished",
	"fault/log/delete-slow",
	"fault/log/flush-slow",
	"fault/log/flush-unpublished",
	"fault/log/open-slow",
	"fault/log/read-one",
	"fault/log/roll-slow",
	"fault/producer/answer",
	"fault/producer/send",
}
