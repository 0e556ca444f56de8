package trial

import (
	"errors"
	"slices"
	"strings"

	"faultline/coord/client"
	"faultline/sim/machine"
)

// The lock: who wants it makes an ephemeral sequential node, has it while no node has a lower number, and else waits until the one right before its own goes. So nobody is woken for nothing, the lock goes from one to the next in
// the order in which they came, and that of a client that is gone goes with its session. The node's name begins with a label of its own: when the answer to the create is lost, the
// client finds out by it whether there is a node.

const (
	lockPath  = recipesPath + "/lock"
	tallyPath = recipesPath + "/tally" // a number that is raised under the lock
	lockActs  = 4                      // of a turn, at most
)

// takeTurn gets the lock, does something, and gives it back.
func (a *patron) takeTurn() {
	mine, err := a.enqueue()
	if err != nil {
		return
	}
	if a.isNext(mine) {
		for range 1 + a.dice.IntN(lockActs) {
			a.act(mine)
			a.pause(recipePause)
		}
	}
	a.insist(func() error { return a.c.Delete(mine, client.AnyVersion) })
}

// enqueue makes the node.
func (a *patron) enqueue() (mine string, err error) {
	label := a.label() + "-"
	err = a.insist(func() error {
		var err error
		mine, err = a.c.Create(lockPath+"/"+label, nil, client.Ephemeral|client.Sequential)
		if client.Unknown(err) {
			mine, err = a.find(label)
		}
		return err
	})
	return mine, err
}

// find looks for a node whose create was not answered. Once the client is connected again that is settled: it is there, or never will be.
func (a *patron) find(label string) (string, error) {
	var names []string
	err := a.insist(func() (err error) {
		names, _, err = a.c.Children(lockPath, false)
		return err
	})
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, label) }); i >= 0 {
		a.p.Mark("mark/recipe/found-own-node")
		return lockPath + "/" + names[i], nil
	}
	return "", client.ErrNotConnected
}

// isNext waits until no node has a lower number; false: the session has ended.
func (a *patron) isNext(mine string) bool {
	for {
		var names []string
		err := a.insist(func() (err error) {
			names, _, err = a.c.Children(lockPath, false)
			return err
		})
		if err != nil {
			return false
		}
		before := ""
		for _, n := range names {
			if number(n) < number(mine) && (before == "" || number(n) > number(before)) {
				before = n
			}
		}
		if before == "" {
			return true
		}
		before = lockPath + "/" + before
		there := false
		err = a.insist(func() (err error) {
			_, there, err = a.c.Exists(before, true)
			return err
		})
		if err != nil || there && !a.awaits(before) {
			return false
		}
	}
}

// number is what the service appended to a name: ten digits, which sort as numbers do.
func number(name string) string {
	const digits = 10
	return name[max(0, len(name)-digits):]
}

// act does something that nobody else may do meanwhile. Between the look at the lease and what the trace tells nothing else can happen. The tally is written only if the node is still there, which the service itself looks at.
func (a *patron) act(mine string) {
	_, stat, err := a.c.Get(tallyPath, false)
	if err != nil {
		return
	}
	if a.c.Lease() <= 0 {
		a.p.Mark("mark/recipe/lease-ran-out")
		return
	}
	a.p.Trace(machine.Event{Kind: machine.LockActed, Subject: lockPath, Detail: mine, A: a.c.Session()})
	err = a.c.Multi(client.CheckOp(mine, 0), client.SetOp(tallyPath, []byte(a.label()), stat.Version))
	if errors.Is(err, client.ErrNoNode) {
		a.p.Mark("mark/recipe/fenced")
	}
}
