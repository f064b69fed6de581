//go:build linux && !haul_portable

package tcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// zeroCopies lists the ways in which bytes bypass this process, each with the system calls that
// must move them and one that must not.
var zeroCopies = []struct {
	name       string
	by, not    string
	handle     func(dir string) func(context.Context, net.Conn)
	sends      bool // the client sends the data
	intoFile   bool // into a file
	limitBytes int64
}{
	{name: "file", by: "sendfile", not: "sendto", handle: func(dir string) func(context.Context, net.Conn) {
		return func(_ context.Context, c net.Conn) {
			f, err := os.Open(filepath.Join(dir, "data"))
			if err != nil {
				panic(err)
			}
			defer f.Close()
			mustCopy(io.Copy(c, f))
		}
	}},
	{name: "part of a file", by: "sendfile", not: "sendto", limitBytes: 1 << 20, handle: func(dir string) func(context.Context, net.Conn) {
		return func(_ context.Context, c net.Conn) {
			f, err := os.Open(filepath.Join(dir, "data"))
			if err != nil {
				panic(err)
			}
			defer f.Close()
			mustCopy(io.CopyN(c, f, 1<<20))
		}
	}},
	{name: "back", by: "splice", not: "sendto", sends: true, handle: func(string) func(context.Context, net.Conn) {
		return func(_ context.Context, c net.Conn) { mustCopy(io.Copy(c, c)) }
	}},
	{name: "to a file", by: "splice", not: "recvfrom", sends: true, intoFile: true, handle: func(dir string) func(context.Context, net.Conn) {
		return func(_ context.Context, c net.Conn) {
			f, err := os.Create(filepath.Join(dir, "got"))
			if err != nil {
				panic(err)
			}
			mustCopy(io.Copy(f, c))
			if err := f.Close(); err != nil {
				panic(err)
			}
		}
	}},
	{name: "to another server", by: "splice", not: "sendto", sends: true, handle: func(dir string) func(context.Context, net.Conn) {
		return func(_ context.Context, c net.Conn) {
			addr, err := os.ReadFile(filepath.Join(dir, "other"))
			if err != nil {
				panic(err)
			}
			other, err := net.Dial("tcp", string(addr))
			if err != nil {
				panic(err)
			}
			defer other.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				mustCopy(io.Copy(c, other))
			}()
			mustCopy(io.Copy(other, c))
			_ = other.(*net.TCPConn).CloseWrite()
			<-done
		}
	}},
}

func mustCopy(n int64, err error) {
	if err != nil {
		panic(err)
	}
}

// zeroCopyChild makes a process of the test binary serve one of zeroCopies. Its value is the
// directory and the name.
const zeroCopyChild = "HAUL_TEST_ZEROCOPY"

// TestZeroCopyChild is not a test: it is the traced process.
func TestZeroCopyChild(t *testing.T) {
	dir, name, ok := strings.Cut(os.Getenv(zeroCopyChild), ":")
	if !ok {
		t.Skip("only for TestZeroCopy")
	}
	for _, z := range zeroCopies {
		if z.name != name {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		handle := z.handle(dir)
		s := &Server{Handle: func(ctx context.Context, c net.Conn) {
			defer cancel()
			handle(ctx, c)
		}}
		so, err := Listen(ctx, "127.0.0.1:0", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "addr.new"), []byte(so.Addr().String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "addr.new"), filepath.Join(dir, "addr")); err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(ctx, so); err != nil {
			t.Fatal(err)
		}
		if n := s.Counters().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
	}
}

// needStrace returns the path of strace.
func needStrace(t *testing.T) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("strace is not installed")
		}
		t.Skip("strace is not installed")
	}
	return strace
}

