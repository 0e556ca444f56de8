package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image"
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func points(xs []float64, ys ...float64) []Point {
	var out []Point
	for i, y := range ys {
		out = append(out, Point{X: xs[i], Y: y, Low: y * 0.9, High: y * 1.05})
	}
	return out
}

// pictures is one of each kind and case.
func pictures() map[string]Picture {
	sizes := []float64{1, 10, 100, 1000}
	ticks := []Tick{{1, "1"}, {10, "10"}, {100, "100"}, {1000, "1000"}}
	line := &TimeLine{
		Head: Head{"A broker crashes", "simulated, profile nvme-2024, seed 1"}, Rate: Axis{Name: "received", Unit: "messages/s"}, Latency: Axis{Name: "latency p99", Unit: "s", Log: true},
		Series: []Stretch{{Name: "acks=all", Look: 0}, {Name: "acks=1", Look: 1}},
		Bands: []Band{
			{Name: "crash of broker-1", From: 2, To: 3, Recoveries: []Recovery{{0, 1.5}, {1, 0.5}}},
			{Name: "slow disk at broker-0", From: 6, To: 7, Recoveries: []Recovery{{0, -1}, {1, 0}}},
		},
	}
	for i := range 10 {
		rate, latency := 20000.0, 0.002
		if i == 2 || i == 6 {
			rate, latency = 0, 0
		}
		if i == 3 {
			rate, latency = 35000, 1.2
		}
		line.Series[0].Steps = append(line.Series[0].Steps, Step{float64(i), rate, latency})
		line.Series[1].Steps = append(line.Series[1].Steps, Step{float64(i), rate*0.7 + 5000, 0.001})
	}
	several := &TimeLine{Head: Head{"A broker crashes, three times", "simulated, profile nvme-2024, seeds 1 to 3: medians, and each repetition"}, Rate: line.Rate, Latency: line.Latency, Bands: line.Bands}
	for _, s := range line.Series {
		for n := range 3 {
			var steps []Step
			for _, step := range s.Steps {
				steps = append(steps, Step{step.At, step.Rate * (0.9 + 0.1*float64(n)), step.Latency * float64(1+n) / 2})
			}
			if n == 2 && s.Look == 0 {
				steps[2] = Step{2, 3000, 0.4} // it is felt in two of three
			}
			s.Each = append(s.Each, steps)
		}
		several.Series = append(several.Series, s)
	}
	return map[string]Picture{
		"time-lines": several,
		"curve": &Curve{
			Head: Head{"Producer throughput", "simulated, profile nvme-2024; one producer, acks=1, messages of 200 bytes, and a sentence that is long enough to need a second line under the title of the picture"},
			X:    Axis{Name: "batch size", Unit: "messages", Log: true}, Y: Axis{Name: "sent", Unit: "messages/s"}, Ticks: ticks,
			Series: []Series{
				{Name: "faultline, measured", Points: points(sizes, 17000, 130000, 560000, 821557)},
				{Name: "faultline, predicted", Faint: true, Points: points(sizes, 19000, 140000, 540000, 800000)},
				{Name: "queue", Look: 1, Points: points(sizes, 9000, 30000, 55000, 61000)},
				{Name: "published", Look: 0, Loose: true, Points: points(sizes, 50000)},
			},
		},
		"curve-log": &Curve{
			Head: Head{Title: "Latency against load"}, X: Axis{Name: "load", Unit: "messages/s"}, Y: Axis{Name: "latency", Unit: "s", Log: true},
			Ticks:  []Tick{{100000, "100k"}, {110000, "110k"}, {120000, "120k"}},
			Series: []Series{{Name: "p50", Points: points([]float64{100000, 110000, 120000}, 0.0003, 0.0005, 0.02)}, {Name: "p99", Look: 1, Points: points([]float64{100000, 110000, 120000}, 0.002, 0.004, 0.6)}},
		},
		"curve-named": &Curve{
			Head: Head{Title: "Codecs"}, X: Axis{Name: "codec"}, Y: Axis{Name: "sent", Unit: "B/s"}, Named: true,
			Ticks: []Tick{{0, "none"}, {1, "lz4"}}, Series: []Series{{Name: "faultline", Points: points([]float64{0, 1}, 4e8, 9e8)}},
		},
		"curve-empty": &Curve{Head: Head{Title: "Nothing was measured"}, X: Axis{Name: "x"}, Y: Axis{Name: "sent", Unit: "messages/s", Log: true}, Series: []Series{{Name: "faultline"}}},
		"bars": &Bars{
			Head: Head{"Published and predicted", "profile linkedin-2014"}, X: Axis{Name: "configuration"}, Y: Axis{Name: "sent", Unit: "messages/s"}, Cases: []string{"no replication", "asynchronous", "synchronous"},
			Series: []BarSeries{
				{Name: "predicted", Values: []Bar{{800000, 780000, 830000, true}, {760000, 760000, 760000, true}, {}}},
				{Name: "published", Faint: true, Values: []Bar{{821557, 821557, 821557, true}, {786980, 786980, 786980, true}, {421823, 421823, 421823, true}}},
			},
		},
		"time-line": line,
	}
}

