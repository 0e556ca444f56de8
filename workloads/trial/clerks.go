package trial

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	coord "faultline/coord/client"
	"faultline/workloads/history"
)

// Clerks write and read a few znodes of their own, each at one server of the coordination service, on the administrator's machine. A server that is cut off from the others is not cut off
// from its clerk, who goes on asking what the others' clerks change meanwhile. A clerk leaves a watch with each of the things that it reads and leaves the next one when that has told something,
// so that most are there when its connection ends. There is a door, too, that clerks make and take away, so that some watches wait for what is not there.

const (
	clerksPath    = "/clerks"
	clerkNodes    = 2
	clerkDoor     = clerksPath + "/door"
	clerkPause    = 60 * time.Millisecond // between two operations, at most
	clerkSession  = 2 * time.Second
	clerkPatience = time.Second // for an answer
)

// startClerks starts as many as the scenario asks for.
func (a *admin) startClerks(p *running) {
	n := int(a.r.sc.Topology.Coordinators.Clients.V())
	if n == 0 {
		return
	}
	a.insist(func() error {
		for _, path := range append([]string{clerksPath}, clerkPaths()...) {
			if _, err := a.coord.Create(path, nil, coord.Persistent); err != nil && !errors.Is(err, coord.ErrNodeExists) {
				return err
			}
		}
		return nil
	})
	for i := range n {
		name := fmt.Sprintf("clerk-%d", i+1)
		server := a.r.addrs.Coord[i%len(a.r.addrs.Coord)]
		p.Go(name, func() { a.r.clerk(p, name, server, p.Rand(name)) })
	}
}

func clerkPaths() (list []string) {
	for i := range clerkNodes {
		list = append(list, fmt.Sprintf("%s/%d", clerksPath, i))
	}
	return list
}

// clerk works in one session after the other until the load is over.
func (r *run) clerk(p *running, name, server string, dice *rand.Rand) {
	paths := clerkPaths()
	for n, over := 0, false; !over; {
		_, tap := p.taps()
		watched := map[string]bool{} // by what is asked
		c := coord.Connect(p, coord.Config{Servers: []string{server}, SessionTimeout: clerkSession, RequestTimeout: clerkPatience, Tap: tap, Name: name, OnEvent: func(e coord.Event) {
			switch e.Type {
			case coord.EventChildrenChanged:
				delete(watched, "children")
			case coord.EventDeleted:
				delete(watched, "inside") // a watch on what is in the door is told of its end, too
				fallthrough
			default:
				delete(watched, e.Path)
			}
		}})
		// leave tells whether to ask for a watch. It counts as there from then on, for its event may come before the caller goes on.
		asked := ""
		leave := func(what string) bool {
			if watched[what] {
				return false
			}
			asked, watched[what] = what, true
			return true
		}
		for {
			if over = r.phase > history.Load; over {
				break
			}
			p.Sleep(time.Duration(dice.Int64N(int64(clerkPause))))
			path := paths[dice.IntN(len(paths))]
			var err error
			asked = ""
			switch dice.IntN(16) {
			case 0, 1, 2, 3:
				n++
				_, err = c.Set(path, fmt.Appendf(nil, "%s %d", name, n), -1)
			case 4:
				_, err = c.Create(clerkDoor, nil, coord.Persistent)
			case 5:
				err = c.Delete(clerkDoor, -1)
			case 6, 7:
				_, _, err = c.Exists(clerkDoor, leave(clerkDoor))
			case 8:
				_, _, err = c.Children(clerksPath, leave("children"))
			case 9:
				_, _, err = c.Children(clerkDoor, leave("inside"))
			default:
				_, _, err = c.Get(path, leave(path))
			}
			if err != nil {
				delete(watched, asked)
			}
			if errors.Is(err, coord.ErrSessionExpired) {
				break
			}
		}
		_ = c.Close() // what is left of the session ends by its time-out
	}
}
