package conformance

import (
	"bytes"
	"io"
	"io/fs"
	"time"

	"github.com/stretchr/testify/require"

	"faultline/sim/machine"
)

// create makes a file that holds the bytes.
func create(t require.TestingT, d machine.Disk, name, bytes string) machine.File {
	f, err := d.Open(name, machine.Create|machine.Exclusive)
	require.NoError(t, err)
	_, err = machine.WriteFull(f, []byte(bytes), 0)
	require.NoError(t, err)
	return f
}

// content reads a whole file.
func content(t require.TestingT, f machine.File) string {
	size, err := f.Size()
	require.NoError(t, err)
	p := make([]byte, size)
	if size > 0 {
		_, err = machine.ReadFull(f, p, 0)
		require.NoError(t, err)
	}
	return string(p)
}

// list shows a directory as "name:size" and "name/".
func list(t require.TestingT, d machine.Disk, name string) []string {
	infos, err := d.ReadDir(name)
	require.NoError(t, err)
	out := []string{}
	for _, i := range infos {
		if i.IsDir {
			out = append(out, i.Name+"/")
		} else {
			out = append(out, i.Name+":"+string(rune('0'+i.Size)))
		}
	}
	return out
}

// onDisk is a requirement about one disk.
func onDisk(name string, body func(t *T, d machine.Disk)) test {
	return test{name: name, body: func(t *T, m, _ machine.Machine) { body(t, m.Disk()) }}
}

