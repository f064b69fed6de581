package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/haul-project/haul/store"
)

// charged returns the charge for a file of size bytes once it is published.
func charged(size int64) int64 {
	if page := int64(os.Getpagesize()); store.CanMap && size >= store.MapThreshold {
		size = (size + page - 1) / page * page
	}
	return size + overhead
}

// TestMemCharges checks the charge while an upload grows, after it is cut, after it is published,
// and after it is removed.
func TestMemCharges(t *testing.T) {
	tests := []struct {
		name          string
		announced     int64
		size          int64 // written in one call
		cut           int64 // the size that it is cut to after that
		writing, done int64 // expected charges
	}{
		{"empty", 0, 0, 0, overhead, overhead},
		{"small", 0, 1000, 1000, overhead + 1000, overhead + 1000},
		{"announced", 5000, 1000, 1000, overhead + 5000, overhead + 1000},
		{"large", 0, 1 << 20, 1 << 20, overhead + 1<<20, overhead + 1<<20},
		{"large and odd", 0, 1<<20 - 1, 1<<20 - 1, charged(1<<20 - 1), charged(1<<20 - 1)},
		{"announced large", 4 << 20, 1 << 20, 1 << 20, overhead + 1<<20, overhead + 1<<20},
		{"announced large, came small", 4 << 20, 100, 100, overhead + store.UploadAhead, overhead + 100},
		{"announced large, came empty", 4 << 20, 0, 0, overhead, overhead},
		{"cut small", 0, 1 << 20, 10, overhead + 1<<20, overhead + 10},
		{"cut", 0, 1 << 20, 512 << 10, overhead + 1<<20, overhead + 512<<10},
	}
	for _, tt := range tests {
		m := store.Mem(0)
		u := begin(t, m, "f", store.Create{Size: tt.announced})
		if _, err := u.WriteAt(bytes.Repeat([]byte{7}, int(tt.size)), 0); err != nil {
			t.Error(err)
		}
		if got := store.Used(m); got != tt.writing {
			t.Errorf("%s: %d bytes charged to the upload, want %d", tt.name, got, tt.writing)
		}
		if err := u.Truncate(tt.cut); err != nil {
			t.Error(err)
		}
		if err := u.Commit(); err != nil {
			t.Error(err)
		}
		if got := store.Used(m); got != tt.done {
			t.Errorf("%s: %d bytes charged to the file, want %d", tt.name, got, tt.done)
		}
		f, err := m.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := store.Memory(f); !bytes.Equal(b, bytes.Repeat([]byte{7}, int(tt.cut))) {
			t.Errorf("%s: holds other bytes than were written", tt.name)
		}
		if err := upload(t, m, "f", "", store.Create{}); err != nil {
			t.Error(err)
		}
		if got := store.Used(m); got != tt.done+overhead {
			t.Errorf("%s: %d bytes charged to a replaced file in use, want %d", tt.name, got-overhead, tt.done)
		}
		f.Close()
		if got := store.Used(m); got != overhead {
			t.Errorf("%s: %d bytes charged when all is gone", tt.name, got-overhead)
		}
	}
}

// TestMemAnnounced announces in each of many uploads the whole size of the store. No upload is
// charged for that until data arrives.
func TestMemAnnounced(t *testing.T) {
	const limit, many = 4 << 20, 30
	m := store.Mem(limit)
	for i := range many {
		u, err := m.Create(t.Context(), "f", store.Create{Size: limit - many*overhead})
		if err != nil {
			t.Fatalf("after %d others: %v", i, err)
		}
		defer u.Close()
	}
	if got := store.Used(m); got > many*overhead {
		t.Errorf("%d uploads of which nothing has come take %d bytes", many, got)
	}
	_, err := m.Create(t.Context(), "f", store.Create{Size: limit})
	wantError(t, "Create of more than is left", err, store.ErrNoSpace)
}

// TestMemCommitCopiesNothing checks that the reader has the same memory as the upload.
func TestMemCommitCopiesNothing(t *testing.T) {
	for _, size := range []int{store.MapThreshold, 1<<20 + 1} {
		m := store.Mem(0)
		u := begin(t, m, "f", store.Create{})
		piece := bytes.Repeat([]byte{1}, 10_000)
		for off := 0; off < size; off += len(piece) {
			if _, err := u.WriteAt(piece[:min(len(piece), size-off)], int64(off)); err != nil {
				t.Fatal(err)
			}
		}
		written, mapped := store.UploadMemory(u)
		if mapped != store.CanMap {
			t.Errorf("%d bytes are mapped: %v, want %v", size, mapped, store.CanMap)
		}
		if err := u.Commit(); err != nil {
			t.Fatal(err)
		}
		f, err := m.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		read, _ := store.Memory(f)
		if store.CanMap && unsafe.SliceData(read) != unsafe.SliceData(written) {
			t.Errorf("Commit moved %d bytes", size)
		}
		f.Close()
	}
}

