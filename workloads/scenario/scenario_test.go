package scenario_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/faults/quantity"
	"faultline/scenarios"
	"faultline/workloads/scenario"
)

var update = flag.Bool("update", false, "rewrite docs/scenarios.md")

const tenLines = `
name: broker-crash
about: A broker dies
  and comes back.
topology:
  brokers: 1..3
workload:
  rate: 1000/s
faults:
  - {at: 2s..6s, fault: crash, target: any broker, for: 500ms..2s, every: 2s}
swarm: {}
`

func TestTenLinesAreAScenario(t *testing.T) {
	s, err := scenario.Parse("x.yaml", []byte(tenLines))
	require.NoError(t, err)
	require.Equal(t, "A broker dies and comes back.", s.About)
	require.Equal(t, "visits", s.Topology.Topics[0].Name)
	require.Equal(t, "readers", s.Topology.Groups[0].Name)
	require.Len(t, s.Topology.Producers, 1)
	d := s.Draw(3)
	require.NotEmpty(t, d.Faults)
	require.Nil(t, d.Swarm)
}

func TestWhatIsDrawnIsAScenarioOfItsOwn(t *testing.T) {
	for _, text := range append(shipped(t), tenLines) {
		s, err := scenario.Parse("x.yaml", []byte(text))
		require.NoError(t, err)
		back, err := scenario.Parse("y.yaml", s.Marshal())
		require.NoError(t, err, "%s", s.Marshal())
		require.Equal(t, s, back)
		for seed := range uint64(40) {
			d := s.Draw(seed)
			require.Equal(t, d, s.Draw(seed))
			require.Equal(t, d, d.Draw(seed+1), "drawing again changes nothing")
			require.NoError(t, d.Check())
			back, err := scenario.Parse("z.yaml", d.Marshal())
			require.NoError(t, err, "%s", d.Marshal())
			require.Equal(t, d, back)
		}
	}
}

func shipped(t *testing.T) []string {
	var out []string
	for _, name := range scenarios.Names() {
		text, err := scenarios.Read(name)
		require.NoError(t, err)
		out = append(out, string(text))
	}
	require.NotEmpty(t, out)
	return out
}

func TestShippedScenariosAreNamedAfterTheirFiles(t *testing.T) {
	for _, name := range scenarios.Names() {
		text, err := scenarios.Read(name)
		require.NoError(t, err)
		s, err := scenario.Parse(name+".yaml", text)
		require.NoError(t, err)
		require.Equal(t, name, s.Name)
		require.NotEmpty(t, s.About)
		require.LessOrEqual(t, s.Workload.Duration.Max.D(), 30*time.Second)
	}
}

func TestADrawIsKeyedByItsField(t *testing.T) {
	s, err := scenario.Parse("x.yaml", []byte(tenLines))
	require.NoError(t, err)
	with := s.Clone()
	with.Topology.Topics[0].Partitions = quantity.Between(quantity.Count(1), quantity.Count(12))
	seen := map[quantity.Count]bool{}
	for seed := range uint64(20) {
		require.Equal(t, s.Draw(seed).Topology.Brokers, with.Draw(seed).Topology.Brokers)
		seen[with.Draw(seed).Topology.Topics[0].Partitions.V()] = true
	}
	require.Greater(t, len(seen), 5)
	require.False(t, s.Topology.Brokers.Count.Fixed(), "the draw works on a copy")
}

