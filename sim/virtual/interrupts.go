package virtual

import (
	"math/rand/v2"
	"time"
)

// Interrupts are what else has a core while a task works: the ticks of an operating system and of the hypervisor below it. All costs of a [CPU] are with them: they change no mean, but how evenly the work gets on. Without
// either figure there are none.
type Interrupts struct {
	Every time.Duration // work between one and the next, on average; how much is drawn, exponentially
	Takes time.Duration // how long each holds the work up
}

// interrupts are those of one computer.
type interrupts struct {
	Interrupts
	rng  *rand.Rand
	next time.Duration // work until the next one
}

func newInterrupts(of Interrupts, rng *rand.Rand) interrupts {
	if of.Every <= 0 || of.Takes <= 0 {
		return interrupts{}
	}
	i := interrupts{Interrupts: of, rng: rng}
	i.next = i.undisturbed()
	return i
}

// undisturbed draws how much work there is between two.
func (i *interrupts) undisturbed() time.Duration {
	return time.Duration(i.rng.ExpFloat64() * float64(i.Every))
}

// lengthen is how long work takes, which takes d on average, with those that fall into it.
func (i *interrupts) lengthen(d time.Duration) time.Duration {
	if i.Takes == 0 {
		return d
	}
	d = time.Duration(float64(d) * float64(i.Every) / float64(i.Every+i.Takes))
	for i.next -= d; i.next <= 0; i.next += i.undisturbed() {
		d += i.Takes
	}
	return d
}
