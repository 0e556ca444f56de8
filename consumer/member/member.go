package member

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"faultline/consumer/assign"

	"github.com/twmb/franz-go/pkg/kmsg" // encoders and decoders of generated code: no goroutine, clock, randomness or map
)

// Config says who the member is. All fields but Instance are required.
type Config struct {
	Group     string
	Instance  string // group.instance.id of a static member (KIP-345), empty: dynamic
	Topics    []string
	Assignors []*assign.Assignor // the first is the one it likes best

	Session    time.Duration // without a sign of life for so long it is no member any more
	Rebalance  time.Duration // how long the others wait for it in a rebalance
	Heartbeat  time.Duration // from one heartbeat to the next
	Backoff    time.Duration // pause after the first failure; it doubles with each further one in a row, up to BackoffMax
	BackoffMax time.Duration
}

// Never is later than any time.
const Never = time.Duration(math.MaxInt64)

// Step is what is to be done next.
type Step struct {
	Kind       Kind
	Partitions []assign.Partition // of GiveUp and Take, sorted
	Lost       bool               // GiveUp: others may own them already; nothing can be committed
	Until      time.Duration      // Wait
}

// Kind of a step.
type Kind int8

const (
	Wait   Kind = iota // for an event, or until the time
	Find               // the coordinator; then Found
	GiveUp             // partitions; then GaveUp
	Join               // JoinRequest; then Joined
	Plan               // as leader, the assignment: Members; then Planned
	Sync               // SyncRequest; then Synced
	Take               // partitions, from the committed offsets on; then Took. Stop when Taking says no
	Leave              // LeaveRequest; then Left
	Fail               // it can be no member: Err says why
)

type stage int8

const (
	out    stage = iota // not in any generation
	joined              // in a generation whose assignment it does not know
	synced              // knows its assignment, and has not taken it
	in                  // owns what it was given
)

// Member is one member of one group.
type Member struct {
	cfg         Config
	cooperative bool

	coordinator string // address; empty: not known
	id          string
	known       bool // it was synced by this id, so that every later coordinator knows it
	generation  int32
	stage       stage
	rejoin      bool          // it must join (again). It stays so until a join is answered (KAFKA-9815)
	joining     bool          // a join was sent and not answered
	attempts    int           // joins so far
	sent        time.Duration // of the join or sync under way
	asking      bool          // joins were sent and none answered
	asked       time.Duration // of the first of these
	protocol    *assign.Assignor
	leads, skip bool
	members     []assign.Member
	plan        []kmsg.SyncGroupRequestGroupAssignment
	divided     map[string]int32 // as leader: how many partitions of each topic the plan of this generation is for; nil: not known

	target []assign.Partition // what it was given
	said   []assign.Partition // what it told the group that it owns, in its last join
	shrank bool               // some of that went to nobody, because it had it
	// rest: as leader, this one left partitions to nobody, because they had an owner; or it cannot know whether an earlier leader did, or what that one's plan was for. Who had them joins again when it has given them up. A static one that
	// restarted meanwhile does not know that it should: then the leader sees to it, at followUp (0: there is nothing to follow up).
	rest     bool
	followUp time.Duration
	owned    []assign.Partition // what it took
	ownedIn  int32              // in which generation
	had      []assign.Partition // what it owned last, for an eager assignor that wants to know

	lost  bool // others may own what it owns
	away  bool // the application takes too long: it is no member until that is over
	left  bool // while away: the coordinator was told
	lease time.Duration
	beat  time.Duration // the next heartbeat is due

	failures  int
	notBefore time.Duration
	err       error
}

// New is a member that has not joined yet.
func New(cfg Config) *Member {
	m := &Member{cfg: cfg, generation: -1, rejoin: true, cooperative: true}
	for _, a := range cfg.Assignors {
		m.cooperative = m.cooperative && a.Cooperative()
	}
	return m
}

// ID is the member id, empty as long as the coordinator has not given one. Generation is -1 outside of any.
func (m *Member) ID() string        { return m.id }
func (m *Member) Generation() int32 { return m.generation }

// Coordinator is the coordinator's address, empty: not known.
func (m *Member) Coordinator() string { return m.coordinator }

// Leads tells whether the member leads its generation, and so must see to it that new partitions are given to somebody.
func (m *Member) Leads() bool { return m.leads && m.stage == in }

// Divided is how many partitions of each topic the plan of the generation that it leads is for. Topics with more have partitions that nobody owns: then it must join again.
func (m *Member) Divided() map[string]int32 { return m.divided }

// Owned is what the member took, sorted.
func (m *Member) Owned() []assign.Partition { return m.owned }

// Err says why it can be no member.
func (m *Member) Err() error { return m.err }

// Lease is the time until which the member is surely one, and may act as owner of what it owns.
func (m *Member) Lease() time.Duration {
	if m.lost || m.err != nil {
		return 0
	}
	return m.lease
}

// Taking tells whether what Take asked for is still to be taken.
func (m *Member) Taking() bool { return m.stage == synced && !m.rejoin && !m.lost && !m.away }

// Syncing tells whether what Sync asked for is still to be done, by the same coordinator.
func (m *Member) Syncing() bool {
	return m.stage == joined && !m.rejoin && !m.lost && !m.away && m.coordinator != ""
}