func TestOptionsThatDoNothingInAGroupAreRefused(t *testing.T) {
	parse := func(group string) (*scenario.Scenario, error) {
		return scenario.Parse("x.yaml", []byte("name: x\ntopology: {groups: [{name: g, "+group+"}]}\n"))
	}
	for _, c := range []struct{ group, want string }{
		{"static: yes", "static: found yes in a group of protocol registry, where it does nothing; allowed is to leave it out, or protocol: coordinator"},
		{"static: no", "static: found no in a group of protocol registry"},
		{"assignor: [range, sticky]", "assignor: found [range, sticky] in a group of protocol registry"},
		{"assignor: range", "assignor: found range in a group of protocol registry"},
		{"max_poll_interval: 2s..4s", "max_poll_interval: found 2s..4s in a group of protocol registry"},
		{"clients: old, protocol: registry", "clients: found old in a group of protocol registry"},
		{"protocol: coordinator, rebalance_retries: 3", "rebalance_retries: found 3 in a group of protocol coordinator, where it does nothing; allowed is to leave it out, or protocol: registry"},
		{"protocol: coordinator, rebalance_backoff: 1s", "rebalance_backoff: found 1s in a group of protocol coordinator"},
		{"protocol: coordinator, clients: old, static: yes", "static: found yes with clients old, who cannot be static; allowed is no, or clients: current"},
	} {
		_, err := parse(c.group)
		require.ErrorContains(t, err, "x.yaml:2:", c.group)
		require.ErrorContains(t, err, "topology.groups[0]."+c.want, c.group)
	}
	for _, group := range []string{"protocol: coordinator, static: yes, assignor: sticky, clients: [current, old], max_poll_interval: 1s", "rebalance_retries: 3, rebalance_backoff: 1s",
		"protocol: [registry, coordinator], static: yes, max_poll_interval: 1s, rebalance_backoff: 1s"} {
		s, err := parse(group)
		require.NoError(t, err, group)
		for seed := range uint64(10) { // what a seed makes idle is not there in what it draws
			d := s.Draw(seed)
			back, err := scenario.Parse("y.yaml", d.Marshal())
			require.NoError(t, err, "%s", d.Marshal())
			require.Equal(t, d, back)
			g := d.Topology.Groups[0]
			require.Equal(t, g.Protocol.V() == "coordinator" && g.Clients.V() == "current" && s.Topology.Groups[0].Static.V() == "yes", g.Static.V() == "yes")
		}
	}
}

func TestInputIsRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	require.NoError(t, os.WriteFile(file, []byte("name: x\nworkload: {kind: lines, input: logs/app.log}\n"), 0o644))
	s, err := scenario.Load(file)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "logs/app.log"), s.Workload.Input)
}

func FuzzParse(f *testing.F) {
	for _, name := range scenarios.Names() {
		text, err := scenarios.Read(name)
		require.NoError(f, err)
		f.Add(string(text), uint64(1))
	}
	f.Add(tenLines, uint64(2))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		s, err := scenario.Parse("f.yaml", []byte(text))
		if err != nil {
			return
		}
		back, err := scenario.Parse("f.yaml", s.Marshal())
		require.NoError(t, err, "%s", s.Marshal())
		require.Equal(t, s, back)
		d := s.Draw(seed)
		require.NoError(t, d.Check(), "%s", d.Marshal())
		back, err = scenario.Parse("f.yaml", d.Marshal())
		require.NoError(t, err, "%s", d.Marshal())
		require.Equal(t, d, back)
		d.Machines(seed)
	})
}

func TestMachines(t *testing.T) {
	s, err := scenario.Parse("x.yaml", []byte(`
name: x
topology:
  brokers: {count: 2, start: 1s..2s}
  producers: [{count: 1, acks: 1}, {count: 2}]
  groups: [{name: a, consumers: 1, spare: 1}, {name: b, consumers: 2, start: 3s}, {name: c, protocol: coordinator, consumers: 2, session_extra: 1s..100s, max_poll_extra: 1s..10s}]
`))
	require.NoError(t, err)
	var names []string
	byName := map[string]scenario.Machine{}
	for _, m := range s.Machines(1) {
		names = append(names, m.Name)
		byName[m.Name] = m
	}
	require.Equal(t, []string{"coord-1", "broker-1", "broker-2", "producer-1", "producer-2", "producer-3", "consumer-1", "consumer-2", "consumer-3", "consumer-4", "consumer-5", "consumer-6"}, names)
	require.True(t, byName["consumer-2"].Spare)
	require.Equal(t, "b", byName["consumer-3"].Group.Name)
	require.Equal(t, 3*time.Second, byName["consumer-4"].Start)
	require.Zero(t, byName["consumer-4"].SessionExtra+byName["consumer-4"].MaxPollExtra)
	a, b := byName["consumer-5"], byName["consumer-6"]
	require.NotEqual(t, a.SessionExtra, b.SessionExtra)
	require.NotEqual(t, a.MaxPollExtra, b.MaxPollExtra)
	require.GreaterOrEqual(t, min(a.SessionExtra, b.SessionExtra, a.MaxPollExtra, b.MaxPollExtra), time.Second)
}

