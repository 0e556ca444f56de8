package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"faultline/sim/machine"
)

// Close flushes, writes the indexes and the recovery point, ends the log's task and closes its files. Only after nil may the broker write its clean-shutdown marker. An error
// (ErrFenced, machine.ErrIO, ...) leaves the log closed but not clean. Another Close returns ErrClosed.
func (l *Log) Close() error {
	return l.shut(func() error {
		if err := l.flush(); err != nil {
			return err
		}
		l.mu.Lock()
		s := l.active()
		s.seal()
		base, x, end := s.base, s.index, l.end
		l.mu.Unlock()
		if err := l.storeIndex(base, &x); err != nil {
			return l.wrap("close: write the index", err)
		}
		if err := l.syncDir(); err != nil {
			return err
		}
		return l.advance(end)
	})
}

// shut runs last while no append or flush is under way, then ends everything and closes the files.
func (l *Log) shut(last func() error) error {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	l.flushing.Lock()
	l.appending.Lock()
	l.mu.Lock()
	if l.closed {
		err := l.usable()
		l.mu.Unlock()
		l.appending.Unlock()
		l.flushing.Unlock()
		return err
	}
	l.mu.Unlock()
	l.m.Failpoint("fault/log/close-slow")
	err := last()
	l.mu.Lock()
	l.closed = true
	l.show()
	l.moved.Broadcast()
	l.wake()
	files, fn := l.segments, l.onVisible
	l.mu.Unlock()
	for _, s := range files {
		l.drop(s)
	}
	l.appending.Unlock()
	l.flushing.Unlock()

	l.mu.Lock()
	for l.running {
		l.moved.Wait()
	}
	l.mu.Unlock()
	if fn != nil {
		fn()
	}
	return err
}

// Delete closes the log without a flush and removes it. Its directory gets another name first, durably, so that a crash leaves either the whole log or what RemoveDeleted
// sweeps up, never a log that lacks a part.
func (l *Log) Delete() error {
	return l.shut(func() error {
		gone := l.dir + DeletedSuffix
		there, err := present(l.disk, gone)
		if err == nil && there {
			err = removeAll(l.disk, gone) // of an earlier log of this name
		}
		if err == nil {
			err = l.disk.Rename(l.dir, gone)
		}
		if err == nil {
			err = l.disk.SyncDir(machine.Parent(l.dir))
		}
		if err == nil {
			err = removeAll(l.disk, gone)
		}
		if err == nil {
			err = l.disk.SyncDir(machine.Parent(l.dir))
		}
		return l.wrap("delete", err)
	})
}

// DeletedSuffix ends the name of a directory whose log was deleted but whose files are not yet all removed.
const DeletedSuffix = ".deleted"

// RemoveDeleted removes what a crash left of deleted logs in the directory that holds the logs. The broker calls it before it opens any.
func RemoveDeleted(d machine.Disk, parent string) error {
	list, err := d.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove deleted logs: %w", err)
	}
	settled := false
	for _, info := range list {
		if info.IsDir && strings.HasSuffix(info.Name, DeletedSuffix) {
			// The process that gave it this name may have crashed right then: a power loss must not bring back the old name with a part of the files.
			if !settled {
				if err := d.SyncDir(parent); err != nil {
					return fmt.Errorf("remove deleted log %s: %w", info.Name, err)
				}
				settled = true
			}
			if err := removeAll(d, path.Join(parent, info.Name)); err != nil {
				return fmt.Errorf("remove deleted log %s: %w", info.Name, err)
			}
		}
	}
	return nil
}

// removeAll removes a directory of files. Another task may be doing the same: what is gone is no error.
func removeAll(d machine.Disk, dir string) error {
	list, err := d.ReadDir(dir)
	for _, info := range list {
		if err := d.Remove(path.Join(dir, info.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err == nil {
		err = d.Remove(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
