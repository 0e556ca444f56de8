package sites

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScan(t *testing.T) {
	root := t.TempDir()
	write := func(name, body string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("package p\n\nfunc f(m M) {\n"+body+"\n}\n"), 0o644))
	}
	for _, room := range Rooms {
		write(room+"/empty.go", "")
	}
	write("broker/log/a.go", "if m.Failpoint(\"fault/log/b\") {\nm.Mark(\"mark/log/a\")\n}")
	write("broker/b.go", "x.m.Failpoint(\"fault/log/b\")")
	write("broker/b_test.go", "m.Failpoint(name)")
	found, err := Scan(root)
	require.NoError(t, err)
	require.Equal(t, []Site{{"fault/log/b", "broker/b.go:4"}, {"fault/log/b", "broker/log/a.go:4"}, {"mark/log/a", "broker/log/a.go:5"}}, found)
	require.Equal(t, []string{"fault/log/b", "mark/log/a"}, Names(found))

	write("broker/b.go", "m.Failpoint(name)")
	_, err = Scan(root)
	require.EqualError(t, err, "broker/b.go:4: the argument of Failpoint is no string constant")
	write("broker/b.go", "m.Mark(\"fault/log/b\")")
	_, err = Scan(root)
	require.EqualError(t, err, `broker/b.go:4: Mark("fault/log/b"): want mark/<room>/<place>`)
}
