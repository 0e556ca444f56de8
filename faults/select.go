package faults

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Roles of machines. A machine is named role-number, numbers from 1.
var Roles = []string{"broker", "coord", "producer", "consumer", "client"}

var (
	machineName = regexp.MustCompile(`^([a-z]+)-([1-9][0-9]*|\*)$`)
	groupTerm   = regexp.MustCompile(`^coordinator of ([A-Za-z0-9._-]+)$`)
	leaderTerm  = regexp.MustCompile(`^leader of ([A-Za-z0-9._-]+)/([0-9]+)$`)
)

const targetForms = "a machine (broker-1), a pattern (consumer-*), any broker, leader of TOPIC/PARTITION, coordinator of GROUP, a rack (rack-2, any rack), or several of these with commas between"

// rackRole is how racks are named where machines are named by their role.
const rackRole = "rack"

// Rack is the rack that a machine stands in, from 1: the machines of a role are spread over the racks by their number.
func Rack(machine string, racks int) int {
	m := machineName.FindStringSubmatch(machine)
	if m == nil || racks <= 1 {
		return 1
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		return 1
	}
	return (n-1)%racks + 1
}

// term is one part of a target. Exactly one of the five forms: any, leader, coordinator, rack, or a name that may be a pattern.
type term struct {
	text      string
	any       string // role, or rack
	topic     string // leader of
	partition int32
	group     string // coordinator of
	rack      int
	role      string // role-number or role-*
}

func terms(target string) ([]term, error) {
	var out []term
	for _, text := range strings.Split(target, ",") {
		t := term{text: strings.TrimSpace(text)}
		switch {
		case strings.HasPrefix(t.text, "any "):
			t.any = strings.TrimPrefix(t.text, "any ")
			if !slices.Contains(Roles, t.any) && t.any != rackRole {
				return nil, fmt.Errorf("found %q, allowed after any is %s, %s", t.text, strings.Join(Roles, ", "), rackRole)
			}
		case leaderTerm.MatchString(t.text):
			m := leaderTerm.FindStringSubmatch(t.text)
			p, err := strconv.ParseInt(m[2], 10, 32)
			if err != nil {
				return nil, fmt.Errorf("found %q, allowed is a partition number below 2147483648", t.text)
			}
			t.topic, t.partition = m[1], int32(p)
		case groupTerm.MatchString(t.text):
			t.group = groupTerm.FindStringSubmatch(t.text)[1]
		case machineName.MatchString(t.text):
			m := machineName.FindStringSubmatch(t.text)
			t.role = m[1]
			if t.role == rackRole {
				n, err := strconv.Atoi(m[2])
				if err != nil {
					return nil, fmt.Errorf("found %q, allowed is a rack by its number", t.text)
				}
				t.role, t.rack = "", n
				break
			}
			if !slices.Contains(Roles, t.role) {
				return nil, fmt.Errorf("found %q, allowed are machines of the roles %s", t.text, strings.Join(Roles, ", "))
			}
		default:
			return nil, fmt.Errorf("found %q, allowed is %s", t.text, targetForms)
		}
		out = append(out, t)
	}
	return out, nil
}

// machines lists what the target stands for in the world now, without repetition, in the order of the target.
func machines(target string, w Target) []string {
	list, err := terms(target)
	if err != nil {
		return nil // a plan that was not checked
	}
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if n != "" && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	for _, t := range list {
		switch {
		case t.topic != "":
			add(w.Leader(t.topic, t.partition))
		case t.group != "":
			add(w.Coordinator(t.group))
		case t.rack > 0:
			for _, m := range w.Machines("") {
				if t.rack <= max(1, w.Racks()) && Rack(m, w.Racks()) == t.rack {
					add(m)
				}
			}
		case strings.HasSuffix(t.text, "-*"):
			add(w.Machines(t.role)...)
		case slices.Contains(w.Machines(t.role), t.text):
			add(t.text)
		}
	}
	return out
}

// drawTarget replaces "any role" by a machine. Terms for machines that this world does not have are dropped.
func drawTarget(target string, env Env, spare bool, rng *rand.Rand) string {
	list, err := terms(target)
	if err != nil {
		return ""
	}
	var out []string
	for _, t := range list {
		switch {
		case t.any == rackRole:
			out = append(out, fmt.Sprintf("%s-%d", rackRole, 1+rng.IntN(max(1, env.Racks))))
		case t.any != "":
			pool := env.Machines[t.any]
			pool = slices.DeleteFunc(slices.Clone(pool), func(m string) bool {
				return slices.Contains(env.Spare, m) != spare || slices.Contains(out, m)
			})
			if len(pool) > 0 {
				out = append(out, pool[rng.IntN(len(pool))])
			}
		case t.topic != "" || t.group != "" || strings.HasSuffix(t.text, "-*") || t.rack > 0 && t.rack <= max(1, env.Racks):
			out = append(out, t.text)
		case slices.Contains(env.Machines[t.role], t.text):
			out = append(out, t.text)
		}
	}
	return strings.Join(out, ", ")
}

// MatchPath tells whether a path matches a pattern: * stands for any text without a slash, ** for any text, ? for one character.
// A pattern without a slash is held against the base name. The empty pattern matches every path.
func MatchPath(pattern, path string) bool {
	if pattern == "" {
		return true
	}
	if !strings.Contains(pattern, "/") && !strings.Contains(pattern, "**") {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	return glob(pattern, path)
}

func glob(pattern, s string) bool {
	for len(pattern) > 0 {
		switch {
		case strings.HasPrefix(pattern, "**"):
			for i := 0; i <= len(s); i++ {
				if glob(pattern[2:], s[i:]) {
					return true
				}
			}
			return false
		case pattern[0] == '*':
			for i := 0; i <= len(s); i++ {
				if glob(pattern[1:], s[i:]) {
					return true
				}
				if i < len(s) && s[i] == '/' {
					return false
				}
			}
			return false
		case len(s) == 0 || pattern[0] != s[0] && (pattern[0] != '?' || s[0] == '/'):
			return false
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}
