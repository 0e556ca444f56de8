package bench

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"faultline/faults/strict"
)

//go:embed suite.go
var suiteSource string

// elsewhere are sections of a suite that scenario files have too, and whose fields are documented there.
var elsewhere = []string{"topology", "workload", "faults"}

// Manual is the reference of suites in Markdown, made from the comments of the fields and from what ships.
func Manual() string {
	var b strings.Builder
	b.WriteString(manualHead)
	b.WriteString("\n## Suites that ship\n\n| suite | what it shows |\n|---|---|\n")
	for _, name := range Suites() {
		s, err := LoadSuite(name)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, s.About)
	}
	b.WriteString("\n## Profiles that ship\n\n| profile | what it stands for |\n|---|---|\n")
	for _, name := range Profiles() {
		p, err := LoadProfile(name)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, p.About)
	}
	var sections []string
	rows := map[string]string{}
	for _, f := range strict.Fields(Suite{}, suiteSource) {
		cut := max(0, strings.LastIndexByte(f.Path, '.'))
		parent := f.Path[:cut]
		root, _, _ := strings.Cut(parent, ".")
		if parent != "" && slices.ContainsFunc(elsewhere, func(e string) bool { return strings.HasPrefix(root, e) }) {
			continue
		}
		if rows[parent] == "" {
			sections = append(sections, parent)
		}
		def := f.Default
		if f.Need {
			def = "needed"
		}
		rows[parent] += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", strings.TrimPrefix(f.Path[cut:], "."), f.Kind, def, f.Allowed, f.About)
	}
	for _, parent := range sections {
		title := "`" + parent + "`"
		if parent == "" {
			title = "The file"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| field | kind | default | allowed | what it is |\n|---|---|---|---|---|\n%s", title, rows[parent])
	}
	return b.String()
}

const manualHead = `# Benchmarks

` + "`faultline bench SUITE`" + ` measures throughput and latency. A suite is a YAML file: a deployment in the words of a scenario (see [scenarios](scenarios.md)), how hard its clients
drive it, one setting that is swept, and the curves and pictures that come of it. Copy one that ships (` + "`workloads/bench/suites`" + `), change it, and give its path: ` + "`faultline bench ./mine.yaml`" + `.

A setting is named by its path in the file, with the numbers of entries in lists: ` + "`topology.producers.0.batch_records`" + `. A series is the sweep with other settings, each ` + "`PATH=VALUE`" + `.

**The cost model.** On simulated hardware everything costs time where it happens: a request, a record, a byte copied, moved through a connection, stored, flushed, checksummed or compressed, and a system call occupy one core of the
machine, which an operating system's and a hypervisor's ticks may interrupt (` + "`cpu.interrupt`" + `; costs are with them, on average); reads and writes go through a page cache to a disk with a bandwidth, a seek time and a flush time; packets queue at the network cards of both ends. Nothing else does: no garbage
collection, no scheduling by an operating system, no contention of caches. Log bytes that go from file to socket are not copied, unless ` + "`topology.brokers.zero_copy`" + ` is "no".
What the hardware costs is a profile (` + "`workloads/bench/profiles`" + `), each figure with its source.

**Latency** is end to end: from the moment at which a message was due to that at which a consumer has it. With a rate, messages are sent when they are due whether the system keeps
up or not, and those that a stall holds up count from when they were due, so that the stall is charged for all of them (coordinated omission).

**Retained data** costs no memory: its bytes are made when they are read.

One seed, one profile and one build give the same figures, to the byte.

` + "`faultline bench plan`" + ` searches the smallest cluster that carries a load.

This page is made from the comments in the source (` + "`go test ./workloads/bench -update`" + `).
`
