package tcp

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// pairs is like pair for several connections of one server.
func pairs(t *testing.T) (next func() (*Conn, *net.TCPConn)) {
	t.Helper()
	so := listenSocket(t, Options{Sockets: 1})
	l, err := new(Server).Listener(so)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return func() (*Conn, *net.TCPConn) {
		theirs := dial(t, l.Addr().String())
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.(*Conn), theirs
	}
}

// netPair returns both ends of a connection of package net.
func netPair(t *testing.T, network, addr string) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return a, b
}

// within returns the result of f, which must not take long.
func within(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	return endOf(t, what, done)
}

func endOf(t *testing.T, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal(what + " does not return")
		return nil
	}
}

func wantRead(t *testing.T, from io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(from, b); string(b) != want {
		t.Fatalf("%q came instead of %q, %v", b[:n], want, err)
	}
}

// An upper is a reader around a connection or a file that returns other bytes, like one that
// decrypts.
type (
	upperUnix struct{ *net.UnixConn } // has no WriteTo
	upperTCP  struct{ *net.TCPConn }
	upperConn struct {
		net.Conn
		rawer
	}
	upperFile struct {
		fs.File
		rawer
	}
	rawer = syscall.Conn
)

func (u upperUnix) Read(b []byte) (int, error) { return readUpper(u.UnixConn, b) }
func (u upperTCP) Read(b []byte) (int, error)  { return readUpper(u.TCPConn, b) }
func (u upperConn) Read(b []byte) (int, error) { return readUpper(u.Conn, b) }
func (u upperFile) Read(b []byte) (int, error) { return readUpper(u.File, b) }

func readUpper(r io.Reader, b []byte) (int, error) {
	n, err := r.Read(b)
	copy(b, bytes.ToUpper(b[:n]))
	return n, err
}

// A copy reads from a wrapper around a connection or a file, and does not bypass it.
func TestCopyReadsWrappers(t *testing.T) {
	sent := func(network, addr string) net.Conn {
		a, b := netPair(t, network, addr)
		_, _ = io.WriteString(a, "shout")
		_ = a.Close()
		return b
	}
	socket := filepath.Join(t.TempDir(), "socket")
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("shout"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	both := sent("tcp", "127.0.0.1:0")
	for what, r := range map[string]io.Reader{
		"unix": upperUnix{sent("unix", socket).(*net.UnixConn)},
		"TCP":  upperTCP{sent("tcp", "127.0.0.1:0").(*net.TCPConn)},
		"conn": upperConn{both, both.(syscall.Conn)},
		"file": upperFile{f, f},
	} {
		ours, theirs := pair(t, Options{})
		read := r
		if what == "TCP" { // has a WriteTo that io.Copy would call
			read = onlyReader{r}
			if _, err := ours.ReadFrom(io.LimitReader(r, 2)); err != nil {
				t.Error(what, err)
			}
		}
		if _, err := io.Copy(ours, read); err != nil {
			t.Error(what, err)
		}
		_ = ours.Close()
		if b, err := io.ReadAll(theirs); string(b) != "SHOUT" || err != nil {
			t.Errorf("%s: %q, %v", what, b, err)
		}
	}
}

// While the source of a copy has no data, other goroutines can write, Close closes at once, and
// later data of the source is not sent to a client accepted meanwhile.
func TestCopyWhileSourceWaits(t *testing.T) {
	type source struct {
		r io.Reader
		w io.Writer
	}
	for what, make := range map[string]func(t *testing.T) source{
		"TCP": func(t *testing.T) source {
			a, b := netPair(t, "tcp", "127.0.0.1:0")
			return source{a, b}
		},
		"unix": func(t *testing.T) source {
			a, b := netPair(t, "unix", filepath.Join(t.TempDir(), "socket"))
			return source{a, b}
		},
		"ours": func(t *testing.T) source {
			a, b := pair(t, Options{})
			return source{a, b}
		},
		"limited": func(t *testing.T) source {
			a, b := netPair(t, "tcp", "127.0.0.1:0")
			return source{io.LimitReader(a, 100), b}
		},
		"pipe": func(t *testing.T) source {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = r.Close(), w.Close() })
			return source{r, w}
		},
		"reader": func(*testing.T) source {
			r, w := io.Pipe()
			return source{r, w}
		},
	} {
		t.Run(what, func(t *testing.T) {
			src, next := make(t), pairs(t)
			ours, theirs := next()
			ours.c.MovedAt().Store(0)
			copied := begin(func() error { _, err := io.Copy(ours, src.r); return err })
			_, _ = io.WriteString(src.w, "a")
			wantRead(t, theirs, "a")
			eventually(t, "that it has moved is noted", func() bool { return ours.c.MovedAt().Load() != 0 })
			eventually(t, "the client is not waited for", func() bool { return !ours.c.WaitsToWrite() })
			if err := within(t, "Write", func() error { _, err := ours.Write([]byte("b")); return err }); err != nil {
				t.Error(err)
			}
			wantRead(t, theirs, "b")
			if err := within(t, "Close", ours.Close); err != nil {
				t.Error(err)
			}
			if b, err := io.ReadAll(theirs); len(b) > 0 || err != nil {
				t.Errorf("behind Close: %q, %v", b, err)
			}
			var fresh *Conn
			var client *net.TCPConn
			eventually(t, "what is pooled is used again", func() bool {
				fresh, client = next()
				return fresh.c == ours.c
			})
			_, _ = io.WriteString(src.w, "c")
			if err := endOf(t, "Copy", copied); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Copy: %v", err)
			}
			_, _ = fresh.Write([]byte("d"))
			_ = fresh.Close()
			if b, err := io.ReadAll(client); string(b) != "d" || err != nil {
				t.Errorf("another's client got %q, %v", b, err)
			}
		})
	}
}