var diskTests = []test{
	onDisk("open finds, makes, refuses and cuts as its mode says", func(t *T, d machine.Disk) {
		_, err := d.Open("f", 0)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = d.Open("f", machine.Truncate)
		require.ErrorIs(t, err, fs.ErrNotExist)
		f := create(t, d, "f", "abc")
		require.Equal(t, "f", f.Name())
		_, err = d.Open("f", machine.Create|machine.Exclusive)
		require.ErrorIs(t, err, fs.ErrExist)
		for _, mode := range []machine.Mode{0, machine.Create} {
			g, err := d.Open("f", mode)
			require.NoError(t, err)
			require.Equal(t, "abc", content(t, g))
		}
		g, err := d.Open("f", machine.Truncate)
		require.NoError(t, err)
		require.Equal(t, "", content(t, g))
		require.Equal(t, "", content(t, f), "both see the same file")
	}),
	onDisk("open needs the parent and a file", func(t *T, d machine.Disk) {
		_, err := d.Open("no/f", machine.Create)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "no/f", "an error names the path")
		require.NoError(t, d.Mkdir("d"))
		_, err = d.Open("d", 0)
		require.Error(t, err)
		_, err = d.Open("", machine.Create)
		require.Error(t, err)
		create(t, d, "f", "")
		_, err = d.Open("f/g", machine.Create)
		require.Error(t, err)
	}),
	onDisk("mkdir makes parents and minds nothing that exists", func(t *T, d machine.Disk) {
		require.NoError(t, d.Mkdir("a/b/c"))
		require.NoError(t, d.Mkdir("a/b/c"))
		require.NoError(t, d.Mkdir("a/b/d"))
		require.NoError(t, d.Mkdir(""))
		require.Equal(t, []string{"c/", "d/"}, list(t, d, "a/b"))
		create(t, d, "f", "")
		require.Error(t, d.Mkdir("f"))
		require.Error(t, d.Mkdir("f/g"))
	}),
	onDisk("readdir is sorted and complete", func(t *T, d machine.Disk) {
		require.Empty(t, list(t, d, ""))
		require.NoError(t, d.Mkdir("m"))
		for _, name := range []string{"z", "a", "k", "m/x"} {
			require.NoError(t, create(t, d, name, name).Close())
		}
		require.Equal(t, []string{"a:1", "k:1", "m/", "z:1"}, list(t, d, ""))
		require.Equal(t, []string{"x:3"}, list(t, d, "m"))
		_, err := d.ReadDir("no")
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = d.ReadDir("a")
		require.Error(t, err)
	}),
	{name: "stat tells size, kind and time", body: func(t *T, m, _ machine.Machine) {
		d := m.Disk()
		before := m.Now()
		require.NoError(t, d.Mkdir("d"))
		create(t, d, "d/f", "abc")
		after := m.Now()
		info, err := d.Stat("d/f")
		require.NoError(t, err)
		require.Equal(t, "f", info.Name)
		require.EqualValues(t, 3, info.Size)
		require.False(t, info.IsDir)
		require.False(t, info.ModTime.Before(before.Add(-2*time.Second)), "file systems round")
		require.False(t, info.ModTime.After(after.Add(2*time.Second)))
		info, err = d.Stat("d")
		require.NoError(t, err)
		require.Equal(t, "d", info.Name)
		require.True(t, info.IsDir)
		info, err = d.Stat("")
		require.NoError(t, err)
		require.True(t, info.IsDir)
		require.Empty(t, info.Name)
		_, err = d.Stat("no")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}},
	onDisk("remove takes files and empty directories", func(t *T, d machine.Disk) {
		require.NoError(t, d.Mkdir("d"))
		create(t, d, "d/f", "abc")
		require.Error(t, d.Remove("d"))
		require.NoError(t, d.Remove("d/f"))
		require.ErrorIs(t, d.Remove("d/f"), fs.ErrNotExist)
		require.NoError(t, d.Remove("d"))
		require.Empty(t, list(t, d, ""))
		require.Error(t, d.Remove(""))
	}),
	onDisk("a removed file lives on for those who have it open", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "old")
		require.NoError(t, d.Remove("f"))
		g := create(t, d, "f", "new")
		_, err := f.Pwrite([]byte("er"), 3)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.Equal(t, "older", content(t, f))
		require.Equal(t, "new", content(t, g))
		require.NoError(t, f.Close())
		require.Equal(t, "new", content(t, g))
	}),
	onDisk("rename moves, and replaces what is there", func(t *T, d machine.Disk) {
		require.NoError(t, d.Mkdir("d"))
		f := create(t, d, "f", "first")
		require.NoError(t, d.Rename("f", "d/g"))
		require.Empty(t, slicesWithout(list(t, d, ""), "d/"))
		require.Equal(t, "first", content(t, f))
		h := create(t, d, "h", "second")
		old, err := d.Open("d/g", 0)
		require.NoError(t, err)
		require.NoError(t, d.Rename("h", "d/g"))
		require.Equal(t, []string{"g:6"}, list(t, d, "d"))
		require.Equal(t, "first", content(t, old))
		_, err = h.Pwrite([]byte("S"), 0)
		require.NoError(t, err)
		now, err := d.Open("d/g", 0)
		require.NoError(t, err)
		require.Equal(t, "Second", content(t, now))
		require.NoError(t, d.Rename("d/g", "d/g"), "onto itself")
		require.Equal(t, "Second", content(t, now))
	}),
	onDisk("rename moves directories with all below", func(t *T, d machine.Disk) {
		require.NoError(t, d.Mkdir("a/b"))
		f := create(t, d, "a/b/f", "abc")
		require.NoError(t, d.Rename("a", "c"))
		require.Equal(t, []string{"f:3"}, list(t, d, "c/b"))
		_, err := d.Stat("a")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Equal(t, "abc", content(t, f))
		require.Error(t, d.Rename("c", "c/b/c"), "into itself")
	}),
	onDisk("rename refuses what cannot be", func(t *T, d machine.Disk) {
		create(t, d, "f", "")
		require.NoError(t, d.Mkdir("d"))
		create(t, d, "d/x", "")
		require.ErrorIs(t, d.Rename("no", "g"), fs.ErrNotExist)
		require.ErrorIs(t, d.Rename("f", "no/g"), fs.ErrNotExist)
		require.Error(t, d.Rename("f", "d"))
		require.Error(t, d.Rename("d", "f"))
		require.Error(t, d.Rename("", "g"))
		require.Equal(t, []string{"d/", "f:0"}, list(t, d, ""))
	}),
	onDisk("syncdir wants a directory", func(t *T, d machine.Disk) {
		require.NoError(t, d.SyncDir(""))
		require.NoError(t, d.Mkdir("d"))
		create(t, d, "d/f", "")
		require.NoError(t, d.SyncDir("d"))
		require.ErrorIs(t, d.SyncDir("no"), fs.ErrNotExist)
		require.Error(t, d.SyncDir("d/f"))
	}),
	onDisk("paths are cleaned and stay below the root", func(t *T, d machine.Disk) {
		require.NoError(t, d.Mkdir("a"))
		f := create(t, d, "/a//b/../f", "abc")
		require.Equal(t, "a/f", f.Name())
		_, err := d.Stat("../../a/./f")
		require.NoError(t, err)
	}),
}

func slicesWithout(list []string, drop string) (kept []string) {
	for _, s := range list {
		if s != drop {
			kept = append(kept, s)
		}
	}
	return kept
}

