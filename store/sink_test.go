package store_test

import (
	"bytes"
	"context"
	"io/fs"
	"runtime"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// A memory keeps the files that a sink passes to it, as a program would that serves the files that
// it receives.
type memory struct {
	store.Store // the sink

	mu    sync.Mutex
	files map[string]store.File // guarded by mu
}

func newMemory() *memory {
	m := &memory{files: map[string]store.File{}}
	m.Store = store.Sink(64<<20, m.keep)
	return m
}

func (m *memory) keep(name string, f store.File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = f
}

func (m *memory) Open(ctx context.Context, name string) (store.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.files[name]; ok && ctx.Err() == nil {
		return kept{f, f.(store.TryReader)}, nil
	}
	return m.Store.Open(ctx, name)
}

func (m *memory) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.files[name]; ok && ctx.Err() == nil {
		return f.Stat()
	}
	return m.Store.Stat(ctx, name)
}

// A kept file is closed by the memory, and not by its readers.
type kept struct {
	store.File
	store.TryReader
}

func (kept) Close() error { return nil }

func TestSink(t *testing.T) {
	storetest.RunUploads(t, func(*testing.T) store.Store { return newMemory() })
}

func TestSinkHandsOver(t *testing.T) {
	for _, size := range []int{0, 1000, 1 << 20} {
		content := bytes.Repeat([]byte{3}, size)
		var got []store.File
		s := store.Sink(0, func(name string, f store.File) {
			if name != "dir/f" {
				t.Errorf("handed over %q", name)
			}
			got = append(got, f)
		})
		// No file exists, so no name is taken.
		for _, c := range []store.Create{{}, {Exclusive: true, Perm: 0o600}} {
			if err := upload(t, s, "dir/f", string(content), c); err != nil {
				t.Fatal(err)
			}
		}
		begin(t, s, "dir/f", store.Create{}).Close()
		if len(got) != 2 {
			t.Fatalf("%d files were handed over, want 2", len(got))
		}
		for i, mode := range []fs.FileMode{0o644, 0o600} {
			fi, err := got[i].Stat()
			if err != nil || fi.Name() != "f" || fi.Size() != int64(size) || fi.Mode() != mode || fi.ModTime().IsZero() {
				t.Errorf("Stat = %v, %v", fs.FormatFileInfo(fi), err)
			}
			p := make([]byte, size)
			if n, err := got[i].ReadAt(p, 0); n != size || err != nil && size > 0 || !bytes.Equal(p, content) {
				t.Errorf("ReadAt = %d, %v, or other content", n, err)
			}
		}
		if used := store.SinkUsed(s); used != 2*charged(int64(size)) {
			t.Errorf("%d bytes charged, want %d", used, 2*charged(int64(size)))
		}
		for _, f := range got {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			wantError(t, "Close again", f.Close(), fs.ErrClosed)
		}
		if used := store.SinkUsed(s); used != 0 {
			t.Errorf("%d bytes charged after all files were closed", used)
		}
	}
}

func TestSinkHoldsNothing(t *testing.T) {
	s := store.Sink(0, func(_ string, f store.File) { f.Close() })
	if err := upload(t, s, "f", "x", store.Create{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", ".", "g"} {
		_, err := s.Open(t.Context(), name)
		wantError(t, "Open", err, fs.ErrNotExist)
		_, err = s.Stat(t.Context(), name)
		wantError(t, "Stat", err, fs.ErrNotExist)
	}
	_, err := s.Create(t.Context(), ".", store.Create{})
	wantError(t, "Create of the root", err, store.ErrNotRegular)
}

func TestSinkLimit(t *testing.T) {
	const room = 1 << 20
	var last store.File
	s := store.Sink(room+2*overhead, func(_ string, f store.File) { last = f })
	for _, size := range []int64{room + 1000, 1<<63 - 1} {
		_, err := s.Create(t.Context(), "f", store.Create{Size: size})
		wantError(t, "Create of more than fits", err, store.ErrNoSpace)
	}
	if err := upload(t, s, "f", string(make([]byte, room)), store.Create{}); err != nil {
		t.Fatal(err)
	}
	u := begin(t, s, "g", store.Create{})
	_, err := u.WriteAt([]byte("x"), 0)
	wantError(t, "WriteAt beside an unread file", err, store.ErrNoSpace)
	last.Close()
	if _, err = u.WriteAt([]byte("x"), 0); err != nil {
		t.Errorf("WriteAt after that was closed: %v", err)
	}
}

// TestSinkPanic makes done panic, and makes it end its goroutine. Neither may leave a lock held.
func TestSinkPanic(t *testing.T) {
	fail := func() { panic("planted") }
	s := store.Sink(0, func(_ string, f store.File) {
		f.Close()
		fail()
	})
	for _, f := range []func(){fail, runtime.Goexit} {
		fail = f
		u := begin(t, s, "f", store.Create{})
		var ended sync.WaitGroup
		ended.Go(func() {
			defer func() { _ = recover() }()
			_ = u.Commit()
			t.Error("Commit returned")
		})
		ended.Wait()
		wantError(t, "Commit again", u.Commit(), fs.ErrClosed)
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	fail = func() {}
	if err := upload(t, s, "f", "x", store.Create{}); err != nil {
		t.Error(err)
	}
	if used := store.SinkUsed(s); used != 0 {
		t.Errorf("%d bytes charged", used)
	}
}
