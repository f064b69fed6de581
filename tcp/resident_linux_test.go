//go:build linux && !haul_portable

package tcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInMemory asks about a file of which one part is written and another was never
// there: a hole is read from nowhere, and so is in no memory either.
func TestInMemory(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var at unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &at); err != nil {
		t.Fatal(err)
	}
	const part = 2 << 20
	if _, err := f.Write(make([]byte, part)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(2 * part); err != nil {
		t.Fatal(err)
	}
	all := at.Type == unix.TMPFS_MAGIC
	known := all || cachestat(t, f)
	for _, c := range []struct {
		name     string
		from, to int64
		want     bool
	}{
		{"what is written", 0, part, known},
		{"some of a page", 5, 6, known},
		{"with one page of a hole", part - 4096, part + 1, all},
		{"a hole", part, 2 * part, all},
		{"behind the end", 2 * part, 3 * part, all},
	} {
		if got := inMemory(int(f.Fd()), c.from, c.to); got != c.want {
			t.Errorf("%s: it says %v, want %v", c.name, got, c.want)
		}
	}
}

// cachestat reports whether the kernel tells what of a file of ours is in memory.
func cachestat(t *testing.T, f *os.File) bool {
	t.Helper()
	var s unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: 1}, &s, 0)
	if err != nil && err != unix.ENOSYS && err != unix.EPERM {
		t.Fatal("cachestat:", err)
	}
	return err == nil
}

// TestSendFileInTurns sends a file of which some is in memory and some is not, from
// the middle on, and to its end: what is looked at is always what is sent next.
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
		_, err := io.Copy(c, f) // as much as there is: the last look is beyond the end
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
