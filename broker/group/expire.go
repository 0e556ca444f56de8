package group

// expire forgets the offsets that nobody has used for the retention time (KIP-211), and groups of which nothing is left.
func (c *Coordinator) expire(now Time) {
	for _, g := range c.sorted() {
		if g.state == Dead {
			continue
		}
		var gone []partition
		var seats []Seat
		for _, p := range g.partitions() {
			if o := g.offsets[p]; o.at != nil && o.pending == 0 && g.expired(now, p.topic, o.at) {
				gone, seats = append(gone, p), append(seats, Seat{p.topic, o.at.topic, p.n, o.at.offset})
				delete(g.offsets, p)
			}
		}
		if len(gone) > 0 {
			g.tell(Expired, "", g.generation, seats)
		}
		records := g.tombstones(gone)
		if g.state == Empty && len(g.offsets) == 0 && len(g.promised) == 0 {
			if g.generation > 0 { // else the log knows nothing of it but offsets
				records = append(records, g.tombstone())
			}
			g.become(now, Dead, "expired")
			delete(c.groups, g.id)
		}
		if len(records) > 0 {
			c.append(records, nil, nil)
		}
	}
}

// expired tells whether an offset was not used for the retention time. A group that has members uses those of the topics they subscribe to. The offsets of one that has none any more are
// counted from when the last went away, those of one that never had any from the commit.
func (g *group) expired(now Time, topic string, at *committed) bool {
	since := at.time
	switch {
	case at.expires >= 0:
		return at.expires <= now.Wall && (g.state == Empty || g.state == Stable && !g.subscribes(topic))
	case g.state == Empty && g.protocolType != "":
		since = max(since, g.since)
	case g.state == Empty:
	case g.state == Stable && !g.subscribes(topic):
	default:
		return false
	}
	return since+g.c.cfg.Retention.Milliseconds() <= now.Wall
}
