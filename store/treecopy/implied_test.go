package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A fileServer is a tree in which a directory exists from its first file on, files have the times
// of their uploads, and only whole files can be changed.
type fileServer struct{ store.Tree }

func (fileServer) Capabilities() store.Capabilities {
	return store.Capabilities{Features: store.Features{ImpliedDirs: true, OwnTimes: true, NoModes: true, WholeFiles: true}}
}

func (fileServer) OpenFile(context.Context, string, store.Access) (store.Handle, error) {
	return nil, errors.ErrUnsupported
}
func (fileServer) Mkdir(context.Context, string, fs.FileMode) error { return errors.ErrUnsupported }
func (fileServer) RemoveDir(context.Context, string) error          { return errors.ErrUnsupported }
func (fileServer) Rename(context.Context, string, string, bool) error {
	return errors.ErrUnsupported
}
func (fileServer) Link(context.Context, string, string) error    { return errors.ErrUnsupported }
func (fileServer) Symlink(context.Context, string, string) error { return errors.ErrUnsupported }
func (fileServer) SetAttr(context.Context, string, store.Attr, bool) error {
	return errors.ErrUnsupported
}

// Directories that exist through their files are not made, wherever the copy lands. Directories
// without files are left out and reported.
func TestImpliedDirectories(t *testing.T) {
	from := world(t)
	mkdir(t, from, "dir/deep/empty")
	setMode(t, from, "dir/sub", 0o555)
	for _, c := range []struct {
		source, target, top string
		made                int64
	}{
		{"dir", "new", "new", 3}, // the directory itself, sub and .dot
		{"dir", "new/er", "new/er", 3},
		{"dir", "new/", "new/dir", 3},
		{"dir/.", "new/", "new", 3},
	} {
		for _, o := range []treecopy.Options{{}, {Continue: true}, {DryRun: true}} {
			to := store.Mem(0)
			o.Recursive = true
			r, s, err := copyAll(t.Context(), from, fileServer{to}, c.target, o, c.source)
			if err != nil || r.Copied != 4 || r.Made != c.made || r.Skipped != 3 || r.Failed != 0 {
				t.Errorf("%s to %s, %+v: %+v, %v", c.source, c.target, o, r, err)
			}
			for name, want := range map[string]treecopy.What{"dir/empty": treecopy.Skipped, "dir/deep": treecopy.Skipped, "dir/deep/empty": treecopy.Skipped, "dir/sub": treecopy.Made} {
				if got := s.outcomes[name]; got.What != want || (want == treecopy.Skipped) != errors.Is(got.Err, treecopy.ErrEmpty) {
					t.Errorf("%s to %s: %s is %+v", c.source, c.target, name, got)
				}
			}
			if o.DryRun {
				wantNames(t, to)
				continue
			}
			for _, name := range []string{"/x", "/sub/y", "/sub/z.log", "/.dot/w"} {
				wantBytes(t, to, c.top+name, []byte("this is dir"+name))
			}
		}
	}
	// Existing directories are entered, and reported as present.
	to := store.Mem(0)
	put(t, to, "dir/sub/y", []byte("old"))
	r, s, err := copyAll(t.Context(), from, fileServer{to}, ".", recursive, "dir")
	if err != nil || r.Copied != 4 || r.Made != 1 || s.outcomes["dir"].What != treecopy.Present || s.outcomes["dir/.dot"].What != treecopy.Made {
		t.Errorf("%+v, %v, %v", r, s.outcomes, err)
	}
	wantBytes(t, to, "dir/sub/y", []byte("this is dir/sub/y"))
}

// A listingServer is a server with cheap listings. It counts look-ups.
type listingServer struct {
	store.Tree
	lookups atomic.Int64
}

func (*listingServer) Capabilities() store.Capabilities {
	return store.Capabilities{Features: store.Features{ImpliedDirs: true, OwnTimes: true, CheapListings: true}}
}

func (l *listingServer) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	l.lookups.Add(1)
	return l.Tree.Lstat(ctx, name)
}

// If listings are cheap, existing directories are listed, and no file in them is looked up, unless
// there are very many. The result is the same.
func TestCheapListings(t *testing.T) {
	const most = 10_000 // entries: maxThere
	from := world(t)
	for _, more := range []int{0, most - 2, most - 1} {
		to := store.Mem(0)
		put(t, to, "dir/sub/y", []byte("old"))
		put(t, to, "dir/x", []byte("this is dir/x"))
		mkdir(t, to, "dir/sub/z.log")
		for i := range more {
			put(t, to, fmt.Sprintf("dir/sub/%d", i), nil)
		}
		l := &listingServer{Tree: to}
		o := treecopy.Options{Recursive: true, Unchanged: treecopy.Hash}
		r, s, err := copyAll(t.Context(), from, l, ".", o, "dir")
		if !errors.Is(err, treecopy.ErrConflict) || r.Copied != 2 || r.Same != 1 || r.Failed != 1 || r.Made != 1 ||
			s.outcomes["dir/sub"].What != treecopy.Present || s.outcomes["dir/x"].What != treecopy.Same {
			t.Errorf("%d more: %+v, %v, %v", more, r, s.outcomes, err)
		}
		wantBytes(t, to, "dir/sub/y", []byte("this is dir/sub/y"))
		want := int64(1) // dir itself
		if more+2 > most {
			want += 2 // the files in dir/sub
		}
		if n := l.lookups.Load(); n != want {
			t.Errorf("%d more: %d lookups, want %d", more, n, want)
		}
	}
}

