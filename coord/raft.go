package coord

import (
	"fmt"

	// go.etcd.io/raft/v3 v3.7.0, as a pure state machine (RawNode). Read for what a world cannot bear:
	//
	//   - goroutines and clocks: only in raft.Node, which is not used; RawNode has none. Time reaches it by Tick, which is never called
	//     here: heartbeats, the check of the quorum and elections are asked for by elector, from the machine's Uptime and seeded streams.
	//   - randomness: the library draws an election time-out from crypto/rand at every change of role. It is compared with a counter that
	//     only Tick moves, and ElectionTick is out of reach besides, so the draw decides nothing (a test replaces crypto/rand's source).
	//   - maps: votes, acknowledgements and members are kept in maps; wherever their order could reach a message they are sorted, elsewhere they
	//     are counted.
	//   - locks: the mutex around the random source, never contended long enough to matter, and that of MemoryStorage, which is not used.
	//   - logging: to quiet, below. What it calls a panic is one: a state that must not go on.
	//
	// Its messages are protobuf structs; they travel in an encoding of our own (raftmsg.go), so that no reflection is in the way.
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

const (
	maxAppendBytes   = 1 << 20 // of entries in one message
	maxInflightBytes = 4 << 20 // of entries on their way to one server
	maxInflight      = 256     // messages on their way to one server
	neverTicks       = 1 << 40 // Tick is not called; if it were, this many times
)

// newNode makes the library's state machine for a server.
func newNode(id uint64, log *raftLog, applied uint64) (*raft.RawNode, error) {
	n, err := raft.NewRawNode(&raft.Config{
		ID: id, Storage: log, Applied: applied,
		ElectionTick: neverTicks, HeartbeatTick: 1,
		AsyncStorageWrites: true,
		MaxSizePerMsg:      maxAppendBytes, MaxCommittedSizePerReady: 16 << 20,
		MaxInflightMsgs: maxInflight, MaxInflightBytes: maxInflightBytes,
		// Who has been alone may not disturb the others by a higher term. The library's own lease for that counts ticks; see elector.Leased.
		PreVote: true, CheckQuorum: false,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		Logger:                    quiet{},
	})
	if err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	return n, nil
}

// local makes a message that asks the library for what Tick would: RawNode takes such messages from its storage tasks only, as which we pose.
func local(t raftpb.MessageType) *raftpb.Message {
	from := raft.LocalAppendThread
	return &raftpb.Message{Type: &t, From: &from}
}

// quiet is where the library's log goes: nowhere. What it says is seen in the traces of servers.
type quiet struct{}

func (quiet) Debug(...any)            {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Info(...any)             {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warning(...any)          {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Error(...any)            {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Fatal(v ...any)          { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
