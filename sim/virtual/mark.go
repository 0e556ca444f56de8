package virtual

// Passage is how often the processes of a cluster passed one place in their programs.
type Passage struct {
	Passed int64 // a failpoint was asked, a mark was set
	Fired  int64 // a failpoint's misfortune struck
}

// Passages are the counts by place: failpoints ("fault/<room>/<place>") and marks ("mark/<room>/<what>").
type Passages map[string]*Passage

func (ps Passages) at(place string) *Passage {
	p := ps[place]
	if p == nil {
		p = &Passage{}
		ps[place] = p
	}
	return p
}

// CountPassages makes the cluster count from now on, and returns the counts. They are no part of the world: neither its hash nor its
// trace knows of them, so that a run which is counted is the run which is not.
func (c *Cluster) CountPassages() Passages {
	if c.passages == nil {
		c.passages = Passages{}
	}
	return c.passages
}

func (p *process) Mark(place string) {
	p.w.Current()
	if ps := p.comp.cluster.passages; ps != nil {
		ps.at(place).Passed++
	}
}