// Next says what to do. Most calls are followed by another: only Wait and Fail have no answer.
func (m *Member) Next(now time.Duration) Step {
	switch {
	case m.lost && len(m.owned) > 0:
		return Step{Kind: GiveUp, Partitions: m.owned, Lost: true}
	case m.err != nil:
		return Step{Kind: Fail}
	case m.away && len(m.owned) > 0:
		return Step{Kind: GiveUp, Partitions: m.owned}
	}
	m.lost = false
	switch {
	case m.away && !m.left && m.cfg.Instance == "" && m.id != "" && m.coordinator != "":
		return Step{Kind: Leave}
	case m.away:
		return Step{Kind: Wait, Until: Never}
	case now < m.notBefore:
		return Step{Kind: Wait, Until: m.notBefore}
	case m.coordinator == "":
		return Step{Kind: Find}
	case m.rejoin && !m.cooperative && len(m.owned) > 0:
		return Step{Kind: GiveUp, Partitions: m.owned}
	case m.rejoin:
		return Step{Kind: Join}
	case m.stage == joined && m.leads && !m.skip && m.plan == nil:
		return Step{Kind: Plan}
	case m.stage == joined:
		return Step{Kind: Sync}
	case m.stage == synced:
		if gone := without(m.owned, m.target); len(gone) > 0 {
			return Step{Kind: GiveUp, Partitions: gone}
		}
		return Step{Kind: Take, Partitions: without(m.target, m.owned)}
	}
	if m.followUp > 0 {
		if now < m.followUp {
			return Step{Kind: Wait, Until: m.followUp}
		}
		m.followUp, m.rejoin = 0, true
		return m.Next(now)
	}
	return Step{Kind: Wait, Until: Never}
}

// without lists the partitions of a that are not in b.
func without(a, b []assign.Partition) []assign.Partition {
	var out []assign.Partition
	for _, p := range a {
		if !slices.Contains(b, p) {
			out = append(out, p)
		}
	}
	return out
}

// Found says where the coordinator is, or that nobody could tell.
func (m *Member) Found(now time.Duration, address string, err error) {
	if err != nil || address == "" {
		m.fail(now)
		return
	}
	m.coordinator = address
	m.failures, m.notBefore, m.beat = 0, 0, 0
}

// Disconnected says that the coordinator at the address cannot be reached, or is none.
func (m *Member) Disconnected(now time.Duration, address string) {
	if address == m.coordinator && address != "" {
		m.coordinator = ""
		m.fail(now)
	}
}

// fail has the next attempt wait.
func (m *Member) fail(now time.Duration) {
	m.notBefore = now + min(m.cfg.Backoff<<min(m.failures, 16), max(m.cfg.BackoffMax, m.cfg.Backoff))
	m.failures++
}

// GaveUp says that these partitions are handed over no more.
func (m *Member) GaveUp(partitions []assign.Partition) {
	if !m.cooperative && !m.lost {
		m.had = m.owned
	}
	m.owned = without(m.owned, partitions)
	if m.lost && len(m.owned) == 0 {
		m.lost = false
	}
}

// Took says that the application owns these partitions, too, from now on.
func (m *Member) Took(partitions []assign.Partition) {
	m.owned = append(slices.Clone(m.owned), partitions...)
	slices.SortFunc(m.owned, assign.Partition.Compare)
	m.ownedIn = m.generation
	if len(without(m.target, m.owned)) == 0 {
		m.stage = in // else some were given up anew meanwhile, or are missing
	}
	if m.followUp = 0; m.rest && m.leads {
		m.followUp = m.sent + m.cfg.Session
	}
	m.rejoin = m.rejoin || m.shrank // what it gave up is free for others in the next round (KIP-429)
	m.shrank = false
}

// Anew says that these partitions were given up, and are to be taken again in the same generation: another topic has the name of theirs.
func (m *Member) Anew(partitions []assign.Partition) {
	m.owned = without(m.owned, partitions)
	if m.stage == in {
		m.stage = synced
	}
}

// Missing says, after Took, that some of what was to be taken is not there. Take asks for it again later.
func (m *Member) Missing(now time.Duration) { m.fail(now) }

// lose ends the membership: others may own by now what it owns.
func (m *Member) lose() {
	m.lost = len(m.owned) > 0
	m.lease = 0
	m.had = nil
	m.reset()
}

// reset leaves the generation.
func (m *Member) reset() {
	m.stage, m.generation, m.rejoin, m.leads, m.plan, m.members = out, -1, true, false, nil, nil
}

// Rejoin has the member join again, because something changed that the coordinator does not know.
func (m *Member) Rejoin() { m.rejoin = true }

// Away says that the application takes too long, or that it is back (KIP-62). It reports whether that is news.
func (m *Member) Away(away bool) bool {
	if away == m.away {
		return false
	}
	m.away, m.left, m.rejoin = away, false, true
	return true
}

var errFenced = errors.New("another process goes by the same group.instance.id")

func (m *Member) fatal(err error) {
	m.err = fmt.Errorf("group %q: %w", m.cfg.Group, err)
	m.lost = len(m.owned) > 0
	m.lease = 0
}
