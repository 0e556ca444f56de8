// Package scenarios holds the scenario files that ship with the program.
package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"faultline/workloads/scenario"
)

//go:embed *.yaml
var files embed.FS

// Names lists the scenarios, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Read returns the file of a scenario. The error of a name that does not ship wraps [fs.ErrNotExist].
func Read(name string) ([]byte, error) {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no scenario %q ships, allowed is %s, or a file: %w", name, strings.Join(Names(), ", "), fs.ErrNotExist)
	}
	return text, nil
}

// Load reads a scenario that ships.
func Load(name string) (*scenario.Scenario, error) {
	text, err := Read(name)
	if err != nil {
		return nil, err
	}
	return scenario.Parse("scenarios/"+name+".yaml", text)
}
