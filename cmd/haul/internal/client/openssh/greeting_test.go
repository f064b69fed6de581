package openssh

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A peer that begins with anything but text is not an SSH server, and we do not wait for it. Lines of
// text before the greeting are allowed (RFC 4253 §4.2).
func TestNoGreeting(t *testing.T) {
	for _, says := range []string{"\xff\xff\xff\xff", "\x15\x03\x01\x00\x02\x02\x16", "\x00", "220 h\x00", "\xc0"} {
		s := startServer(t, openServer())
		dest := s.dest(t)
		dest.Port, dest.ConnectTimeout = greeter(t, s, says), time.Hour
		dest.HostKeyAlias = "any"
		_, err := (&Dialer{}).Dial(withTimeout(t), dest)
		if err == nil || !strings.Contains(err.Error(), "no SSH server: it begins with ") {
			t.Errorf("%q: %v", says, err)
		}
	}
	s := startServer(t, openServer())
	dest := s.dest(t)
	dest.Policy, dest.Port = Accept, greeter(t, s, "grüezi\tmitenand\r\nand hello\r\n")
	dialOK(t, &Dialer{}, dest)
}

// greeter returns the port of a proxy that sends a text before it forwards to a server.
func greeter(t *testing.T, s *server, says string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			return
		}
		defer out.Close()
		_, _ = io.WriteString(in, says)
		passed := make(chan struct{})
		go func() {
			defer close(passed)
			if strings.HasSuffix(says, "\n") {
				_, _ = io.Copy(in, out)
			}
		}()
		_, _ = io.Copy(out, in)
		_ = out.Close()
		<-passed
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().(*net.TCPAddr).Port
}
