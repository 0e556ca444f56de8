package oracle

// copies are what an oracle knows of each replica of a partition, by the machine that it is on. A partition has a few, so they are looked through, and are next to one another.
type copies[T any] struct{ all []copyOn[T] }

type copyOn[T any] struct {
	machine string
	of      *T
}

// on is what is known of the replica on a machine, or nil.
func (c *copies[T]) on(machine string) *T {
	if c != nil {
		for i := range c.all {
			if c.all[i].machine == machine {
				return c.all[i].of
			}
		}
	}
	return nil
}

// set takes what is known of the replica on a machine.
func (c *copies[T]) set(machine string, of *T) {
	for i := range c.all {
		if c.all[i].machine == machine {
			c.all[i].of = of
			return
		}
	}
	c.all = append(c.all, copyOn[T]{machine, of})
}

// each calls fn with each.
func (c *copies[T]) each(fn func(machine string, of *T)) {
	if c != nil {
		for _, x := range c.all {
			fn(x.machine, x.of)
		}
	}
}

// byReplica are the copies of all partitions.
type byReplica[T any] map[*replicas]*copies[T]

// of is what is known of the copies of a partition.
func (m byReplica[T]) of(p *replicas) *copies[T] {
	c := m[p]
	if c == nil {
		c = &copies[T]{}
		m[p] = c
	}
	return c
}
