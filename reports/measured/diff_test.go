package measured

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// runOf is a run with one series and one value a group of figures.
func runOf(arm, metric string, groups ...[]float64) *Run {
	r := &Run{Suite: "s", Arm: arm, Pictures: []Drawing{{Y: metric}}, Series: []Series{{Name: "faultline"}}}
	for i, g := range groups {
		p := Point{Value: string(rune('a' + i))}
		for k, v := range g {
			p.Repetitions = append(p.Repetitions, Repetition{Seed: uint64(k + 1), Figures: map[string]float64{metric: v}})
		}
		r.Series[0].Points = append(r.Series[0].Points, p)
	}
	return r
}

// around gives n figures within a few percent of v, in no order.
func around(v float64, n int) []float64 {
	var out []float64
	for i := range n {
		out = append(out, v*(1+0.004*float64(i*7%n-n/2)))
	}
	return out
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name, arm, metric string
		before, after     []float64
		want              string
	}{
		{"throughput fell", Simulated, "sent", []float64{100}, []float64{90}, Worse},
		{"throughput rose", Simulated, "sent", []float64{100}, []float64{110}, Better},
		{"a little", Simulated, "sent", []float64{100}, []float64{98}, Same},
		{"latency rose", Simulated, "latency-p99", []float64{1000}, []float64{1100}, Worse},
		{"latency fell", Simulated, "latency-p99", []float64{1000}, []float64{900}, Better},
		{"by less than can be measured", Simulated, "latency-p50", []float64{5}, []float64{6}, Same},
		{"time to recover rose", Simulated, "recovery", []float64{1}, []float64{2}, Worse},
		{"losses began", Simulated, "refused", []float64{0}, []float64{3}, Worse},
		{"seeds overlap", Simulated, "sent", []float64{100, 80, 120}, []float64{90, 85, 95}, Same},
		{"seeds do not", Simulated, "sent", []float64{100, 99, 101}, []float64{90, 85, 95}, Worse},
		{"one real repetition says nothing", Real, "sent", []float64{100}, []float64{50}, Unsure},
		{"three do not either", Real, "sent", []float64{100, 101, 102}, []float64{50, 51, 52}, Unsure},
		{"unless they overlap", Real, "sent", []float64{100, 60, 102}, []float64{50, 61, 52}, Same},
		{"many do", Real, "sent", around(100, 8), around(90, 8), Worse},
		{"noise", Real, "sent", []float64{100, 80, 120, 90, 110, 95}, []float64{96, 78, 113, 88, 104, 91}, Same},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Compare([]*Run{runOf(c.arm, c.metric, c.before)}, []*Run{runOf(c.arm, c.metric, c.after)}, Rule{Least: 0.03})
			require.NoError(t, err)
			require.Len(t, d.Changes, 1)
			require.Equal(t, c.want, d.Changes[0].Verdict, "%+v", d.Changes[0])
			require.Equal(t, 1, d.Count(c.want))
			require.Empty(t, d.Notes)
		})
	}
}

// Among many figures some move by chance: the more are compared, the more one of them must show.
func TestMoreFiguresNeedMoreEvidence(t *testing.T) {
	quiet, fell := around(100, 5), []float64{90, 91, 92, 93, 94}
	alone, err := Compare([]*Run{runOf(Real, "sent", quiet)}, []*Run{runOf(Real, "sent", fell)}, Rule{Least: 0.03})
	require.NoError(t, err)
	require.Equal(t, Worse, alone.Changes[0].Verdict)
	many := slices.Repeat([][]float64{quiet}, 20)
	after := append(slices.Clone(many[:19]), fell)
	among, err := Compare([]*Run{runOf(Real, "sent", many...)}, []*Run{runOf(Real, "sent", after...)}, Rule{Least: 0.03})
	require.NoError(t, err)
	require.Equal(t, 19, among.Count(Same))
	require.Equal(t, Unsure, among.Changes[19].Verdict)
}