// TestMemLimitMapped fills a store with files that are large enough to be mapped.
func TestMemLimitMapped(t *testing.T) {
	const limit = 4 << 20
	m := store.Mem(limit + overhead)
	for range 3 {
		u := begin(t, m, "f", store.Create{})
		piece := make([]byte, 10_000)
		var off int64
		var err error
		for err == nil {
			if _, err = u.WriteAt(piece, off); err == nil {
				off += int64(len(piece))
			}
		}
		wantError(t, "WriteAt", err, store.ErrNoSpace)
		if off < limit-int64(len(piece)+os.Getpagesize()) || store.Used(m) > limit+overhead {
			t.Errorf("full at %d bytes written, %d charged, of %d", off, store.Used(m), limit)
		}
		if u.Close(); store.Used(m) != 0 {
			t.Errorf("%d bytes charged after Close", store.Used(m))
		}
	}
	_, err := m.Create(t.Context(), "f", store.Create{Size: limit + 1})
	wantError(t, "Create of more than fits", err, store.ErrNoSpace)
	if store.Used(m) != 0 {
		t.Errorf("%d bytes charged after a Create that failed", store.Used(m))
	}
}

// TestMemForgotten checks that the garbage collector frees files and uploads that are never closed.
func TestMemForgotten(t *testing.T) {
	const size = 1 << 20
	m := store.Mem(0)
	content := string(make([]byte, size))
	func() {
		if err := upload(t, m, "f", content, store.Create{}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Open(t.Context(), "f"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Create(t.Context(), "g", store.Create{Size: size}); err != nil {
			t.Fatal(err)
		}
		if err := upload(t, m, "f", "", store.Create{}); err != nil {
			t.Fatal(err)
		}
	}()
	collectUntil(t, func() bool { return store.Used(m) == overhead })

	s := store.Sink(0, func(string, store.File) {})
	if err := upload(t, s, "f", content, store.Create{}); err != nil {
		t.Fatal(err)
	}
	collectUntil(t, func() bool { return store.SinkUsed(s) == 0 })
}

// collectUntil runs the garbage collector until so returns true.
func collectUntil(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the garbage collector does not give the memory back")
		}
		runtime.GC()
	}
}

// TestMemStress replaces, opens, reads and closes files in many goroutines at once. Reading memory
// that has been freed would kill the process.
func TestMemStress(t *testing.T) {
	const versions, size = 60, store.MapThreshold + 5000
	m := store.Mem(0)
	content := func(v int) []byte { return bytes.Repeat([]byte{byte(v)}, size) }
	if err := upload(t, m, "f", string(content(0)), store.Create{}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					readAndClose(t, m)
				}
			}
		})
	}
	for v := range versions {
		if err := upload(t, m, "f", string(content(v)), store.Create{Size: int64(v%2) * size}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	all.Wait()
	if got := store.Used(m); got != charged(size) {
		t.Errorf("%d bytes charged in the end, want %d", got, charged(size))
	}
}

// readAndClose reads "f" in two goroutines, and closes it in a third.
func readAndClose(t *testing.T, m store.Tree) {
	f, err := m.Open(t.Context(), "f")
	if err != nil {
		t.Error(err)
		return
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			p := make([]byte, 50_000)
			for {
				n, err := f.(store.TryReader).TryReadAt([][]byte{p[:100], p[100:]}, 1000)
				if n > 0 && bytes.Count(p[:n], p[:1]) != n {
					t.Error("read a mixture of versions")
				}
				if errors.Is(err, fs.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Go(func() { f.Close() })
	all.Wait()
}

func TestMemReadDoesNotAllocate(t *testing.T) {
	m := store.Mem(0)
	if err := upload(t, m, "f", string(make([]byte, 1<<20)), store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := m.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	u := begin(t, m, "g", store.Create{Size: 1 << 20})
	r, p := f.(store.TryReader), make([]byte, 2000)
	bufs := [][]byte{p[:1000], p[1000:]}
	for what, use := range map[string]func() (int, error){
		"ReadAt":    func() (int, error) { return f.ReadAt(p, 5000) },
		"TryReadAt": func() (int, error) { return r.TryReadAt(bufs, 5000) },
		"WriteAt":   func() (int, error) { return u.WriteAt(p, 5000) },
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if n, err := use(); n != len(p) || err != nil {
				t.Fatalf("%s = %d, %v", what, n, err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations, want none", what, allocs)
		}
	}
}
