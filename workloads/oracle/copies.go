package oracle

// byPartition is what an oracle knows of each partition that a Cluster follows.
type byPartition[T any] struct {
	unmet T   // what is known of one that was not met
	all   []T // by its number
}

// of is what is known of a partition. The pointer is good until the next partition is met.
func (b *byPartition[T]) of(p *replicas) *T {
	for p.number >= len(b.all) {
		b.all = append(b.all, b.unmet)
	}
	return &b.all[p.number]
}

// forget forgets a partition.
func (b *byPartition[T]) forget(p *replicas) { *b.of(p) = b.unmet }

// copies are what an oracle knows of each replica of a partition, by the machine that it is on. A partition has a few, so they are looked through, and are next to one another.
type copies[T any] struct{ all []copyOn[T] }

type copyOn[T any] struct {
	machine string
	of      T
}

// on is what is known of the replica on a machine, or nil. The pointer is good until the next one is added.
func (c *copies[T]) on(machine string) *T {
	for i := range c.all {
		if c.all[i].machine == machine {
			return &c.all[i].of
		}
	}
	return nil
}

// add takes what is known of the replica on a machine, of which nothing was known.
func (c *copies[T]) add(machine string, of T) *T {
	c.all = append(c.all, copyOn[T]{machine, of})
	return &c.all[len(c.all)-1].of
}

// each calls fn with each.
func (c *copies[T]) each(fn func(machine string, of *T)) {
	for i := range c.all {
		fn(c.all[i].machine, &c.all[i].of)
	}
}
