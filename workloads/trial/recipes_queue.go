package trial

import (
	"errors"

	"faultline/coord/client"
)

// The queue: who has something makes a sequential node, who wants something takes the first one, and enters that in the same transaction into a node that all takers share. When two want the same, one of them is refused, and what it entered
// does not count.

const (
	queuePath = recipesPath + "/queue"
	queueMost = 12 // who finds as many there puts in no more
)

// put adds something, at most once.
func (a *patron) put() {
	if names, _, err := a.c.Children(queuePath, false); err != nil || len(names) >= queueMost {
		return
	}
	_, _ = a.c.Create(queuePath+"/item-", []byte(a.label()), client.Sequential)
}

// take takes the first thing that is there.
func (a *patron) take() {
	names, _, err := a.c.Children(queuePath, false)
	if err != nil || len(names) == 0 {
		return
	}
	first := queuePath + "/" + names[0]
	err = a.c.Multi(client.SetOp(queuePath, []byte(first+" "+a.label()), client.AnyVersion), client.DeleteOp(first, 0))
	if errors.Is(err, client.ErrNoNode) {
		a.p.Mark("mark/recipe/taken-by-another")
	}
}
