package peers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// stomp is a connection that speaks STOMP 1.2 (stomp.github.io/stomp-specification-1.2.html): as much of it as a bench needs.
type stomp struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
}

// frame is what came. The body is good until the next one.
type frame struct {
	command string
	headers map[string]string
	body    []byte
}

const (
	stompDial    = 5 * time.Second
	stompLongest = 64 << 20 // of a body
)

// stompDialed connects and says who we are.
func stompDialed(address *url.URL) (*stomp, error) {
	conn, err := net.DialTimeout("tcp", address.Host, stompDial)
	if err != nil {
		return nil, err
	}
	s := &stomp{conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}
	headers := []string{"accept-version", "1.2", "host", address.Hostname(), "heart-beat", "0,0"}
	if u := address.User; u != nil {
		password, _ := u.Password()
		headers = append(headers, "login", u.Username(), "passcode", password)
	}
	s.add("CONNECT", nil, headers...)
	conn.SetDeadline(time.Now().Add(stompDial))
	var f frame
	if err = s.flush(); err == nil {
		f, err = s.next()
	}
	if err == nil && f.command != "CONNECTED" {
		err = fmt.Errorf("found %s, want CONNECTED", f.command)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return s, nil
}

var stompEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, ":", `\c`)

// add puts a frame in the buffer that flush sends. Headers are keys, each with its value behind it.
func (s *stomp) add(command string, body []byte, headers ...string) {
	s.out = append(append(s.out, command...), '\n')
	for i := 0; i < len(headers); i += 2 {
		key, value := headers[i], headers[i+1]
		if command != "CONNECT" { // whose headers are not escaped
			value = stompEscapes.Replace(value)
		}
		s.out = append(append(append(append(s.out, key...), ':'), value...), '\n')
	}
	if body != nil {
		s.out = append(strconv.AppendInt(append(s.out, "content-length:"...), int64(len(body)), 10), '\n')
	}
	s.out = append(append(append(s.out, '\n'), body...), 0)
}

func (s *stomp) flush() error {
	_, err := s.conn.Write(s.out)
	s.out = s.out[:0]
	return err
}

var stompUnescapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\c`, ":", `\\`, `\`)

// next is the next frame. An ERROR frame is an error.
func (s *stomp) next() (frame, error) {
	f := frame{headers: map[string]string{}}
	for f.command == "" { // line ends between frames keep a connection alive
		line, err := s.line()
		if err != nil {
			return f, err
		}
		f.command = line
	}
	for {
		line, err := s.line()
		if err != nil {
			return f, err
		}
		if line == "" {
			break
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return f, fmt.Errorf("%s has the header %q, want key:value", f.command, line)
		}
		if f.command != "CONNECTED" {
			key, value = stompUnescapes.Replace(key), stompUnescapes.Replace(value)
		}
		if _, again := f.headers[key]; !again { // the first counts
			f.headers[key] = value
		}
	}
	err := s.body(&f)
	if err == nil && f.command == "ERROR" {
		err = fmt.Errorf("the server says: %s %s", f.headers["message"], bytes.TrimSpace(f.body))
	}
	return f, err
}

// body reads what follows the headers.
func (s *stomp) body(f *frame) error {
	length, ok := f.headers["content-length"]
	if !ok {
		body, err := s.r.ReadBytes(0)
		f.body = bytes.TrimSuffix(body, []byte{0})
		return err
	}
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > stompLongest {
		return fmt.Errorf("%s has the content-length %q, want 0 to %d", f.command, length, stompLongest)
	}
	f.body = make([]byte, n+1)
	if _, err := io.ReadFull(s.r, f.body); err != nil {
		return err
	}
	if f.body[n] != 0 {
		return fmt.Errorf("%s does not end where its content-length says", f.command)
	}
	f.body = f.body[:n]
	return nil
}

func (s *stomp) line() (string, error) {
	line, err := s.r.ReadString('\n')
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), err
}
