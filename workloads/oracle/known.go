package oracle

// known is what is known of each partition, or of each seat, by the name that events call it. The same names come again and again, so what was asked for last is found without the map.
type known[T any] struct {
	all  map[string]*T
	near [128]called[T] // by the end of the name
}

type called[T any] struct {
	name string
	of   *T
}

func newKnown[T any]() *known[T] { return &known[T]{all: map[string]*T{}} }

// place is where a name would be near. Numbers up to 100 at the end of it have places of their own.
func (b *known[T]) place(name string) *called[T] {
	n := len(name)
	if n < 2 {
		return &b.near[0]
	}
	return &b.near[(name[n-1]+10*name[n-2]+32*byte(n))%byte(len(b.near))]
}

// get is nil when nothing is known.
func (b *known[T]) get(name string) *T {
	at := b.place(name)
	if at.name != name {
		*at = called[T]{name, b.all[name]}
	}
	return at.of
}

func (b *known[T]) set(name string, of *T) {
	b.all[name] = of
	*b.place(name) = called[T]{name, of}
}

func (b *known[T]) delete(name string) {
	delete(b.all, name)
	*b.place(name) = called[T]{}
}
