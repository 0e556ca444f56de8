package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Lines makes a message of each line of a file, byte for byte, without a key. A line ends before a line feed or at the end of the file;
// everything else belongs to it: carriage returns, NUL bytes, bytes that are no text. An empty line is a message without
// bytes. The file is streamed: memory depends on the longest line, not on the file.
type Lines struct {
	name   string
	r      *bufio.Reader
	closer io.Closer
	max    int
	n      int64
	buf    []byte // a line that does not fit the reader's buffer
	err    error
	ended  bool
}

// ErrLineTooLong says that a line is larger than the largest message. It is wrapped with file, line number and sizes.
var ErrLineTooLong = errors.New("line is too long")

// OpenLines opens a file. Lines of more than max bytes are an error. Errors are those of os.Open, or say that it is a directory.
func OpenLines(path string, max int) (*Lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; want a file with a message on each line", path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("input: %w", err)
	}
	l := NewLines(path, f, max)
	l.closer = f
	return l, nil
}

// NewLines reads lines from r; name stands for it in errors.
func NewLines(name string, r io.Reader, max int) *Lines {
	return &Lines{name: name, r: bufio.NewReaderSize(r, 256<<10), max: max}
}

// Next implements [Source].
func (l *Lines) Next() (key, value []byte, ok bool) {
	if l.ended {
		return nil, nil, false
	}
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = l.long(line)
	}
	switch {
	case err == io.EOF && len(line) == 0:
		return nil, nil, l.end(nil)
	case errors.Is(err, ErrLineTooLong):
		return nil, nil, l.end(err)
	case err != nil && err != io.EOF:
		return nil, nil, l.end(fmt.Errorf("input %s: after line %d: %w", l.name, l.n, err))
	}
	l.n++
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if len(line) > l.max {
		return nil, nil, l.end(l.tooLong(len(line), "has %d"))
	}
	return nil, line, true
}

// long collects a line that is larger than the reader's buffer, and stops soon after it is too long.
func (l *Lines) long(head []byte) ([]byte, error) {
	l.buf = append(l.buf[:0], head...)
	for {
		part, err := l.r.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		if err != bufio.ErrBufferFull {
			return l.buf, err
		}
		if len(l.buf) > l.max {
			l.n++
			return nil, l.tooLong(len(l.buf), "has more than %d")
		}
	}
}

func (l *Lines) tooLong(n int, has string) error {
	return fmt.Errorf("input %s line %d: %w: it "+has+" bytes, the largest message has %d; split the line or allow larger messages",
		l.name, l.n, ErrLineTooLong, n, l.max)
}

func (l *Lines) end(err error) bool {
	l.ended = true
	if l.err == nil {
		l.err = err
	}
	return false
}

// Err implements [Source].
func (l *Lines) Err() error { return l.err }

// Count is how many lines were read.
func (l *Lines) Count() int64 { return l.n }

// Close closes the file. Next returns nothing more.
func (l *Lines) Close() error {
	l.ended = true
	if l.closer == nil {
		return nil
	}
	return l.closer.Close()
}