func TestAllProblemsOfAFile(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		_, err := scenario.Load(file)
		require.Error(t, err, file)
		golden := file[:len(file)-len(".yaml")] + ".txt"
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644))
		}
		want, readErr := os.ReadFile(golden)
		require.NoError(t, readErr)
		require.Equal(t, string(want), err.Error()+"\n")
	}
	_, err = scenario.Load("testdata/none.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDefaultsAreAllowedValues(t *testing.T) {
	for _, f := range scenario.Fields() {
		require.NotEmpty(t, f.About, "%s has no comment", f.Path)
	}
	s := scenario.New("x")
	require.NoError(t, s.Check())
	back, err := scenario.Parse("x.yaml", s.Marshal())
	require.NoError(t, err)
	require.Equal(t, s, back)
	within(t, reflect.ValueOf(s).Elem(), "scenario")
}

// within checks the defaults against the bounds of their own fields.
func within(t *testing.T, v reflect.Value, path string) {
	for i := range v.NumField() {
		f, x := v.Type().Field(i), v.Field(i)
		at := path + "." + f.Tag.Get("yaml")
		if r, ok := x.Interface().(interface{ Within(min, max string) error }); ok {
			require.NoError(t, r.Within(f.Tag.Get("min"), f.Tag.Get("max")), at)
			continue
		}
		switch {
		case x.Kind() == reflect.Struct && x.Type() != reflect.TypeOf(quantity.Choice{}):
			within(t, x, at)
		case x.Kind() == reflect.Slice && x.Type().Elem().Kind() == reflect.Struct:
			for j := range x.Len() {
				within(t, x.Index(j), at)
			}
		}
	}
}

func TestManual(t *testing.T) {
	const file = "../../docs/scenarios.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(scenario.Manual()), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, scenario.Manual(), string(have), "run: go test ./workloads/scenario -update")
}

func TestSeeds(t *testing.T) {
	for text, want := range map[string][]uint64{
		"1..4": {1, 2, 3, 4}, "7": {7}, "1..3,20": {1, 2, 3, 20}, "5..5, 2..3": {5, 2, 3}, "18446744073709551614..18446744073709551615": {1<<64 - 2, 1<<64 - 1},
	} {
		seeds, err := scenario.ParseSeeds(text)
		require.NoError(t, err, text)
		require.Equal(t, want, seeds, text)
	}
	const forms = "a seed (7), a range (1..200) or several of these with commas between (1..10,20)"
	for text, want := range map[string]string{
		"":                        `seeds: found "", allowed is ` + forms,
		"x":                       `seeds: found "x", allowed is ` + forms,
		"1..":                     `seeds: found "1..", allowed is ` + forms,
		"-1":                      `seeds: found "-1", allowed is ` + forms,
		"9..1":                    `seeds: found "9..1", allowed is a range from the smaller to the larger seed: 1..9`,
		"1..9,5":                  `seeds: found "5" after 1..9, allowed is each seed once`,
		"0..18446744073709551615": `seeds: found "0..18446744073709551615", allowed are 10000000 seeds in all`,
	} {
		_, err := scenario.ParseSeeds(text)
		require.EqualError(t, err, want)
	}
}
