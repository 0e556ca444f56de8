package assign

// balancer improves a complete division until none is better: first by balance, which is the sum of the squares of the members' loads (the
// least sum is the most even division that the subscriptions allow), then by the number of partitions that are not with the member that claims them.
//
// The divisions are the flows of a network: a node for each member, and one more, the pool, through which load passes from one member to another.
// An edge u -> v is a partition that u has and v may have, and costs what its move adds to the unclaimed ones: -1, 0 or 1. An edge pool -> u takes one
// from the load of u, v -> pool adds one to that of v, and costs what that adds to the squares, times a weight above any number of moves. A division is the best
// exactly when there is no cycle of negative cost; as long as there is one, moving partitions along it is an improvement.
//
// With m members and t topics a search takes about m*m*t steps and one improvement moves at least one partition, so that a plan takes about m*m*t for
// each partition that has to move.
type balancer struct {
	l      *ledger
	holder []int32
	weight int64

	// What u could give away, rebuilt for each search; nobody: nothing.
	free []int32 // [u * topics + t]: a partition of t that u has without claiming it
	kept []int32 // [u * topics + t]: a partition of t that u has and claims
	back []int32 // [u * members + v]: a partition that u has and v claims

	cost []int64 // [from * nodes + to]
	edge []int32 // [from * nodes + to]: the partition that moves
	dist []int64
	pred []int32
	mark []int32
}

const noEdge = int64(1) << 62

func newBalancer(l *ledger, holder []int32) *balancer {
	m, t := len(l.members), len(l.topics)
	nodes := m + 1
	return &balancer{
		l: l, holder: holder, weight: int64(2*len(l.owner) + 1),
		free: make([]int32, m*t), kept: make([]int32, m*t), back: make([]int32, m*m),
		cost: make([]int64, nodes*nodes), edge: make([]int32, nodes*nodes),
		dist: make([]int64, nodes), pred: make([]int32, nodes), mark: make([]int32, nodes),
	}
}

// improve moves partitions along one cycle of negative cost. It says whether there was one.
func (b *balancer) improve() bool {
	b.build()
	cycle := b.cycle()
	if cycle == nil {
		return false
	}
	nodes, pool := len(b.dist), int32(len(b.dist)-1)
	for i, to := range cycle {
		from := cycle[(i+1)%len(cycle)] // the cycle is listed against its direction
		if from != pool && to != pool {
			b.l.give(b.edge[int(from)*nodes+int(to)], to)
		}
	}
	return true
}

func (b *balancer) build() {
	l := b.l
	m, t, nodes := len(l.members), len(l.topics), len(b.dist)
	for _, s := range [][]int32{b.free, b.kept, b.back} {
		for i := range s {
			s[i] = nobody
		}
	}
	for p, u := range l.owner {
		at := int(u)*t + int(l.topicOf[p])
		switch h := b.holder[p]; {
		case h == u:
			b.kept[at] = int32(p)
			continue
		case h != nobody && l.subscribes(h, l.topicOf[p]):
			b.back[int(u)*m+int(h)] = int32(p)
		}
		b.free[at] = int32(p)
	}
	for u := range m {
		for v := range m {
			b.cost[u*nodes+v], b.edge[u*nodes+v] = b.between(u, v)
		}
		load := int64(l.load[u])
		b.cost[u*nodes+m] = b.weight * (2*load + 1)
		b.cost[m*nodes+u] = noEdge
		if load > 0 {
			b.cost[m*nodes+u] = -b.weight * (2*load - 1)
		}
	}
	b.cost[m*nodes+m] = noEdge
}

// between is the cheapest partition that u can give to v.
func (b *balancer) between(u, v int) (cost int64, p int32) {
	l := b.l
	m, t := len(l.members), len(l.topics)
	if u == v {
		return noEdge, nobody
	}
	if p := b.back[u*m+v]; p != nobody {
		return -1, p
	}
	cost, p = noEdge, nobody
	for i := range t {
		if !l.wants[v*t+i] {
			continue
		}
		if f := b.free[u*t+i]; f != nobody {
			return 0, f
		}
		if k := b.kept[u*t+i]; k != nobody && p == nobody {
			cost, p = 1, k
		}
	}
	return cost, p
}

// cycle finds a cycle of negative cost, listed against its direction (Bellman-Ford, from all nodes at once). nil: there is none.
func (b *balancer) cycle() []int32 {
	nodes := len(b.dist)
	for i := range nodes {
		b.dist[i], b.pred[i] = 0, nobody
	}
	for {
		changed := false
		for u := range nodes {
			for v := range nodes {
				if c := b.cost[u*nodes+v]; c != noEdge && b.dist[u]+c < b.dist[v] {
					b.dist[v], b.pred[v] = b.dist[u]+c, int32(u)
					changed = true
				}
			}
		}
		if !changed {
			return nil
		}
		if c := b.round(); c != nil { // a circle of predecessors is a cycle of negative cost
			return c
		}
	}
}

// round finds a circle of predecessors.
func (b *balancer) round() []int32 {
	clear(b.mark)
	for start := range int32(len(b.pred)) {
		n := start
		for n != nobody && b.mark[n] == 0 {
			b.mark[n] = start + 1
			n = b.pred[n]
		}
		if n == nobody || b.mark[n] != start+1 {
			continue
		}
		circle := []int32{n}
		for x := b.pred[n]; x != n; x = b.pred[x] {
			circle = append(circle, x)
		}
		return circle
	}
	return nil
}
