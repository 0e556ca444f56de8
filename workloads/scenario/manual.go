package scenario

import (
	_ "embed"
	"fmt"
	"strings"

	"faultline/faults"
	"faultline/faults/strict"
)

//go:embed fields.go
var fieldsSource string

// Fields documents every field of a scenario file.
func Fields() []strict.Field {
	return strict.Fields(Scenario{}, fieldsSource, faults.PlanSource, faults.SwarmSource)
}

// Manual is the reference of scenario files in Markdown, made from the comments of the fields and the tables of faults and families.
func Manual() string {
	var b strings.Builder
	b.WriteString(manualHead)
	var sections []string
	rows := map[string]string{}
	for _, f := range Fields() {
		cut := max(0, strings.LastIndexByte(f.Path, '.'))
		parent := f.Path[:cut]
		if rows[parent] == "" {
			sections = append(sections, parent)
		}
		rows[parent] += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", strings.TrimPrefix(f.Path[cut:], "."), f.Kind, cell(f.Default, f.Need), f.Allowed, about(f))
	}
	for _, parent := range sections {
		title := "`" + parent + "`"
		if parent == "" {
			title = "The file"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| field | kind | default | allowed | what it is |\n|---|---|---|---|---|\n%s", title, rows[parent])
	}
	b.WriteString("\n## Faults\n\nEvery fault has `at` and `fault`, and may have `every`, `until` and `if`.\n\n| fault | needs | may have | what happens |\n|---|---|---|---|\n")
	for _, k := range faults.Kinds {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Kind, strings.Join(k.Need, ", "), strings.Join(k.May, ", "), k.About)
	}
	b.WriteString("\n## Families of the swarm\n\n| family | what goes wrong |\n|---|---|\n")
	for _, f := range faults.Families {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Name, f.About)
	}
	b.WriteString("\n## Failpoints\n\nThe places of a `misfortune`. What the early way out of each is, its call in the source says.\n\n")
	for _, p := range faults.Places {
		fmt.Fprintf(&b, "- `%s`\n", p)
	}
	return b.String()
}

const manualHead = `# Scenario files

A scenario is a YAML file: the machines, the load, what goes wrong, and what is promised all the same. Only ` + "`name`" + ` is needed; everything else has a
default. Files are read strictly: an unknown field, a wrong unit or an impossible value is reported with file, line and column and with what is allowed.
` + "`faultline scenarios check FILE`" + ` reports all problems of a file at once.

Quantities are written with their units: durations ` + "`500ms`, `10s`" + `, sizes ` + "`200B`, `64KiB`" + `, bandwidths ` + "`10MiB/s`" + `, rates ` + "`2000/s`" + `, shares ` + "`5%`" + `.
A quantity may be a range, ` + "`2s..6s`" + `, and a word may be a list of words, ` + "`[all, 1]`" + `: each seed draws one value.

This page is made from the comments in the source (` + "`go test ./workloads/scenario -update`" + `).
`

func cell(text string, need bool) string {
	if need {
		return "needed"
	}
	return text
}

func about(f strict.Field) string {
	if f.Each && !strings.Contains(f.About, "drawn per") {
		return f.About + " Never drawn per seed."
	}
	return f.About
}