// A goneServer is a server whose files are removed as soon as they are listed: opening them fails,
// or, if opening takes no request, reading fails.
type goneServer struct {
	store.Tree
	late bool
}

var errGone = &fs.PathError{Op: "open", Path: "f", Err: fs.ErrNotExist}

func (g goneServer) Open(ctx context.Context, name string) (store.File, error) {
	f, err := g.Tree.Open(ctx, name)
	if err != nil || g.late {
		return goneFile{f}, err
	}
	return nil, errors.Join(errGone, f.Close())
}

type goneFile struct{ store.File }

func (goneFile) ReadAt([]byte, int64) (int, error) { return 0, errGone }

// A file of the target that is removed after it was listed is copied as if it had never existed.
func TestGoneSinceListed(t *testing.T) {
	for _, late := range []bool{false, true} {
		from, to := store.Mem(0), store.Mem(0)
		put(t, from, "f", []byte("data"))
		put(t, to, "f", []byte("atad"))
		r, s, err := copyAll(t.Context(), from, goneServer{to, late}, ".", treecopy.Options{Unchanged: treecopy.Hash}, "f")
		if err != nil || r.Copied != 1 {
			t.Errorf("late %v: %+v, %v, %v", late, r, s.outcomes, err)
		}
		wantBytes(t, to, "f", []byte("data"))
	}
}

// A sweptServer is a fileServer that removes the leftovers of earlier copies.
type sweptServer struct {
	fileServer
	swept chan string
}

func (s sweptServer) Capabilities() store.Capabilities {
	c := s.fileServer.Capabilities()
	c.RemoveLeftovers = func(_ context.Context, dir string) error {
		s.swept <- dir
		return nil
	}
	return c
}

// The capabilities of a target with implied directories are used.
func TestImpliedIsSwept(t *testing.T) {
	there := store.Mem(0)
	put(t, there, "dir/sub/y", []byte("old"))
	to := sweptServer{fileServer{there}, make(chan string, 100)}
	if _, _, err := copyAll(t.Context(), world(t), to, ".", recursive, "dir"); err != nil {
		t.Fatal(err)
	}
	if len(to.swept) == 0 {
		t.Error("nothing was swept")
	}
}

// A directory that cannot be listed counts as failed, and is reported once.
func TestImpliedUnlisted(t *testing.T) {
	from := &faulty{Tree: world(t), list: map[string]error{"dir/sub": fs.ErrPermission}}
	r, s, err := copyAll(t.Context(), from, fileServer{store.Mem(0)}, "new", recursive, "dir")
	if !errors.Is(err, fs.ErrPermission) || r.Failed != 1 || r.Skipped != 1 || s.outcomes["dir/sub"].What != treecopy.Failed {
		t.Errorf("%+v, %v, %v", r, s.outcomes, err)
	}
}

// A directory counts as not made if none of its files could be copied.
func TestImpliedWithoutFiles(t *testing.T) {
	from := &faulty{Tree: world(t), open: map[string]error{"dir/sub/y": fs.ErrPermission, "dir/sub/z.log": fs.ErrPermission}}
	r, s, err := copyAll(t.Context(), from, fileServer{store.Mem(0)}, "new", recursive, "dir")
	if r.Copied != 2 || r.Failed != 2 || s.outcomes["dir"].What != treecopy.Made || s.outcomes["dir/.dot"].What != treecopy.Made {
		t.Errorf("%+v, %v, %v", r, s.outcomes, err)
	}
	if got, ok := s.outcomes["dir/sub"]; ok {
		t.Errorf("dir/sub is %+v, and none of its files was copied", got)
	}
}

// Entries that a target with implied directories cannot have are refused before anything is copied.
func TestImpliedRefused(t *testing.T) {
	for what, o := range map[string]treecopy.Options{
		"in place": {InPlace: true}, "modes": {PreserveMode: true}, "times": {PreserveTimes: true},
		"times of files": {FileTimes: true}, "links": {Links: treecopy.KeepLinks},
	} {
		to := store.Mem(0)
		_, _, err := copyAll(t.Context(), world(t), fileServer{to}, "new", o, "dir/sub/y")
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
		wantNames(t, to)
	}
}

// The time of a file does not identify its source if the target sets its own times.
func TestOwnTimes(t *testing.T) {
	for _, own := range []bool{false, true} {
		from, to := store.Mem(0), store.Mem(0)
		put(t, from, "f", []byte("new"))
		put(t, to, "f", []byte("old"))
		for _, tree := range []store.Tree{from, to} {
			setTime(t, tree, "f", time.Unix(1e9, 0))
		}
		target := to
		if own {
			target = fileServer{to}
		}
		r, _, err := copyAll(t.Context(), from, target, "f", treecopy.Options{Unchanged: treecopy.SizeAndTime}, "f")
		if err != nil || (r.Copied == 1) != own {
			t.Errorf("own times %v: %+v, %v", own, r, err)
		}
	}
}
