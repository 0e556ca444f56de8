//go:build !linux

package host

import (
	"io"
	"net"
	"os"
)

// sendFile copies: only Linux has a zero-copy call that takes the offset and leaves the file's own alone.
func sendFile(dst *net.TCPConn, src *os.File, offset, n int64) (int64, error) {
	sent, err := io.Copy(dst, struct{ io.Reader }{io.NewSectionReader(src, offset, n)})
	if err == nil && sent < n {
		err = io.ErrUnexpectedEOF
	}
	return sent, err
}
