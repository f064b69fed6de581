package localdir_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
)

// A run is a series of runBlocks TFTP blocks of blockSize bytes, as many as one message holds.
const runBlocks, blockSize = 44, 1428

// openRun returns a file of the size of a run, and buffers for it.
func openRun(t testing.TB) (store.File, store.TryReader, [][]byte) {
	t.Helper()
	_, d := tempDir(t)
	if err := upload(t, d, "f", strings.Repeat("x", runBlocks*blockSize), store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	bufs := make([][]byte, runBlocks)
	for i := range bufs {
		bufs[i] = make([]byte, blockSize)
	}
	r := f.(store.TryReader)
	if _, err := r.TryReadAt(bufs, 0); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the file system of temporary files does not know RWF_NOWAIT")
	}
	return f, r, bufs
}

func TestTryReadAtDoesNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("pools forget at random under the race detector")
	}
	_, r, bufs := openRun(t)
	allocs := testing.AllocsPerRun(1000, func() {
		if n, err := r.TryReadAt(bufs, 0); n != runBlocks*blockSize && !errors.Is(err, store.ErrWouldBlock) {
			t.Fatalf("TryReadAt = %d, %v", n, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

// TestTryReadAtWouldBlock reads data that was evicted from memory. The kernel may keep it anyway,
// but TryReadAt must not return anything else.
func TestTryReadAtWouldBlock(t *testing.T) {
	dir, d := tempDir(t)
	const size = 4 << 20
	content := bytes.Repeat([]byte("content!"), size/8)
	if err := upload(t, d, "f", string(content), store.Create{}); err != nil {
		t.Fatal(err)
	}
	dropCache(t, filepath.Join(dir, "f"))
	f, err := d.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, size)
	for off := 0; off < size; {
		n, err := f.(store.TryReader).TryReadAt([][]byte{buf[off:]}, int64(off))
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			t.Skip("the file system of temporary files does not know RWF_NOWAIT")
		case errors.Is(err, store.ErrWouldBlock):
			n, err = f.ReadAt(buf[off:min(off+64<<10, size)], int64(off))
		}
		if err != nil {
			t.Fatal(err)
		}
		off += n
	}
	if !bytes.Equal(buf, content) {
		t.Error("read other bytes than were written")
	}
}

func dropCache(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// TestDirDescriptors counts the descriptors that uploads and files leave open.
func TestDirDescriptors(t *testing.T) {
	_, d := tempDir(t)
	use := func() {
		if err := upload(t, d, "f", "x", store.Create{}); err != nil {
			t.Fatal(err)
		}
		begin(t, d, "f", store.Create{Size: 100}).Close()
		late := begin(t, d, "new", store.Create{Exclusive: true})
		d.Before(failAt("sync", unix.EIO))
		wantError(t, "commit", late.Commit(), unix.EIO)
		for _, name := range []string{".", "f/g", "no/such"} {
			if _, err := d.Create(t.Context(), name, store.Create{}); err == nil {
				t.Errorf("created %s", name)
			}
			if _, err := d.Open(t.Context(), name); err == nil {
				t.Errorf("opened %s", name)
			}
		}
		for _, call := range []string{"create", "lock", "space"} {
			d.Before(failAt(call, unix.EIO))
			_, err := d.Create(t.Context(), "f", store.Create{Size: 100})
			wantError(t, call, err, unix.EIO)
		}
		d.Before(nil)
		f, err := d.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := d.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	use() // opens the descriptors that the runtime keeps
	before := descriptors(t)
	use()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors open, were %d", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestTryReadAtWhileClosing closes files while others read them. The readers must get the content
// of their file or fs.ErrClosed, and never that of the next file with the same descriptor.
func TestTryReadAtWhileClosing(t *testing.T) {
	_, d := tempDir(t)
	for _, name := range []string{"a", "b"} {
		if err := upload(t, d, name, name, store.Create{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		a, err := d.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for buf := []byte{0}; ; {
				n, err := a.(store.TryReader).TryReadAt([][]byte{buf}, 0)
				if n > 0 && buf[0] != 'a' {
					t.Error("read another file")
				}
				if errors.Is(err, fs.ErrClosed) || errors.Is(err, errors.ErrUnsupported) {
					return
				}
			}
		})
		a.Close()
		b, err := d.Open(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		b.Close()
	}
}

func BenchmarkTryReadAt(b *testing.B) {
	_, r, bufs := openRun(b)
	b.SetBytes(runBlocks * blockSize)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.TryReadAt(bufs, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// identity returns the identity of a file at the moment when it is opened.
func identity(t *testing.T, d store.Store, name string) store.Identity {
	t.Helper()
	f, err := d.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, ok := f.(store.Identifier).Identity()
	if !ok || id == (store.Identity{}) {
		t.Fatalf("%s: no identity", name)
	}
	return id
}

// The Digest differs between files, and Changed returns the time that the system has set.
func TestIdentityDigest(t *testing.T) {
	dir, d := tempDir(t)
	for _, name := range []string{"a", "b"} {
		if err := upload(t, d, name, "content", store.Create{}); err != nil {
			t.Fatal(err)
		}
	}
	a, b := identity(t, d, "a"), identity(t, d, "b")
	if a.Digest() != identity(t, d, "a").Digest() || a.Digest() == b.Digest() {
		t.Errorf("%x and %x", a.Digest(), b.Digest())
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "a"), past, past); err != nil {
		t.Fatal(err)
	}
	if at := identity(t, d, "a").Changed(); at.Before(past.Add(30*time.Minute)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("changed just now, and the system says %v", at)
	}
}

// If a file is opened twice, both have the same Identity as long as the file does not change.
func TestIdentity(t *testing.T) {
	dir, d := tempDir(t)
	for _, name := range []string{"a", "b"} {
		if err := upload(t, d, name, "content", store.Create{}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "a")
	// The clock of a file system may stand still for some milliseconds.
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	first := identity(t, d, "a")
	if again := identity(t, d, "a"); again != first {
		t.Errorf("two opens: %+v and %+v", first, again)
	}
	if err := os.Link(path, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if read, err := os.ReadFile(path); err != nil || string(read) != "content" {
		t.Fatal(err)
	}
	linked := identity(t, d, "a") // a link changes ctime, so the identity may differ
	if other := identity(t, d, "link"); other != linked {
		t.Error("two names of one file have two identities")
	}
	if identity(t, d, "b") == linked {
		t.Error("files of the same content have one identity")
	}
	before := linked
	for _, change := range []struct {
		what string
		do   func() error
	}{
		{"other content", func() error { return rewrite(path, "CONTENT") }},
		{"a larger size", func() error { return os.Truncate(path, 100) }},
		{"a smaller size", func() error { return os.Truncate(path, 3) }},
		{"the same bytes by upload", func() error { return upload(t, d, "a", "con", store.Create{}) }},
		{"other bytes by upload", func() error { return upload(t, d, "a", "CON", store.Create{}) }},
		{"another file by that name", func() error { return os.Rename(filepath.Join(dir, "b"), path) }},
		{"an older time", func() error { return os.Chtimes(path, past, past.Add(-time.Hour)) }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		after := identity(t, d, "a")
		if after == before {
			t.Errorf("%s: the identity is still %+v", change.what, after)
		}
		before = after
	}
}

// rewrite overwrites the first bytes of a file, after the file system's clock has moved on.
func rewrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	was, err := f.Stat()
	if err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(time.Millisecond) {
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			return err
		}
		if is, err := f.Stat(); err != nil || is.ModTime() != was.ModTime() {
			return err
		}
	}
	return errors.New("the file system's clock stands still")
}

// An open file keeps its Identity when its name is given to another file. After it is closed, it
// has no Identity.
func TestIdentityOfOpenFile(t *testing.T) {
	_, d := tempDir(t)
	if err := upload(t, d, "a", "first", store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := upload(t, d, "a", "again", store.Create{}); err != nil {
		t.Fatal(err)
	}
	id, ok := f.(store.Identifier).Identity()
	if !ok || id == identity(t, d, "a") {
		t.Errorf("a file whose name went to another: %+v, %v", id, ok)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if id, ok := f.(store.Identifier).Identity(); ok || id != (store.Identity{}) {
			t.Errorf("once it is closed: %+v, %v", id, ok)
		}
	}
}

// TestIdentityWhileClosing closes files while others ask for their Identity. They must get the
// Identity of their file or nothing, and never that of the next file with the same descriptor.
func TestIdentityWhileClosing(t *testing.T) {
	_, d := tempDir(t)
	for _, name := range []string{"a", "b"} {
		if err := upload(t, d, name, name, store.Create{}); err != nil {
			t.Fatal(err)
		}
	}
	want := identity(t, d, "a")
	for range 200 {
		a, err := d.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				id, ok := a.(store.Identifier).Identity()
				if !ok {
					return
				}
				if id != want {
					t.Error("that of another file")
				}
			}
		})
		a.Close()
		b, err := d.Open(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		b.Close()
	}
}
