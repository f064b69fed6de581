package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/treecopy"
)

// Parts have 8 MiB, and more if S3 would not accept that many parts.
func TestPartSizes(t *testing.T) {
	for _, tt := range []struct{ size, part int64 }{
		{1, 8 << 20}, {(8 << 20) * maxParts, 8 << 20}, {(8<<20)*maxParts + 1, 9 << 20}, {100 << 30, 11 << 20}, {625 << 30, 64 << 20}, {625<<30 + 1, 0}, {0, 16 << 20}, {-1, 16 << 20},
	} {
		part, err := partFor(tt.size)
		if part != tt.part || (err != nil) != (tt.part == 0) || err == nil && tt.size > part*maxParts {
			t.Errorf("%d bytes: parts of %d, %v; want %d", tt.size, part, err, tt.part)
		}
	}
	a, b := markedPart(minPart, store.Create{Resume: "a", Size: 1 << 30, Source: "x"}), markedPart(minPart, store.Create{Resume: "a", Size: 1 << 30, Source: "y"})
	if a == b || a <= minPart || a > minPart+markUnit*markRange {
		t.Errorf("marked parts have %d and %d", a, b)
	}
}

// A file is invisible until it is complete, whatever fails, and an abandoned upload leaves nothing
// behind.
func TestUploadFaults(t *testing.T) {
	data := randomBytes(9 << 20)
	isPart := func(r *http.Request) bool { return r.Method == "PUT" && r.URL.Query().Has("partNumber") }
	isComplete := func(r *http.Request) bool { return r.Method == "POST" && r.URL.Query().Has("uploadId") }
	for name, tt := range map[string]struct {
		fail func(f *fake)
		ok   bool
	}{
		"a part, twice":        {func(f *fake) { f.Fail(2, isPart, 500, "InternalError") }, true},
		"a part, for ever":     {func(f *fake) { f.Fail(-1, isPart, 500, "InternalError") }, false},
		"a part is refused":    {func(f *fake) { f.Fail(-1, isPart, 403, "AccessDenied") }, false},
		"the end, twice":       {func(f *fake) { f.Fail(2, isComplete, 503, "SlowDown") }, true},
		"the end, in a 200":    {func(f *fake) { f.Fail(1, isComplete, 200, "InternalError") }, true},
		"the end, for ever":    {func(f *fake) { f.Fail(-1, isComplete, 500, "InternalError") }, false},
		"the answer, once":     {func(f *fake) { f.SetHook(loseAnswer(f, isComplete)) }, true},
		"the answer to a part": {func(f *fake) { f.SetHook(loseAnswer(f, isPart)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			s := f.store()
			tt.fail(f)
			u, err := s.Create(t.Context(), "f", store.Create{Size: int64(len(data))})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			_, err = u.WriteAt(data, 0)
			if _, there := f.Content("f"); there {
				t.Error("it is there before Commit")
			}
			if err == nil {
				err = u.Commit()
			}
			got, there := f.Content("f")
			switch {
			case tt.ok && (err != nil || got != string(data)):
				t.Errorf("%v, and there are %d bytes of %d", err, len(got), len(data))
			case !tt.ok && (err == nil || there || !strings.Contains(err.Error(), "s3://b12/f")):
				t.Errorf("%v, and it is there: %v", err, there)
			}
			f.SetHook(nil)
			if err := u.Close(); err != nil {
				t.Error(err)
			}
			if n := f.UploadsLeft(); n > 0 {
				t.Errorf("%d uploads are left", n)
			}
		})
	}
}

// loseAnswer returns a hook that carries out the first matching request, but loses its answer.
func loseAnswer(f *fake, match func(*http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	var done atomic.Bool
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if !match(r) || done.Swap(true) {
			return false
		}
		f.SetHook(nil)
		f.Answer(&discard{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// Parts arrive in any order, and stay within the memory bound. Gaps are filled with zeros.
func TestWritesInAnyOrder(t *testing.T) {
	f := newFake(t)
	s := f.store()
	const piece = 1 << 20
	want := make([]byte, 19*piece+7)
	data := randomBytes(len(want))
	u, err := s.Create(t.Context(), "f", store.Create{Size: int64(len(want))})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	last := len(want) / piece
	for i := range last + 1 {
		n := (i*17 + 5) % (last + 1) // each once
		if n == 12 || n == 13 {
			continue // a gap
		}
		p := data[n*piece : min(len(data), (n+1)*piece)]
		copy(want[n*piece:], p)
		if _, err := u.WriteAt(p, int64(n*piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Content("f"); got != string(want) {
		t.Errorf("%d bytes, want %d others", len(got), len(want))
	}
}

// If a writer leaves more parts open than fit into memory, the oldest of them are sent to the
// server. A hole in such a part remains a hole, and a later write to it fails.
func TestMemoryIsBounded(t *testing.T) {
	f := newFake(t)
	s := f.store(func(c *Config) { c.Memory = 1 })
	u, err := s.Create(t.Context(), "f", store.Create{Size: 39 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	u.(*upload).most = 3
	for n := range int64(5) { // the first byte of each part
		if _, err := u.WriteAt([]byte{1}, n*minPart); err != nil {
			t.Fatal(err)
		}
		in := u.(*upload)
		in.mu.Lock()
		if in.held > 3 {
			t.Errorf("%d parts are held", in.held)
		}
		in.mu.Unlock()
	}
	if _, err := u.WriteAt([]byte{1}, 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a write to a part that was sent: %v", err)
	}
	other, err := s.Create(t.Context(), "g", store.Create{Size: 39 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	waits, err := s.Create(ctx, "h", store.Create{Size: 39 << 20})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := waits.WriteAt([]byte{1}, 30<<20)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("an upload that waits for memory, when its context ends: %v", err)
	}
	if err := u.Truncate(39 << 20); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.WriteAt([]byte{1}, 30<<20); err != nil {
		t.Errorf("the memory of an upload that has ended is not free: %v", err)
	}
	want := make([]byte, 39<<20)
	for n := range 5 {
		want[n*minPart] = 1
	}
	if got, _ := f.Content("f"); got != string(want) {
		t.Error("the file has other bytes")
	}
}

// copyFrom copies the file "f" of a directory with treecopy.
func copyFrom(t *testing.T, dir string, s *Store, progress func(int64)) (treecopy.Result, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var moved atomic.Int64
	return treecopy.Copy(ctx, treecopy.Job{
		Sources: []treecopy.Source{{Tree: localdir.New(root), Name: "f"}}, To: s, Target: "f",
		Options: treecopy.Options{Continue: true},
		Hooks: treecopy.Hooks{Progress: func(_ *treecopy.Item, n int64) {
			if progress != nil {
				progress(moved.Add(n))
			}
		}},
	})
}

// Another process can resume an upload that was killed: it reads the part that exists from the
// source again, compares it, and sends no part twice. A part from a different source is sent again.
// An upload from another source shares nothing.
func TestResume(t *testing.T) {
	for _, real := range []bool{false, true} {
		t.Run(fmt.Sprintf("versitygw=%v", real), func(t *testing.T) {
			var open func() *Store
			var f *fake
			if real {
				c := startGateway(t)
				open = func() *Store { return newStore(t, "", c) }
			} else {
				f = newFake(t)
				open = func() *Store { return f.store() }
			}
			dir := t.TempDir()
			data := randomBytes(30 << 20)
			if err := os.WriteFile(filepath.Join(dir, "f"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			// Closing a store during its copy leaves the same state as killing the process: nothing
			// is aborted.
			dead := open()
			_, err := copyFrom(t, dir, dead, func(n int64) {
				if n > 25<<20 && dead.life.Err() == nil {
					waitForParts(t, dead, 2)
					dead.Close()
				}
			})
			if err == nil {
				t.Fatal("it is complete")
			}
			if _, err := open().Stat(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("it is there: %v", err)
			}
			wrong := 0
			if !real {
				f.CloseClientConnections()
				f.Rest()
				f.SetPart(2, func(first string) string { return strings.Repeat("\x01", len(first)) })
				wrong = 1
				f.Asked()
			}
			res, err := copyFrom(t, dir, open(), nil)
			if err != nil || res.Copied != 1 || res.Resumed < minPart {
				t.Fatalf("%+v, %v", res, err)
			}
			if !real {
				puts := 0
				for _, r := range f.Asked() {
					if strings.HasPrefix(r, "PUT") {
						puts++
					}
				}
				if got, _ := f.Content("f"); got != string(data) || puts > 3+wrong {
					t.Errorf("%d bytes came, by %d requests", len(got), puts)
				}
				if n := f.UploadsLeft(); n > 0 {
					t.Errorf("%d uploads are left", n)
				}
			}
			got, fetched, err, fetchErr := readBoth(t, open(), "f")
			if err != nil || fetchErr != nil || !bytes.Equal(got, data) || !bytes.Equal(fetched, data) {
				t.Errorf("%d and %d bytes came back; %v, %v", len(got), len(fetched), err, fetchErr)
			}
		})
	}
}

// waitForParts waits until the server has the given number of parts of the upload of "f", starting
// with the first. They are sent at the same time, and a later one may arrive first.
func waitForParts(t *testing.T, s *Store, parts int) {
	for range 3000 {
		if list, err := s.server.ListMultipartUploads(t.Context(), "b12", "f", "", "", "", 0); err == nil && len(list.Uploads) == 1 {
			if have, err := s.server.ListObjectParts(t.Context(), "b12", "f", list.Uploads[0].UploadID, 0, 0); err == nil && len(have.ObjectParts) >= parts && have.ObjectParts[parts-1].PartNumber == parts {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the parts do not come")
}

// Two writers of one name do not mix. In one process, the second is refused. Another process with
// the same source produces the same file. A process with another source has its own upload.
func TestTwoWriters(t *testing.T) {
	f := newFake(t)
	data, other := randomBytes(20<<20), bytes.Repeat([]byte{7}, 20<<20)
	same := store.Create{Size: 20 << 20, Resume: "me", Source: "a"}
	begin := func(s *Store, c store.Create, data []byte) store.Upload {
		u, err := s.Create(t.Context(), "f", c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { u.Close() })
		if _, err := u.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		return u
	}
	first := f.store()
	a := begin(first, same, data)
	if _, err := first.Create(t.Context(), "f", same); !errors.Is(err, store.ErrBusy) {
		t.Errorf("a second upload in one process: %v", err)
	}
	b := begin(f.store(), same, data)
	foreign := same
	foreign.Source = "b"
	c := begin(f.store(), foreign, other)
	for i, u := range []store.Upload{a, b, c} {
		if err := u.Commit(); err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
		want := data
		if i == 2 {
			want = other
		}
		if got, _ := f.Content("f"); got != string(want) {
			t.Errorf("after writer %d there are other bytes", i)
		}
	}
	if n := f.UploadsLeft(); n > 1 { // b has found no upload, or the upload of a
		t.Errorf("%d uploads are left", n)
	}
}

// If an answer is lost, an exclusive upload may already have its name. The error says so.
func TestExclusiveAfterLoss(t *testing.T) {
	f := newFake(t)
	s := f.store()
	u, err := s.Create(t.Context(), "f", store.Create{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	f.SetHook(loseAnswer(f, isMethod("PUT")))
	if err := u.Commit(); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "may be this upload") {
		t.Error(err)
	}
}