func TestZeroCopy(t *testing.T) {
	strace := needStrace(t)
	data := make([]byte, 3<<20+777)
	_, _ = rand.Read(data)
	for _, z := range zeroCopies {
		t.Run(z.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "data"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			other, _ := serve(t, &Server{Handle: func(_ context.Context, c net.Conn) { _, _ = io.Copy(onlyWriter{c}, onlyReader{c}) }})
			if err := os.WriteFile(filepath.Join(dir, "other"), []byte(other), 0o600); err != nil {
				t.Fatal(err)
			}
			trace := filepath.Join(dir, "trace")
			cmd := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-e", "trace=sendfile,?sendfile64,splice,sendto,recvfrom,read,write", "-e", "signal=none", "-o", trace,
				os.Args[0], "-test.run=^TestZeroCopyChild$")
			cmd.Env = append(os.Environ(), zeroCopyChild+"="+dir+":"+z.name)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var addr []byte
			var err error
			eventually(t, "the child serves", func() bool {
				addr, err = os.ReadFile(filepath.Join(dir, "addr"))
				return err == nil || isDone(ended)
			})
			want := data
			if z.limitBytes > 0 {
				want = data[:z.limitBytes]
			}
			c := dial(t, string(addr))
			if z.sends {
				go func() {
					_, _ = c.Write(data)
					_ = c.CloseWrite()
				}()
			}
			got, err := io.ReadAll(c)
			if z.intoFile && err == nil {
				got, err = os.ReadFile(filepath.Join(dir, "got"))
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes came of %d, %v", len(got), len(want), err)
			}
			if err := <-ended; err != nil {
				t.Fatalf("%v\n%s", err, out.Bytes())
			}
			text, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			if !traced(z.by+"(64)?", `[1-9]`).Match(text) {
				t.Errorf("%s has moved nothing", z.by)
			}
			if line := traced(z.not, `[1-9]\d{3,}`).Find(text); line != nil {
				t.Errorf("bytes were copied: %.200s", line)
			}
		})
	}
}

// traced matches a system call with a return value, in one line of strace's output or in two,
// between which are the calls of another thread.
func traced(call, returned string) *regexp.Regexp {
	return regexp.MustCompile(`(` + call + `\(|<\.\.\. ` + call + ` resumed>).*\) += ` + returned)
}

func isDone(c chan error) bool { return len(c) > 0 }

// If the kernel cannot move bytes, they are copied, and none are lost between the two methods:
// for a file opened for appending, a pipe, and another kind of reader.
func TestCopiesOfOtherKinds(t *testing.T) {
	data := make([]byte, 1<<20+5)
	_, _ = rand.Read(data)
	ours, theirs := pair(t, Options{})
	name := filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = theirs.Write(data); _ = theirs.CloseWrite() }()
	if n, err := io.Copy(f, ours); n != int64(len(data)) || err != nil {
		t.Errorf("appended %d, %v", n, err)
	}
	_ = f.Close()
	if got, err := os.ReadFile(name); !bytes.Equal(got, data) {
		t.Errorf("the file has %d bytes of %d, %v", len(got), len(data), err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = w.Write(data); _ = w.Close() }()
	result := make(chan error, 1)
	go func() {
		n, err := io.Copy(ours, r)
		if n != int64(len(data)) {
			t.Errorf("%d of a pipe's %d bytes, %v", n, len(data), err)
		}
		n, err = io.Copy(ours, bytes.NewReader(data))
		if n != int64(len(data)) {
			t.Errorf("%d of %d bytes, %v", n, len(data), err)
		}
		_ = ours.CloseWrite()
		result <- err
	}()
	got, err := io.ReadAll(theirs)
	if !bytes.Equal(got, append(bytes.Clone(data), data...)) || err != nil {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	_ = r.Close()
}

// A failure in the middle is reported with the number of bytes sent.
func TestCopyErrors(t *testing.T) {
	ours, theirs := pair(t, Options{SendBuffer: 1 << 12})
	f, err := os.Open(os.Args[0]) // larger than any buffer
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	go func() { _, _ = io.ReadFull(theirs, make([]byte, 1000)); _ = theirs.SetLinger(0); _ = theirs.Close() }()
	n, err := io.Copy(ours, f)
	if opErr, ok := errors.AsType[*net.OpError](err); !ok || opErr.Op != "write" || n == 0 {
		t.Errorf("%d, %v", n, err)
	}
}

// TestSendFileInTurns sends a file that is partly in memory, from the middle to its end: the part
// that is checked is always the one that is sent next.
func TestSendFileInTurns(t *testing.T) {
	const hole, from = 3 << 20, 777
	data := make([]byte, 3*hole)
	_, _ = rand.Read(data)
	clear(data[hole : 2*hole])
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{0, 2 * hole} {
		if _, err := f.WriteAt(data[at:at+hole], at); err != nil {
			t.Fatal(err)
		}
	}
	sent := make(chan error, 1)
	addr, _ := serve(t, &Server{Handle: func(_ context.Context, c net.Conn) {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			sent <- err
			return
		}
		_, err := io.Copy(c, f) // as much as there is: the last check is beyond the end
		sent <- err
	}})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data[from:]) {
		t.Fatalf("%d bytes have come, which are not the %d of the file", len(got), len(data)-from)
	}
}
