package wire

import "io"

// Calls reads from a connection and counts how often, for each time is a system call.
type Calls struct {
	r io.Reader
	n int
}

// NewCalls counts the reads from r.
func NewCalls(r io.Reader) *Calls { return &Calls{r: r} }

func (c *Calls) Read(p []byte) (int, error) {
	c.n++
	return c.r.Read(p)
}

// Take returns how many there were since it was called last.
func (c *Calls) Take() int {
	n := c.n
	c.n = 0
	return n
}
