package oracle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

func (p place) String() string { return p.topic + "/" + strconv.Itoa(int(p.partition)) }

// seat is a partition as a group sees it: the thing that has one owner and one committed offset.
type seat struct {
	group string
	place
}

func (s seat) String() string { return s.group + "/" + s.place.String() }

// sortedSeats lists the keys of a map by group, topic and partition.
func sortedSeats[V any](m map[seat]V) []seat {
	all := make([]seat, 0, len(m))
	for at := range m {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return all
}

// parsePlace reads "t/p".
func parsePlace(s string) (place, bool) {
	topic, number, ok := strings.Cut(s, "/")
	if !ok || topic == "" {
		return place{}, false
	}
	p, ok := parsePartition(number)
	if !ok {
		return place{}, false
	}
	return place{topic, p}, true
}

// parseSeat reads "g/t/p".
func parseSeat(s string) (seat, bool) {
	group, rest, ok := strings.Cut(s, "/")
	if !ok || group == "" {
		return seat{}, false
	}
	p, ok := parsePlace(rest)
	if !ok {
		return seat{}, false
	}
	return seat{group, p}, true
}

func parsePartition(s string) (int32, bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	n := int32(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int32(s[i]-'0')
	}
	return n, true
}

// The registry's paths (design section 6).
const (
	brokersRoot   = "/brokers/ids/"
	topicsRoot    = "/brokers/topics/"
	consumersRoot = "/consumers/"
)

// parseSeatPath reads "/consumers/<group>/<kind>/<topic>/<partition>", kind being "owners" or "offsets".
func parseSeatPath(path, kind string) (seat, bool) {
	rest, ok := strings.CutPrefix(path, consumersRoot)
	if !ok {
		return seat{}, false
	}
	group, rest, ok := strings.Cut(rest, "/")
	if !ok || group == "" {
		return seat{}, false
	}
	if rest, ok = strings.CutPrefix(rest, kind); !ok || rest == "" || rest[0] != '/' {
		return seat{}, false
	}
	p, ok := parsePlace(rest[1:])
	if !ok {
		return seat{}, false
	}
	return seat{group, p}, true
}

// parseMemberPath reads "/consumers/<group>/ids/<consumer>".
func parseMemberPath(path string) (group, consumer string, ok bool) {
	rest, ok := strings.CutPrefix(path, consumersRoot)
	if !ok {
		return "", "", false
	}
	group, rest, ok = strings.Cut(rest, "/")
	if !ok || group == "" {
		return "", "", false
	}
	consumer, ok = strings.CutPrefix(rest, "ids/")
	return group, consumer, ok && consumer != "" && !strings.Contains(consumer, "/")
}

// parseName reads the last part of a path directly under root.
func parseName(path, root string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, root)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// parseOffset reads a committed offset as its znode holds it.
func parseOffset(data string) (int64, bool) {
	n, err := strconv.ParseInt(data, 10, 64)
	return n, err == nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
