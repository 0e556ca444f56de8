package load

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// VisitsConfig shapes page visits.
type VisitsConfig struct {
	Count    int64            // messages; < 0: without end
	Visitors int              // different addresses, that is keys (default 1000)
	Pages    int              // different pages (default 10,000)
	MinBytes int              // size of a value, drawn evenly from MinBytes..MaxBytes (default 100..300)
	MaxBytes int              //
	Now      func() time.Time // the time that a visit carries
}

// Visits makes activity events such as the paper's: who visited which page, from where, when. A message is keyed by the visitor's
// address; its value is one line of text with tabs between time, user, address, page, referrer and the
// browser, whose length fills the value up to its size (a value too small for all of it is cut).
//
// A few visitors and pages are much more popular than the others (Zipf, exponent 1.1).
type Visits struct {
	cfg      VisitsConfig
	rng      *rand.Rand
	visitors *rand.Zipf
	pages    *rand.Zipf
	made     int64
	key      []byte
	value    []byte
	second   int64 // unix second of stamp
	stamp    []byte
}

// NewVisits draws from rng. One rng, one sequence of messages (times apart).
func NewVisits(rng *rand.Rand, cfg VisitsConfig) *Visits {
	if cfg.Visitors <= 0 {
		cfg.Visitors = 1000
	}
	if cfg.Pages <= 0 {
		cfg.Pages = 10_000
	}
	if cfg.MaxBytes <= 0 {
		cfg.MinBytes, cfg.MaxBytes = 100, 300
	}
	cfg.MaxBytes = max(cfg.MaxBytes, cfg.MinBytes)
	return &Visits{
		cfg: cfg, rng: rng,
		visitors: rand.NewZipf(rng, 1.1, 1, uint64(cfg.Visitors-1)),
		pages:    rand.NewZipf(rng, 1.1, 1, uint64(cfg.Pages-1)),
		second:   -1,
	}
}

// Next implements [Source].
func (v *Visits) Next() (key, value []byte, ok bool) {
	if v.made == v.cfg.Count {
		return nil, nil, false
	}
	v.made++
	size := v.cfg.MinBytes
	if span := v.cfg.MaxBytes - v.cfg.MinBytes; span > 0 {
		size += v.rng.IntN(span + 1)
	}
	visitor := v.visitors.Uint64()
	page, from := v.pages.Uint64(), v.pages.Uint64()

	v.key = appendAddress(v.key[:0], visitor)
	b := v.appendTime(v.value[:0])
	b = append(b, "\tuser-"...)
	b = strconv.AppendUint(b, visitor, 10)
	b = append(b, '\t')
	b = append(b, v.key...)
	b = append(b, "\t/in/"...)
	b = strconv.AppendUint(b, page, 36)
	b = append(b, "?visit="...)
	b = strconv.AppendInt(b, v.made, 10)
	b = append(b, "\thttps://www.example.com/in/"...)
	b = strconv.AppendUint(b, from, 36)
	b = append(b, '\t')
	for len(b) < size {
		b = append(b, browser[:min(len(browser), size-len(b))]...)
	}
	v.value = b
	return v.key, b[:size], true
}

// Err implements [Source].
func (v *Visits) Err() error { return nil }

const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:4.0) Gecko/20110401 Firefox/4.0 "

// appendAddress gives each visitor an address of its own in 10.0.0.0/8, spread so that neighbours in popularity are no
// neighbours in the address space (an odd multiplier permutes the 2^24 addresses).
func appendAddress(b []byte, visitor uint64) []byte {
	x := visitor * 0x9e3779b1 & 0xffffff
	b = append(b, "10."...)
	b = strconv.AppendUint(b, x>>16, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, x>>8&0xff, 10)
	b = append(b, '.')
	return strconv.AppendUint(b, x&0xff, 10)
}

// appendTime writes the time to the millisecond, and formats the part down to the second only when it changed.
func (v *Visits) appendTime(b []byte) []byte {
	now := v.cfg.Now().UTC()
	if s := now.Unix(); s != v.second || v.stamp == nil {
		v.second = s
		v.stamp = now.AppendFormat(v.stamp[:0], "2006-01-02T15:04:05.")
	}
	ms := now.Nanosecond() / 1e6
	b = append(b, v.stamp...)
	return append(b, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}
