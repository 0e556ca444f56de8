package group

import "github.com/twmb/franz-go/pkg/kmsg"

// Commit stores offsets of a group. It is answered with kmsg.OffsetCommitResponse when they are in the log. Nothing is taken from a member
// that was removed or of an older generation: an old owner cannot set back what a new one committed. Whoever calls sets both name and id of the topics that it knows; one without a name is unknown. Versions 2 and up: the commit time of version 1 is not looked at.
func (c *Coordinator) Commit(now Time, ref Ref, r *kmsg.OffsetCommitRequest) {
	code := c.refuse(r.Group)
	g := c.find(r.Group)
	if code == 0 && g == nil {
		if r.Generation < 0 {
			g = c.newGroup(r.Group) // one that only stores offsets
			c.groups[r.Group] = g
		} else {
			code = codeIllegalGeneration
		}
	}
	if code == 0 {
		code = g.mayCommit(r)
	}
	if code != 0 {
		c.reply(ref, commitResponse(r, func(string, *kmsg.OffsetCommitRequestTopicPartition) int16 { return code }))
		return
	}
	if m := g.byID[r.MemberID]; m != nil {
		g.alive(now, m)
	}
	g.commit(now, ref, r)
}

func (g *group) mayCommit(r *kmsg.OffsetCommitRequest) int16 {
	switch {
	case g.state == Dead:
		return codeNotAvailable
	case r.Generation < 0 && r.MemberID == "" && r.InstanceID == nil:
		if g.state != Empty {
			return codeUnknownMember // its members decide
		}
		return 0
	}
	if code := g.check(r.MemberID, r.InstanceID); code != 0 {
		return code
	}
	switch {
	case r.Generation != g.generation:
		return codeIllegalGeneration
	case g.state == CompletingRebalance:
		return codeRebalancing // it knows of the new generation, in which it owns nothing yet
	}
	return 0
}

func (g *group) commit(now Time, ref Ref, r *kmsg.OffsetCommitRequest) {
	type change struct {
		where partition
		o     *offset
		at    *committed
	}
	var changes []change
	var records []Record
	refused := func(topic string, p *kmsg.OffsetCommitRequestTopicPartition) int16 {
		switch cfg := &g.c.cfg; {
		case topic == "":
			return codeUnknownTopicID
		case cfg.Exists != nil && !cfg.Exists(topic, p.Partition):
			return codeUnknownPartition
		case p.Metadata != nil && len(*p.Metadata) > cfg.MaxMetadata:
			return codeMetadataTooLarge
		}
		return 0
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			if refused(r.Topics[i].Topic, p) != 0 {
				continue
			}
			at := &committed{topic: r.Topics[i].TopicID, offset: p.Offset, epoch: -1, time: now.Wall, expires: -1}
			if r.Version >= 6 {
				at.epoch = p.LeaderEpoch
			}
			if p.Metadata != nil {
				at.metadata = *p.Metadata
			}
			if r.Version >= 2 && r.Version <= 4 && r.RetentionTimeMillis >= 0 {
				at.expires = now.Wall + r.RetentionTimeMillis
			}
			where := partition{r.Topics[i].Topic, p.Partition}
			changes = append(changes, change{where, g.commitPending(where, at.topic), at})
			records = append(records, offsetRecord(g.id, where, at))
		}
	}
	resp := commitResponse(r, refused)
	if len(records) == 0 {
		g.c.reply(ref, resp)
		return
	}
	generation := g.generation
	g.c.append(records, func(_ Time, ok bool) {
		var seats []Seat
		for _, x := range changes {
			x.o.pending--
			if ok {
				x.o.at = x.at
				seats = append(seats, Seat{x.where.topic, x.at.topic, x.where.n, x.at.offset})
			}
			if x.o.at == nil && x.o.pending == 0 && g.offsets[x.where] == x.o {
				delete(g.offsets, x.where)
			}
		}
		if !ok {
			failCommit(resp, codeNotAvailable)
		} else {
			g.tell(Stored, r.MemberID, generation, seats)
		}
		g.c.reply(ref, resp)
	}, func(code int16) {
		failCommit(resp, code)
		g.c.reply(ref, resp)
	})
}

// commitResponse has an entry for each partition of the request, with the code that code gives it.
func commitResponse(r *kmsg.OffsetCommitRequest, code func(topic string, p *kmsg.OffsetCommitRequestTopicPartition) int16) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = r.Version
	for i := range r.Topics {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = r.Topics[i].Topic, r.Topics[i].TopicID
		for j := range r.Topics[i].Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = r.Topics[i].Partitions[j].Partition, code(t.Topic, &r.Topics[i].Partitions[j])
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// failCommit sets the code of the partitions that had none.
func failCommit(resp *kmsg.OffsetCommitResponse, code int16) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = code
			}
		}
	}
}