var fileTests = []test{
	onDisk("reads end at the end", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "0123456789")
		p := make([]byte, 8)
		n, err := f.Pread(p, 0)
		require.NoError(t, err)
		require.Equal(t, "01234567", string(p[:n]))
		n, err = f.Pread(p, 8)
		require.NoError(t, err, "fewer bytes are no error")
		require.Equal(t, "89", string(p[:n]))
		for _, at := range []int64{10, 11, 1 << 40} {
			n, err = f.Pread(p, at)
			require.Zero(t, n)
			require.Equal(t, io.EOF, err, "unwrapped, as io.Reader has it")
		}
		_, err = machine.ReadFull(f, p, 5)
		require.Equal(t, io.ErrUnexpectedEOF, err)
		n, err = f.Pread(nil, 3)
		require.NoError(t, err)
		require.Zero(t, n)
	}),
	onDisk("writes go where they are told", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "0123456789")
		_, err := f.Pwrite([]byte("abc"), 4)
		require.NoError(t, err)
		_, err = f.Pwrite([]byte("xyz"), 9)
		require.NoError(t, err)
		require.Equal(t, "0123abc78xyz", content(t, f))
		n, err := f.Pwrite(nil, 100)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, "0123abc78xyz", content(t, f))
	}),
	onDisk("gaps read as zeros", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "a")
		_, err := f.Pwrite([]byte("b"), 100_000)
		require.NoError(t, err)
		require.Equal(t, "a"+string(make([]byte, 99_999))+"b", content(t, f))
	}),
	onDisk("truncate cuts and extends by zeros", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "0123456789")
		require.NoError(t, f.Truncate(4))
		require.Equal(t, "0123", content(t, f))
		require.NoError(t, f.Truncate(8))
		require.Equal(t, "0123\x00\x00\x00\x00", content(t, f))
		require.NoError(t, f.Truncate(0))
		_, err := f.Pwrite([]byte("z"), 2)
		require.NoError(t, err)
		require.Equal(t, "\x00\x00z", content(t, f))
		require.NoError(t, f.Sync())
		require.Equal(t, "\x00\x00z", content(t, f))
	}),
	onDisk("large files keep every byte", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "")
		want := make([]byte, 3_000_001)
		for i := range want {
			want[i] = byte(i * 7 >> 3)
		}
		for at := 0; at < len(want); {
			n := min(12345, len(want)-at)
			_, err := machine.WriteFull(f, want[at:at+n], int64(at))
			require.NoError(t, err)
			at += n
			if at%5 == 0 {
				require.NoError(t, f.Sync())
			}
		}
		require.True(t, bytes.Equal(want, []byte(content(t, f))))
	}),
	onDisk("offsets and sizes are not negative", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "abc")
		_, err := f.Pread(make([]byte, 1), -1)
		require.Error(t, err)
		require.NotEqual(t, io.EOF, err)
		_, err = f.Pwrite([]byte("x"), -1)
		require.Error(t, err)
		require.Error(t, f.Truncate(-1))
		require.Equal(t, "abc", content(t, f))
	}),
	onDisk("a closed file is closed", func(t *T, d machine.Disk) {
		f := create(t, d, "f", "abc")
		require.NoError(t, f.Close())
		_, err := f.Pread(make([]byte, 1), 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.Pwrite([]byte("x"), 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.Size()
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, f.Truncate(0), fs.ErrClosed)
		require.ErrorIs(t, f.Sync(), fs.ErrClosed)
		require.ErrorIs(t, f.Close(), fs.ErrClosed)
	}),
	{name: "many tasks read and write one file", body: func(t *T, m, _ machine.Machine) {
		const block = 10_000
		d := m.Disk()
		f := create(t, d, "f", "")
		c := newCrew(m)
		for i := range 8 {
			c.Go("writer", func() {
				g := f
				if i%2 == 1 {
					var err error
					if g, err = d.Open("f", 0); err != nil {
						t.Error(err)
						return
					}
				}
				mine := bytes.Repeat([]byte{byte('a' + i)}, block)
				for range 5 {
					if _, err := machine.WriteFull(g, mine, int64(i)*block); err != nil {
						t.Error(err)
					}
					if err := g.Sync(); err != nil {
						t.Error(err)
					}
					got := make([]byte, block)
					if _, err := machine.ReadFull(g, got, int64(i)*block); err != nil {
						t.Error(err)
					}
					if !bytes.Equal(mine, got) {
						t.Errorf("writer %d reads what it did not write", i)
					}
				}
			})
		}
		c.Wait()
		require.Len(t, content(t, f), 8*block)
	}},
}
