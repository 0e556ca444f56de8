package machine

import (
	"errors"
	"io"
	"time"
)

// Disk is a file system. Paths are slash-separated and relative to its root; "" is the root.
//
// Errors are those of io/fs (fs.ErrNotExist, fs.ErrExist, ...), ErrIO or ErrNoSpace, wrapped with the operation and path.
// What survives a power loss: the bytes of a file up to its last Sync that returned nil, under the names whose
// directories were synced (SyncDir) since they were made. Everything else may survive or not, in part or whole.
type Disk interface {
	// Open opens an existing file for reading and writing, or makes one as mode says.
	Open(name string, mode Mode) (File, error)
	// Mkdir makes a directory and its missing parents. One that exists is no error.
	Mkdir(name string) error
	// Remove deletes a file or an empty directory. Open files stay readable.
	Remove(name string) error
	// Rename moves a file or directory; a file already at the new name is replaced at one stroke.
	Rename(from, to string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]Info, error)
	// Stat describes a file or directory.
	Stat(name string) (Info, error)
	// SyncDir makes a directory's entries (made, renamed, removed) durable.
	SyncDir(name string) error
}

// Mode says what Open may do to the file system. Zero opens an existing file.
type Mode uint8

const (
	Create    Mode = 1 << iota // make the file when it does not exist
	Exclusive                  // with Create: fail when it exists
	Truncate                   // cut an existing file to length 0
)

// File is an open file. Pread and Pwrite are the system calls: they may move fewer bytes than asked, without an
// error. Use ReadFull and WriteFull unless a short count is welcome.
type File interface {
	// Name is the path that it was opened by.
	Name() string
	// Pread reads into p at the offset. At or past the end of the file it returns 0, io.EOF.
	Pread(p []byte, offset int64) (int, error)
	// Pwrite writes p at the offset; past the end, the gap reads as zeros.
	Pwrite(p []byte, offset int64) (int, error)
	// Truncate cuts or extends the file to size bytes.
	Truncate(size int64) error
	// Sync makes the file's bytes and length durable. After an error nothing is known of the unsynced bytes: they may be
	// gone, and a later Sync that succeeds says nothing about them.
	Sync() error
	// Size is the file's length in bytes.
	Size() (int64, error)
	Close() error
}

// Info describes a file or directory.
type Info struct {
	Name    string // base name
	Size    int64
	ModTime time.Time // by the machine's wall clock
	IsDir   bool
}

// Errors that callers must tell apart. Wrapped; use errors.Is.
var (
	ErrIO           = errors.New("input/output error")
	ErrNoSpace      = errors.New("no space left on device")
	ErrConnRefused  = errors.New("connection refused")
	ErrTimeout      = errors.New("timed out")
	ErrNoHost       = errors.New("no such host")
	ErrAddressInUse = errors.New("address already in use")
	ErrConnReset    = errors.New("connection reset by peer")
)

// ReadFull reads exactly len(p) bytes at the offset. It returns io.ErrUnexpectedEOF when the file ends inside p, io.EOF when it ends before.
func ReadFull(f File, p []byte, offset int64) (int, error) {
	n := 0
	for n < len(p) {
		k, err := f.Pread(p[n:], offset+int64(n))
		n += k
		if err == io.EOF && n > 0 {
			return n, io.ErrUnexpectedEOF
		}
		if err != nil {
			return n, err
		}
		if k == 0 {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

// WriteFull writes all of p at the offset.
func WriteFull(f File, p []byte, offset int64) (int, error) {
	n := 0
	for n < len(p) {
		k, err := f.Pwrite(p[n:], offset+int64(n))
		n += k
		if err != nil {
			return n, err
		}
		if k == 0 {
			return n, io.ErrShortWrite
		}
	}
	return n, nil
}
