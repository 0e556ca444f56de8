package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"syscall"

	"faultline/sim/machine"
)

// disk is the directory tree below a root. It implements machine.Disk.
type disk struct {
	m    *Machine
	root string
}

// real is the computer's own path of a path of the machine. It never leaves the root.
func (d *disk) real(name string) string {
	return filepath.Join(d.root, filepath.FromSlash(path.Clean("/"+name)))
}

// diskError adds the seam's own errors to those of the operating system, and keeps the operation and path.
func diskError(err error) error {
	var is error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EIO):
		is = machine.ErrIO
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		is = machine.ErrNoSpace
	default:
		return err
	}
	return &seamError{err, is}
}

func (d *disk) Open(name string, mode machine.Mode) (machine.File, error) {
	d.m.alive()
	flags := os.O_RDWR
	if mode&machine.Create != 0 {
		flags |= os.O_CREATE
		if mode&machine.Exclusive != 0 {
			flags |= os.O_EXCL
		}
	}
	if mode&machine.Truncate != 0 {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(d.real(name), flags, 0o644)
	d.m.alive()
	if err != nil {
		return nil, diskError(err)
	}
	d.m.keep(f)
	return &file{m: d.m, f: f, name: path.Clean("/" + name)[1:]}, nil
}

func (d *disk) Mkdir(name string) error {
	d.m.alive()
	err := os.MkdirAll(d.real(name), 0o755)
	d.m.alive()
	return diskError(err)
}

// isRoot tells whether a path is the root, which can be neither removed nor renamed.
func isRoot(name string) bool { return path.Clean("/"+name) == "/" }

func (d *disk) Remove(name string) error {
	d.m.alive()
	if isRoot(name) {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrInvalid}
	}
	err := os.Remove(d.real(name))
	d.m.alive()
	return diskError(err)
}

func (d *disk) Rename(from, to string) error {
	d.m.alive()
	if isRoot(from) || isRoot(to) {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrInvalid}
	}
	err := os.Rename(d.real(from), d.real(to))
	d.m.alive()
	return diskError(err)
}

func (d *disk) ReadDir(name string) ([]machine.Info, error) {
	d.m.alive()
	entries, err := os.ReadDir(d.real(name)) // sorted
	d.m.alive()
	if err != nil {
		return nil, diskError(err)
	}
	list := make([]machine.Info, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, diskError(err)
		}
		list = append(list, toInfo(info))
	}
	return list, nil
}

func (d *disk) Stat(name string) (machine.Info, error) {
	d.m.alive()
	info, err := os.Stat(d.real(name))
	d.m.alive()
	if err != nil {
		return machine.Info{}, diskError(err)
	}
	i := toInfo(info)
	if isRoot(name) {
		i.Name = ""
	}
	return i, nil
}

func toInfo(info fs.FileInfo) machine.Info {
	i := machine.Info{Name: info.Name(), ModTime: info.ModTime(), IsDir: info.IsDir()}
	if !i.IsDir {
		i.Size = info.Size()
	}
	return i
}

func (d *disk) SyncDir(name string) error {
	d.m.alive()
	f, err := os.Open(d.real(name))
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "syncdir", Path: name, Err: syscall.ENOTDIR}
		}
		if err == nil && runtime.GOOS != "windows" { // which has no such call and needs none
			err = f.Sync()
		}
		f.Close()
	}
	d.m.alive()
	return diskError(err)
}

// file implements machine.File.
type file struct {
	m    *Machine
	f    *os.File
	name string
}

func (f *file) Name() string { return f.name }

func (f *file) Pread(p []byte, offset int64) (int, error) {
	f.m.alive()
	n, err := f.f.ReadAt(p, offset)
	f.m.alive()
	if n > 0 {
		return n, nil // the next call meets the error again
	}
	if err == io.EOF {
		return 0, io.EOF
	}
	return 0, diskError(err)
}

func (f *file) Pwrite(p []byte, offset int64) (int, error) {
	f.m.alive()
	n, err := f.f.WriteAt(p, offset)
	f.m.alive()
	if n > 0 {
		return n, nil
	}
	return 0, diskError(err)
}

func (f *file) Truncate(size int64) error {
	f.m.alive()
	err := f.f.Truncate(size)
	f.m.alive()
	return diskError(err)
}

func (f *file) Sync() error {
	f.m.alive()
	err := f.f.Sync()
	f.m.alive()
	return diskError(err)
}

func (f *file) Size() (int64, error) {
	f.m.alive()
	info, err := f.f.Stat()
	f.m.alive()
	if err != nil {
		return 0, diskError(err)
	}
	return info.Size(), nil
}

func (f *file) Close() error {
	f.m.alive()
	f.m.drop(f.f)
	return diskError(f.f.Close())
}