func golden(t *testing.T, name string, got []byte) {
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run: go test ./reports/picture -update")
}

func TestPicturesAreTheSameBytesAgain(t *testing.T) {
	for name, p := range pictures() {
		t.Run(name, func(t *testing.T) {
			var svg, table bytes.Buffer
			require.NoError(t, Write(&svg, p, "svg", Wide))
			golden(t, name+".svg", svg.Bytes())
			require.NoError(t, WriteCSV(&table, p))
			golden(t, name+".csv", table.Bytes())
		})
	}
}

func TestPNGIs800PixelsWideAndLooksAsEver(t *testing.T) {
	for name, p := range pictures() {
		var out bytes.Buffer
		require.NoError(t, Write(&out, p, "png", Wide))
		data := bytes.Clone(out.Bytes())
		img, _, err := image.Decode(&out)
		require.NoError(t, err)
		require.Equal(t, 800, img.Bounds().Dx())
		path := filepath.Join("testdata", name+".png")
		if *update {
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		before, _, err := image.Decode(bytes.NewReader(want))
		require.NoError(t, err)
		require.Equal(t, before, img, "%s looks different", name)
	}
}

func TestInlinePictureIsWellFormedAndNamed(t *testing.T) {
	for name, p := range pictures() {
		for _, size := range []Size{Wide, Narrow} {
			text, err := Inline(p, size)
			require.NoError(t, err)
			d := xml.NewDecoder(bytes.NewReader([]byte(text)))
			first := true
			for {
				token, err := d.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err, name)
				if e, ok := token.(xml.StartElement); ok && first {
					first = false
					require.Equal(t, "svg", e.Name.Local)
					require.Contains(t, e.Attr, xml.Attr{Name: xml.Name{Local: "aria-label"}, Value: p.Heading()})
				}
			}
			require.False(t, first)
		}
	}
}

func TestLinearAxesStartAtZeroOrAreMarked(t *testing.T) {
	for _, c := range []struct {
		ticks  []Tick
		from   float64
		marked bool
	}{
		{[]Tick{{1, ""}, {10, ""}}, 0, false},
		{[]Tick{{-5, ""}, {10, ""}}, -5, false},
		{[]Tick{{80, ""}, {120, ""}}, 75, true},
		{[]Tick{{80, ""}}, 79, true},
	} {
		curve := &Curve{Ticks: c.ticks}
		p := newPlot(curve.X, curve.Y)
		before := len(p.GlyphBoxes(p))
		curve.across(p, curve.X, 500)
		require.Equal(t, c.from, p.X.Min)
		require.Equal(t, before, len(p.GlyphBoxes(p)))
		var with, without bytes.Buffer
		broad := &Curve{Ticks: c.ticks, X: Axis{Name: "x"}, Y: Axis{Name: "y"}}
		require.NoError(t, Write(&with, broad, "svg", Wide))
		broad.Named = true
		require.NoError(t, Write(&without, broad, "svg", Wide))
		require.Equal(t, c.marked, bytes.Count(with.Bytes(), []byte("fill:#FFFFFF")) > bytes.Count(without.Bytes(), []byte("fill:#FFFFFF")))
	}
}

func TestFiguresAreShort(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{{0, "s", "0"}, {821557, "messages/s", "821.6k"}, {0.014, "s", "14 ms"}, {0.00002, "s", "20 µs"}, {1.5e9, "B/s", "1.5 GB/s"}, {12, "messages", "12"}, {20e6, "", "20M"}} {
		require.Equal(t, c.want, Short(c.v, c.unit))
	}
}
