package strict

import (
	"testing"

	"github.com/stretchr/testify/require"

	"faultline/faults/quantity"
)

type house struct {
	Name   string          `yaml:"name" need:"true"`
	Floors quantity.Counts `yaml:"floors" default:"1" min:"1" max:"9"`
	// How it is heated.
	Heat  quantity.Choice `yaml:"heat" default:"gas" oneof:"gas|oil|wood"`
	Door  door            `yaml:"door"`
	Rooms []room          `yaml:"rooms"`
	Tags  []string        `yaml:"tags"`
	Shed  *room           `yaml:"shed"`
}

type door struct {
	Count quantity.Counts `yaml:"count" short:"true" default:"1" min:"1"`
	Color string          `yaml:"color" default:"red" oneof:"red|blue"`
}

type room struct {
	Name string         `yaml:"name" need:"true"`
	Size quantity.Sizes `yaml:"size" default:"1KiB"`
}

func decode(text string) (*house, *Doc, error) {
	h := &house{}
	doc, problems := Decode("h.yaml", []byte(text), h)
	return h, doc, problems.Err()
}

func TestDefaultsFillWhatIsNotGiven(t *testing.T) {
	h, doc, err := decode("name: x\nshed: {name: s}\n")
	require.NoError(t, err)
	require.Equal(t, "1", h.Floors.String())
	require.Equal(t, "gas", h.Heat.V())
	require.Equal(t, "red", h.Door.Color)
	require.Equal(t, "1KiB", h.Shed.Size.String())
	require.True(t, doc.Given("shed.name"))
	require.False(t, doc.Given("door"))
}

func TestShortForm(t *testing.T) {
	h, _, err := decode("name: x\ndoor: 3\n")
	require.NoError(t, err)
	require.Equal(t, "3", h.Door.Count.String())
	require.Equal(t, "red", h.Door.Color)
	require.Equal(t, "name: x\ndoor: 3\n", string(Encode(h)))
}

func TestEveryProblemIsReportedAtItsPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"floors: 0\nnmae: x\n", `h.yaml:1:1: the field "name" is missing
h.yaml:1:9: floors: found 0, allowed is 1 to 9
h.yaml:2:1: found the unknown field "nmae", allowed is name, floors, heat, door, rooms, tags, shed; did you mean "name"?`},
		{"name: x\nname: y\n", `h.yaml:2:1: name: found a second time, allowed is once`},
		{"name: x\nheat: [gas, coal]\n", `h.yaml:2:13: heat: found "coal", allowed is gas, oil or wood`},
		{"name: x\nheat: []\n", `h.yaml:2:7: heat: found an empty list, allowed is one or more of gas, oil or wood`},
		{"name: x\nrooms: 3\n", `h.yaml:2:8: rooms: found "3", allowed is a list`},
		{"name: x\nrooms:\n  - size: 3\n", `h.yaml:3:5: rooms[0]: the field "name" is missing
h.yaml:3:11: rooms[0].size: found "3", allowed is a size such as 200B, 64KiB or 1GiB (the unit is missing: B, KiB, MiB, GiB, TiB)`},
		{"name: [a]\n", `h.yaml:1:7: name: found a list, allowed is a single value`},
		{"name:\n", `h.yaml:1:7: name: found nothing, allowed is a single value`},
		{"name: &a x\n", `h.yaml:1:7: name: found anchor, allowed are plain values only`},
		{"name: x\nshed: 5\n", `h.yaml:2:7: shed: found "5", allowed is a mapping with name, size`},
		{"name: x\n---\nname: y\n", `h.yaml:3:1: found a second document, allowed is one`},
		{"", `h.yaml:1:1: found an empty file, allowed is a mapping`},
		{"# nothing\n", `h.yaml:1:1: found an empty file, allowed is a mapping`},
		{"name: [x\n", "h.yaml:1:7: not YAML: sequence end token ']' not found"},
	} {
		_, _, err := decode(c.text)
		require.EqualError(t, err, c.want, c.text)
	}
}

func TestEncodeQuotesWhatYAMLWouldMisread(t *testing.T) {
	for _, name := range []string{"plain", "two words", "null", "true", "~", "*x", "a: b", "a #b", "- x", "-", "", " x", "x ", "it's", `"q"`, "new\nline", "a, b", "{a}", "[a]",
		"%x", "@x", "&x", "!x", "|", ">", "é", "a -b", "0x10", "1_000", "?", "? x", "a:", ":", "#", "`", "---", "...", "<<", "=", "\x00\x7f", "\u2028"} {
		h := &house{}
		Defaults(h)
		h.Name, h.Tags = name, []string{name}
		h.Rooms = []room{{Name: name, Size: quantity.Just(quantity.Bytes(5))}}
		back, _, err := decode(string(Encode(h)))
		require.NoError(t, err, "%q:\n%s", name, Encode(h))
		require.Equal(t, h, back, "%q:\n%s", name, Encode(h))
		var r room
		_, problems := Decode("r", []byte(Line(h.Rooms[0])), &r)
		require.NoError(t, problems.Err(), Line(h.Rooms[0]))
		require.Equal(t, h.Rooms[0], r)
	}
}

func TestFieldsAreDocumentedFromTheirComments(t *testing.T) {
	fields := Fields(house{}, "package p\ntype house struct {\n// How it is\n// heated.\nHeat int\n}\n")
	require.Equal(t, Field{Path: "heat", Kind: "word", Default: "gas", Allowed: "gas, oil or wood", About: "How it is heated."}, fields[2])
	require.Equal(t, "rooms[].name", fields[7].Path)
}

func FuzzDecode(f *testing.F) {
	f.Add("name: x\nrooms:\n  - {name: a, size: 3B..4B}\ntags: [a, b]\nheat: [gas, oil]\nshed: {name: s}\n")
	f.Add("name: \"a\\nb\"\ndoor: {count: 3, color: blue}\n")
	f.Add("a: [\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, _, err := decode(text)
		if err != nil {
			return
		}
		back, _, err := decode(string(Encode(h)))
		require.NoError(t, err, "%s", Encode(h))
		require.Equal(t, h, back, "%s", Encode(h))
	})
}
