package consumer

import "faultline/consumer/assign"

// plan divides the partitions, as leader.
func (p *party) plan() {
	g := p.g
	g.mu.Lock()
	members, how := p.m.Members()
	g.mu.Unlock()
	if assign.Contested(members) {
		g.m.Mark("mark/consumer/claims-contested")
	}
	counts := map[string]int32{}
	for _, t := range assign.Topics(members) {
		n, err := p.partitions(t)
		if err != nil {
			g.m.Mark("mark/consumer/planned-without-topic") // a later look finds it, and the group rebalances
		}
		counts[t] = n
	}
	plan := how.Assign(members, counts)
	missing := int32(0)
	for _, t := range assign.Topics(members) {
		missing += counts[t]
	}
	for _, share := range plan {
		missing -= int32(len(share.Partitions))
	}
	g.mu.Lock()
	p.m.Planned(plan, counts, missing == 0)
	g.mu.Unlock()
}

// partitions is how many a topic has, 0 with the error when it is not there or nobody could tell.
func (p *party) partitions(topic string) (int32, error) {
	t, err := p.cluster.Topic(topic)
	if err != nil {
		return 0, err
	}
	return int32(len(t.Partitions)), nil
}

// watch has the leader join again when a topic's number of partitions is not what it planned for: they would have no owner.
func (p *party) watch() {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for !p.ended {
		p.grown.WaitTimeout(g.cfg.MetadataMaxAge)
		if !p.m.Leads() || p.ended {
			continue
		}
		counts := p.m.Divided()
		for _, t := range sortedTopics(counts) {
			g.mu.Unlock()
			n, err := p.partitions(t)
			g.mu.Lock()
			if err == nil && n > counts[t] && p.m.Leads() {
				g.m.Mark("mark/consumer/topic-grew")
				p.m.Rejoin()
				p.changed()
				break
			}
		}
	}
}
