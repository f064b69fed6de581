//go:build linux && !haul_portable

package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A copy by the kernel in many turns does not allocate in each turn.
func TestCopyAllocations(t *testing.T) {
	for _, what := range []string{"TCP", "ours"} {
		t.Run(what, func(t *testing.T) {
			ours, theirs := pair(t, Options{})
			var src io.Reader
			var w net.Conn
			if what == "TCP" {
				src, w = netPair(t, "tcp", "127.0.0.1:0")
			} else {
				src, w = pair(t, Options{})
			}
			copied := begin(func() error { _, err := io.Copy(ours, src); return err })
			b := []byte("x")
			turn := func() {
				_, _ = w.Write(b)
				_, _ = io.ReadFull(theirs, b)
			}
			turn() // from now on the poller knows both
			if n := testing.AllocsPerRun(300, turn); n >= 1 {
				t.Errorf("a turn allocates %v times", n)
			}
			_ = w.Close()
			if err := endOf(t, "Copy", copied); err != nil {
				t.Error(err)
			}
		})
	}
}

// The poller cannot wait for a blocking pipe: it is read and written directly.
func TestCopyOfBlockingPipes(t *testing.T) {
	var in, out [2]int
	if err := errors.Join(syscall.Pipe(in[:]), syscall.Pipe(out[:])); err != nil {
		t.Fatal(err)
	}
	files := make([]*os.File, 4)
	for i, fd := range []int{in[0], in[1], out[0], out[1]} {
		files[i] = os.NewFile(uintptr(fd), "pipe")
		defer files[i].Close()
	}
	ours, theirs := pair(t, Options{})
	copied := begin(func() error { _, err := io.Copy(ours, files[0]); return err })
	for _, s := range []string{"a", "b"} {
		_, _ = io.WriteString(files[1], s)
		wantRead(t, theirs, s)
	}
	_ = files[1].Close()
	if err := endOf(t, "Copy from a pipe", copied); err != nil {
		t.Error(err)
	}
	const size = 1 << 20 // more than a pipe holds
	go func() { _, _ = theirs.Write(make([]byte, size)); _ = theirs.CloseWrite() }()
	copied = begin(func() error {
		_, err := io.Copy(files[3], ours)
		return errors.Join(err, files[3].Close())
	})
	if n, err := io.Copy(io.Discard, files[2]); n != size || err != nil {
		t.Errorf("%d bytes came through a pipe, %v", n, err)
	}
	if err := endOf(t, "Copy to a pipe", copied); err != nil {
		t.Error(err)
	}
}

// An empty message is not the end of a datagram socket.
func TestCopyOfMessages(t *testing.T) {
	at := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(t.TempDir(), "socket")}
	src, err := net.ListenUnixgram("unixgram", at)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	w, err := net.DialUnix("unixgram", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ours, theirs := pair(t, Options{})
	copied := begin(func() error { _, err := io.CopyN(ours, src, 2); return err })
	for _, s := range []string{"a", "", "b"} {
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	wantRead(t, theirs, "ab")
	if err := endOf(t, "Copy", copied); err != nil {
		t.Error(err)
	}
}
