package host

import (
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendFile moves bytes from the page cache to the socket. It names the offset in each call and leaves the file's own alone, so
// that many connections can be served from one open file.
func sendFile(dst *net.TCPConn, src *os.File, offset, n int64) (int64, error) {
	to, err := dst.SyscallConn()
	if err != nil {
		return 0, err
	}
	from, err := src.SyscallConn()
	if err != nil {
		return 0, err
	}
	sent := int64(0)
	var failed, waited error
	err = from.Control(func(in uintptr) {
		waited = to.Write(func(out uintptr) bool {
			for sent < n {
				at := offset + sent
				k, err := unix.Sendfile(int(out), int(in), &at, int(min(n-sent, 1<<30)))
				if k > 0 {
					sent += int64(k)
				}
				switch {
				case err == unix.EINTR:
				case err == unix.EAGAIN:
					return false // wait until the socket takes more
				case err != nil:
					failed = os.NewSyscallError("sendfile", err)
					return true
				case k == 0:
					failed = io.ErrUnexpectedEOF // the file ends before
					return true
				}
			}
			return true
		})
	})
	switch {
	case failed != nil:
		return sent, failed
	case waited != nil:
		return sent, waited
	}
	return sent, err
}
