package disk

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"faultline/sim/machine"
)

// view is the disk as one process incarnation sees it. It implements machine.Disk.
type view struct {
	m     *Model
	w     World
	clock func() time.Time
	epoch int
}

// begin asks the world first, so that a dead task unwinds before it touches anything.
func (v *view) begin() (time.Duration, error) {
	now := v.w.Now()
	if v.epoch != v.m.epoch {
		return now, fs.ErrClosed
	}
	return now, nil
}

// end records a finished operation and waits for its cost.
func (v *view) end(op, name string, a int64, err error, until time.Duration) {
	b := int64(0)
	if err != nil {
		b = errno(err)
	}
	v.w.Record(op, name, a, b)
	v.w.Wait(until)
}

// errno is the negative number by which an error is recorded.
func errno(err error) int64 {
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return -int64(no)
	case errors.Is(err, machine.ErrIO):
		return -int64(syscall.EIO)
	case errors.Is(err, machine.ErrNoSpace):
		return -int64(syscall.ENOSPC)
	case errors.Is(err, fs.ErrNotExist):
		return -int64(syscall.ENOENT)
	case errors.Is(err, fs.ErrExist):
		return -int64(syscall.EEXIST)
	case errors.Is(err, fs.ErrClosed):
		return -int64(syscall.EBADF)
	}
	return -int64(syscall.EINVAL)
}

// change runs an operation on entries: faults first, then the effect, then the wait.
func (v *view) change(op Ops, verb, name string, effect func() error) error {
	if _, err := v.begin(); err != nil {
		return &fs.PathError{Op: verb, Path: name, Err: err}
	}
	f := v.consult(op, name, 0)
	err := f.err
	if err == nil {
		err = effect()
	}
	v.end(verb, name, 0, err, v.w.Now()+v.m.cfg.Call+f.delay)
	if err != nil {
		return &fs.PathError{Op: verb, Path: name, Err: err}
	}
	return nil
}

func (v *view) Open(name string, mode machine.Mode) (machine.File, error) {
	name = clean(name)
	op := OpOpen
	if mode&machine.Create != 0 {
		op |= OpCreate
	}
	var opened *file
	err := v.change(op, "open", name, func() error {
		n, err := v.m.lookup(name)
		switch {
		case err == nil && n.dir:
			return syscall.EISDIR
		case err == nil && mode&machine.Create != 0 && mode&machine.Exclusive != 0:
			return fs.ErrExist
		case errors.Is(err, fs.ErrNotExist) && mode&machine.Create != 0:
			d, base, err := v.m.locate(name)
			if err != nil {
				return err
			}
			n = v.m.make(d, base, false)
			n.mtime = v.clock()
			v.m.notifyFile(Created, n, "", 0)
		case err != nil:
			return err
		case mode&machine.Truncate != 0 && n.size > 0:
			v.m.notifyFile(Truncated, n, "", 0)
			v.m.truncate(n, 0)
			n.mtime = v.clock()
		}
		n.refs++
		n.opens++
		opened = &file{v: v, n: n, name: name, open: true, slot: len(v.m.handles)}
		v.m.handles = append(v.m.handles, opened)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (v *view) Mkdir(name string) error {
	name = clean(name)
	return v.change(OpMkdir, "mkdir", name, func() error {
		for i := 1; i <= len(name); i++ {
			if i < len(name) && name[i] != '/' {
				continue
			}
			n, err := v.m.lookup(name[:i])
			switch {
			case err == nil && !n.dir:
				return syscall.ENOTDIR
			case errors.Is(err, fs.ErrNotExist):
				d, base, err := v.m.locate(name[:i])
				if err != nil {
					return err
				}
				v.m.make(d, base, true).mtime = v.clock()
			case err != nil:
				return err
			}
		}
		return nil
	})
}

func (v *view) Remove(name string) error {
	name = clean(name)
	return v.change(OpRemove, "remove", name, func() error {
		n, err := v.m.lookup(name)
		switch {
		case err != nil:
			return err
		case n == v.m.root:
			return fs.ErrInvalid
		case len(n.entries) > 0:
			return syscall.ENOTEMPTY
		}
		v.m.notifyFile(Removed, n, "", 0)
		v.m.remove(n)
		return nil
	})
}

func (v *view) Rename(from, to string) error {
	from, to = clean(from), clean(to)
	return v.change(OpRename, "rename", from, func() error {
		n, err := v.m.lookup(from)
		if err != nil {
			return err
		}
		d, base, err := v.m.locate(to)
		if err != nil {
			return err
		}
		for up := d; up != nil; up = up.parent {
			if up == n {
				return fs.ErrInvalid // into itself
			}
		}
		if target := d.entries[base]; target == n {
			return nil
		} else if target != nil {
			switch {
			case target.dir && !n.dir:
				return syscall.EISDIR
			case !target.dir && n.dir:
				return syscall.ENOTDIR
			case len(target.entries) > 0:
				return syscall.ENOTEMPTY
			}
			v.m.notifyFile(Removed, target, "", 0)
		}
		v.m.notifyFile(Renamed, n, to, 0)
		v.m.rename(n, d, base)
		return nil
	})
}

func (v *view) ReadDir(name string) ([]machine.Info, error) {
	name = clean(name)
	var list []machine.Info
	err := v.change(OpReadDir, "readdir", name, func() error {
		n, err := v.m.lookup(name)
		if err != nil {
			return err
		}
		if !n.dir {
			return syscall.ENOTDIR
		}
		list = make([]machine.Info, 0, len(n.names))
		for _, child := range n.names {
			list = append(list, n.entries[child].info())
		}
		return nil
	})
	return list, err
}

func (v *view) Stat(name string) (machine.Info, error) {
	name = clean(name)
	var info machine.Info
	err := v.change(OpStat, "stat", name, func() error {
		n, err := v.m.lookup(name)
		if err != nil {
			return err
		}
		info = n.info()
		return nil
	})
	return info, err
}

func (n *node) info() machine.Info {
	return machine.Info{Name: n.name, Size: n.size, ModTime: n.mtime, IsDir: n.dir}
}

func (v *view) SyncDir(name string) error {
	name = clean(name)
	now, err := v.begin()
	if err != nil {
		return &fs.PathError{Op: "syncdir", Path: name, Err: err}
	}
	m := v.m
	d, err := m.lookup(name)
	if err == nil && !d.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		v.end("syncdir", name, 0, err, now+m.cfg.Call)
		return &fs.PathError{Op: "syncdir", Path: name, Err: err}
	}
	upTo := m.pendingSeq
	f := v.consult(OpSyncDir, d.path, 0)
	m.dev.node = nil
	v.w.Wait(m.dev.occupy(v.w.Now(), m.cfg.Seek) + m.cfg.Flush + f.delay)
	if f.err == nil && !f.lie {
		m.syncDir(d, upTo)
		m.notifyFile(DirSynced, d, "", 0)
	}
	v.end("syncdir", name, 0, f.err, v.w.Now())
	if f.err != nil {
		return &fs.PathError{Op: "syncdir", Path: name, Err: f.err}
	}
	return nil
}