func TestWhatIsNotAlikeIsNoted(t *testing.T) {
	a, b := runOf(Simulated, "sent", []float64{1}, []float64{1}), runOf(Simulated, "sent", []float64{1})
	b.Profile = "another"
	b.Series[0].Points = append(b.Series[0].Points, Point{Value: "new", Repetitions: []Repetition{{Seed: 1, Figures: map[string]float64{"sent": 1}}}})
	extra := runOf(Real, "sent", []float64{1})
	d, err := Compare([]*Run{a, extra}, []*Run{b}, Rule{})
	require.NoError(t, err)
	require.Len(t, d.Changes, 1)
	require.Equal(t, []string{"s, simulated: the profile is another", "s, simulated: sent of faultline at new is in one only", "s, real: only in the first"}, d.Notes)
	_, err = Compare([]*Run{a}, []*Run{extra}, Rule{})
	require.ErrorIs(t, err, ErrNothing)
	d, err = Compare([]*Run{a}, []*Run{a}, Rule{Metrics: []string{"received", "sent"}})
	require.NoError(t, err)
	require.Len(t, d.Changes, 2)
}

// Whoever sent or received before and now nothing at all has no figure any more: the worst that can happen must not be what is not compared.
func TestSilenceIsWorse(t *testing.T) {
	for _, metric := range []string{"sent", "received-bytes", "latency-p99"} {
		before, after := runOf(Real, metric, []float64{100}, []float64{100, 100}), runOf(Real, metric, []float64{100}, []float64{100, 100})
		delete(after.Series[0].Points[1].Repetitions[0].Figures, metric)
		d, err := Compare([]*Run{before}, []*Run{after}, Rule{Least: 0.03})
		require.NoError(t, err)
		require.Equal(t, 1, d.Count(Worse))
		require.Equal(t, []string{"s, real: " + metric + " of faultline at b was measured before, and not now: nothing came"}, d.Notes)
		d, err = Compare([]*Run{after}, []*Run{before}, Rule{Least: 0.03})
		require.NoError(t, err)
		require.Equal(t, 1, d.Count(Better))
	}
}

func TestTableSaysWhereNothingCame(t *testing.T) {
	r := runOf(Simulated, "sent", []float64{100}, []float64{100})
	delete(r.Series[0].Points[1].Repetitions[0].Figures, "sent")
	var out bytes.Buffer
	require.NoError(t, r.WriteTable(&out))
	require.Contains(t, out.String(), "note: faultline at b sent and received nothing")
	require.NotContains(t, out.String(), "faultline at a")
	require.Contains(t, out.String(), "(measure, of load)")

	r = runOf(Real, "sent", []float64{100})
	out.Reset()
	require.NoError(t, r.WriteTable(&out))
	require.NotContains(t, out.String(), "note", "nobody reads")
	r.Series[0].Reads = true
	require.NoError(t, r.WriteTable(&out))
	require.Contains(t, out.String(), "note: faultline at a received nothing in the measured time; a longer one (real_measure, of load)")
}

func TestDocumentOfOthersIsChecked(t *testing.T) {
	for want, change := range map[string]func(r *Run){
		`suite: found "../x"`:               func(r *Run) { r.Suite = "../x" },
		`arm: found ""`:                     func(r *Run) { r.Arm = "" },
		`pictures[0].y: found ""`:           func(r *Run) { r.Pictures[0].Y = "" },
		`series[1].name: found "faultline"`: func(r *Run) { r.Series = append(r.Series, r.Series[0]) },
		"1 rates sent, 0 received":          func(r *Run) { r.Series[0].Points[0].Repetitions[0].Sent = []float64{1} },
		"steps of 0 s": func(r *Run) {
			one := &r.Series[0].Points[0].Repetitions[0]
			one.Sent, one.Received, one.P50, one.P99 = []float64{1}, []float64{1}, []int64{1}, []int64{1}
		},
	} {
		r := runOf(Real, "sent", []float64{1})
		r.Kind, r.Format = kind, format
		dir := t.TempDir()
		write := func() {
			var data bytes.Buffer
			require.NoError(t, r.Write(&data))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s.json"), data.Bytes(), 0o644))
		}
		write()
		_, err := Load(dir)
		require.NoError(t, err)
		change(r)
		write()
		_, err = Load(dir)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "s.json")
	}
}

// A run that was only half written is no other file that happens to be there.
func TestHalfADocumentIsNotPassedOver(t *testing.T) {
	dir := t.TempDir()
	_, err := SaveFiles(dir, sample(t, Simulated, 1, 1))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.json"), []byte(`["of somebody else"]`), 0o644))
	_, err = Load(dir)
	require.NoError(t, err)
	for _, half := range []string{"", `{"kind": "faultline ben`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "half.json"), []byte(half), 0o644))
		_, err = Load(dir)
		require.ErrorContains(t, err, "half.json: no JSON, or only a part of it")
	}
}
