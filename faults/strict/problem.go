package strict

import (
	"fmt"
	"sort"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File         string
	Line, Column int // from 1; 0: not in a file
	Text         string
}

func (p Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Problems are all things that are wrong, in the order of the file. As an error it has one line for each.
type Problems []Problem

func (ps Problems) Error() string {
	var lines []string
	for i, p := range ps {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more problems", len(ps)-i))
			break
		}
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// Err is the problems as an error, nil when there are none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	sort.SliceStable(ps, func(i, j int) bool {
		if ps[i].Line != ps[j].Line {
			return ps[i].Line < ps[j].Line
		}
		return ps[i].Column < ps[j].Column
	})
	return ps
}

// Problem makes a problem at the field's place, or at that of the nearest field around it that the file gives.
func (d *Doc) Problem(path, format string, args ...any) Problem {
	p := Problem{Text: fmt.Sprintf(format, args...)}
	if path != "" {
		p.Text = path + ": " + p.Text
	}
	if d == nil {
		p.File = "scenario"
		return p
	}
	p.File = d.File
	for {
		if at := d.places[path]; at != nil {
			p.Line, p.Column = at.Line, at.Column
			return p
		}
		if path == "" {
			p.Line, p.Column = 1, 1
			return p
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}
