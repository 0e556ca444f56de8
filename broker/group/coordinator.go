package group

import (
	"math"
	"slices"
	"time"
)

// Coordinator is the groups of one partition of the offsets topic, for one leadership of it.
type Coordinator struct {
	cfg    Config
	phase  phase
	groups map[string]*group
	loaded map[string]*loading // while loading

	next      time.Duration // no timer fires before it
	sure      time.Duration // from then on no earlier coordinator answers any more
	retention time.Duration // next look for offsets to expire

	token     Token
	appending []appending // by token

	effects, spare []Effect
}

type phase int8

const (
	isLoading phase = iota
	isServing
	isOver
)

const never = time.Duration(math.MaxInt64)

// New is a coordinator that waits for Load and Loaded.
func New(cfg Config) *Coordinator {
	return &Coordinator{cfg: cfg, groups: map[string]*group{}, loaded: map[string]*loading{}, next: never, retention: never}
}

// refuse is the error for all requests while there is no group to ask: 0 when there is.
func (c *Coordinator) refuse(group string) int16 {
	switch {
	case c.phase == isLoading:
		return codeLoading
	case c.phase == isOver:
		return codeNotCoordinator
	case group == "":
		return codeInvalidGroup
	}
	return 0
}

// find is a group. nil: there is none.
func (c *Coordinator) find(id string) *group { return c.groups[id] }

// sorted are the groups by id.
func (c *Coordinator) sorted() []*group {
	groups := make([]*group, 0, len(c.groups))
	// order: sorted below
	for _, g := range c.groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, byID)
	return groups
}

// Next is when Tick must be called, at the latest. It may be early, by timers that were put off since.
func (c *Coordinator) Next() (up time.Duration, ok bool) { return c.next, c.next != never }

// wake makes sure that Tick is called at a time.
func (c *Coordinator) wake(at time.Duration) { c.next = min(c.next, at) }

// Tick fires the timers whose time has come.
func (c *Coordinator) Tick(now Time) {
	if c.phase != isServing || now.Up < c.next {
		return
	}
	c.next = never
	for _, g := range c.sorted() {
		g.fire(now)
	}
	if c.retention <= now.Up {
		c.expire(now)
		c.retention = now.Up + c.cfg.RetentionCheck
	}
	c.wake(c.retention)
	// order: the least is the same in any order
	for _, g := range c.groups {
		c.wake(g.timers.next())
	}
}

// Unload ends the coordinator: the partition has another leader. Every request that waits is sent to look for it, as is every later one. What was appended and not confirmed is
// for the next coordinator to find in the log, or not.
func (c *Coordinator) Unload() {
	if c.phase == isOver {
		return
	}
	c.phase, c.next = isOver, never
	for _, g := range c.sorted() {
		for _, m := range g.members {
			m.answerJoin(c, codeNotCoordinator)
			m.answerSync(c, codeNotCoordinator)
		}
	}
	for _, a := range c.appending {
		if a.abandon != nil {
			a.abandon(codeNotCoordinator)
		}
	}
	c.groups, c.loaded, c.appending = nil, nil, nil
}
