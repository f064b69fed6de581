//go:build linux && !haul_portable

package sendfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInMemory queries a file of which one part is written and another was never written: a hole
// is not in memory either.
func TestInMemory(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const part = 2 << 20
	if _, err := f.Write(make([]byte, part)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(2 * part); err != nil {
		t.Fatal(err)
	}
	known := cachestat(t, f)
	for _, c := range []struct {
		name     string
		from, to int64
		want     bool
	}{
		{"what is written", 0, part, known},
		{"some of a page", 5, 6, known},
		{"with one page of a hole", part - 4096, part + 1, false},
		{"a hole", part, 2 * part, false},
		{"behind the end", 2 * part, 3 * part, false},
	} {
		if got := inMemory(int(f.Fd()), c.from, c.to); got != c.want {
			t.Errorf("%s: it says %v, want %v", c.name, got, c.want)
		}
	}
}

// TestWhereIs checks files that must not be sent with raw calls, even if their pages are in
// memory.
func TestWhereIs(t *testing.T) {
	ram := memFile(t)
	path := filepath.Join(t.TempDir(), "f")
	direct, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o600)
	if err != nil && !errors.Is(err, unix.EINVAL) { // from file systems without support
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		fd   int
		want where
	}{
		{"what has no name and is memory", ram, inRAM},
		{"a device, in a directory that is memory", opened(t, "/dev/null"), unknown},
		{"a directory", opened(t, "/dev"), unknown},
		{"what the kernel makes up", opened(t, "/proc/self/status"), unknown},
		{"a pipe", pipeEnd(t), unknown},
		{"nothing at all", -1, unknown},
	} {
		if got, _ := whereIs(c.fd); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if direct != nil {
		defer direct.Close()
		if got, _ := whereIs(int(direct.Fd())); got != unknown {
			t.Errorf("a file that passes memory by: %d, want %d", got, unknown)
		}
	}
	const size = minLook + 5
	if err := unix.Ftruncate(ram, size); err != nil {
		t.Fatal(err)
	}
	var s Sender
	if s.look(ram, minLook); !s.resident || s.upTo != minLook {
		t.Errorf("memory is looked at as %+v", s)
	}
	if s.look(ram, 4<<20); !s.resident || s.upTo != size {
		t.Errorf("memory is looked at to its end as %+v", s)
	}
	if _, err := unix.Seek(ram, size, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if s.look(ram, 4<<20); s.resident || s.upTo <= size {
		t.Errorf("behind its end memory is looked at as %+v", s)
	}
	s = Sender{}
	if s.look(opened(t, "/dev/zero"), minLook); s.resident || s.where != unknown {
		t.Errorf("a device is looked at as %+v", s)
	}
}

func opened(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return int(f.Fd())
}

func memFile(t *testing.T) int {
	t.Helper()
	fd, err := unix.MemfdCreate("f", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal("memfd_create:", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func pipeEnd(t *testing.T) int {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0]
}

// cachestat reports whether the kernel says which pages of our own file are in memory.
func cachestat(t *testing.T, f *os.File) bool {
	t.Helper()
	var s unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: 1}, &s, 0)
	if err != nil && err != unix.ENOSYS && err != unix.EPERM {
		t.Fatal("cachestat:", err)
	}
	return err == nil
}