func begin(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// A stuck is a writer that reports calls, and blocks in them.
type stuck struct{ entered, leave chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	s.entered <- struct{}{}
	<-s.leave
	return len(b), nil
}

// While the destination of a copy is full, deadlines apply to readers, and Close closes at once.
func TestCopyWhileDestinationWaits(t *testing.T) {
	check := func(t *testing.T, ours *Conn, theirs *net.TCPConn, copied <-chan error, leave func()) {
		_ = ours.SetReadDeadline(time.Unix(1, 0))
		if err := within(t, "Read", func() error { _, err := ours.Read(make([]byte, 1)); return err }); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		_ = ours.SetReadDeadline(time.Time{})
		if err := within(t, "Close", ours.Close); err != nil {
			t.Error(err)
		}
		if _, err := theirs.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the client does not see the end: %v", err)
		}
		leave()
		if err := endOf(t, "Copy", copied); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Copy: %v", err)
		}
	}
	for what, prefix := range map[string]string{"writer": "", "writer of what was read ahead": "head"} {
		t.Run(what, func(t *testing.T) {
			ours, theirs := pair(t, Options{})
			ours.c.Prepend([]byte(prefix))
			if prefix == "" {
				_, _ = io.WriteString(theirs, "x")
			}
			w := stuck{make(chan struct{}, 1), make(chan struct{})}
			copied := begin(func() error { _, err := io.Copy(w, ours); return err })
			<-w.entered
			check(t, ours, theirs, copied, func() { close(w.leave) })
		})
	}
	t.Run("ours", func(t *testing.T) {
		ours, theirs := pair(t, Options{})
		to, reader := pair(t, Options{SendBuffer: 1 << 12})
		for n := 1; n > 0; { // until it is full
			_ = to.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			n, _ = to.Write(make([]byte, 1<<20))
		}
		_ = to.SetWriteDeadline(time.Time{})
		_, _ = theirs.Write(make([]byte, 64<<10)) // more than may gradually be accepted
		copied := begin(func() error { _, err := io.Copy(to, ours); return err })
		eventually(t, "the destination waits", func() bool { return to.c.WaitsToWrite() })
		check(t, ours, theirs, copied, func() { go func() { _, _ = io.Copy(io.Discard, reader) }() })
	})
}

// If the server ends a connection, a copy from it fails: that does not count as the end of the
// client's data.
func TestCopyOfCut(t *testing.T) {
	for what, to := range map[string]func(t *testing.T) io.Writer{
		"TCP":    func(t *testing.T) io.Writer { a, _ := netPair(t, "tcp", "127.0.0.1:0"); return a },
		"ours":   func(t *testing.T) io.Writer { a, _ := pair(t, Options{}); return a },
		"writer": func(*testing.T) io.Writer { return onlyWriter{io.Discard} },
	} {
		s := &Server{}
		ours, _ := pairOf(t, s, Options{})
		w := to(t)
		copied := begin(func() error { _, err := io.Copy(w, ours); return err })
		eventually(t, "the copy waits", func() bool { return ours.c.WaitsToRead() })
		s.Halt()
		if err := endOf(t, "Copy", copied); !errors.Is(err, ErrCut) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
