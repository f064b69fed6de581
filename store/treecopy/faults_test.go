package treecopy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A faulty tree returns errors, or false descriptions of files.
type faulty struct {
	store.Tree
	can        store.Capabilities
	open, list map[string]error // errors from opening files and listing directories, by name
	lstat      map[string]error // errors from describing entries, by name
	size       map[string]int64 // reported by listings and Stat, by the last element of the name
	upload     func(store.Upload) store.Upload
}

func (f *faulty) Capabilities() store.Capabilities { return f.can }

func (f *faulty) Open(ctx context.Context, name string) (store.File, error) {
	if err := f.open[name]; err != nil {
		return nil, err
	}
	return f.Tree.Open(ctx, name)
}

// OpenFile is the call by which a server reads.
func (f *faulty) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if err := f.open[name]; err != nil {
		return nil, err
	}
	return f.Tree.OpenFile(ctx, name, a)
}

func (f *faulty) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	if err := f.list[name]; err != nil {
		return nil, err
	}
	list, err := f.Tree.OpenDir(ctx, name)
	if err != nil || f.size == nil {
		return list, err
	}
	return resized{list, f}, nil
}

func (f *faulty) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := f.Tree.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return f.resize(fi), nil
}

func (f *faulty) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := f.lstat[name]; err != nil {
		return nil, err
	}
	return f.Tree.Lstat(ctx, name)
}

func (f *faulty) resize(fi fs.FileInfo) fs.FileInfo {
	if n, ok := f.size[fi.Name()]; ok {
		return sized{fi, n}
	}
	return fi
}

func (f *faulty) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := f.Tree.Create(ctx, name, c)
	if err == nil && f.upload != nil {
		u = f.upload(u)
	}
	return u, err
}

type sized struct {
	fs.FileInfo
	n int64
}

func (s sized) Size() int64 { return s.n }

type resized struct {
	store.Entries
	f *faulty
}

func (r resized) Next(into []fs.FileInfo) (int, error) {
	n, err := r.Entries.Next(into)
	for i := range into[:n] {
		into[i] = r.f.resize(into[i])
	}
	return n, err
}

// eachWay calls f with a source behind a faulty tree, and with a target; one of them may be remote.
func eachWay(t *testing.T, f func(t *testing.T, bad *faulty, from, to, dest store.Tree)) {
	for _, way := range []string{"local", "download", "upload"} {
		t.Run(way, func(t *testing.T) {
			bad := &faulty{Tree: store.Mem(0)}
			dest, dir := dirTree(t)
			from, to := store.Tree(bad), store.Tree(dest)
			switch way {
			case "download":
				from = remoteTree(t, bad, false)
			case "upload":
				to = remoteTree(t, dest, true)
			}
			f(t, bad, from, to, dest)
			wantNothingLeft(t, dir)
		})
	}
}

// A file that cannot be read is an error, and all others are copied.
func TestUnreadable(t *testing.T) {
	eachWay(t, func(t *testing.T, bad *faulty, from, to, dest store.Tree) {
		for _, name := range []string{"d/a", "d/b", "d/sealed/x", "d/open/y"} {
			put(t, bad.Tree, name, []byte(name))
		}
		bad.open = map[string]error{"d/a": fs.ErrPermission}
		bad.list = map[string]error{"d/sealed": fs.ErrPermission}
		r, s, err := copyAll(t.Context(), from, to, ".", recursive, "d", "d/b")
		if !errors.Is(err, fs.ErrPermission) || r.Failed != 2 || r.Copied != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		for _, name := range []string{"d/a", "d/sealed"} {
			if !errors.Is(s.outcomes[name].Err, fs.ErrPermission) {
				t.Errorf("%s: %+v", name, s.outcomes[name])
			}
		}
		wantNames(t, dest, "b", "d", "d/b", "d/open", "d/open/y")
	})
}

// A source that has shrunk is an error; one that has grown is copied up to its old end.
func TestChangedSize(t *testing.T) {
	for _, size := range []int64{2000, 3 << 20} {
		for _, o := range []treecopy.Options{{}, {Continue: true}, {Sparse: true}} {
			t.Run(fmt.Sprint(size, o.Continue, o.Sparse), func(t *testing.T) {
				eachWay(t, func(t *testing.T, bad *faulty, from, to, dest store.Tree) {
					o.Recursive = true
					for _, name := range []string{"shrunk", "grown", "empty"} {
						put(t, bad.Tree, "d/"+name, pattern(int(size), 1))
					}
					bad.size = map[string]int64{"shrunk": size + 100, "grown": size - 100, "empty": 0}
					r, s, err := copyAll(t.Context(), from, to, ".", o, "d")
					if !errors.Is(err, treecopy.ErrChanged) || r.Failed != 1 || r.Copied != 2 || !errors.Is(s.outcomes["d/shrunk"].Err, treecopy.ErrChanged) {
						t.Errorf("%+v, %v", r, err)
					}
					wantNames(t, dest, "d", "d/grown", "d/empty")
					wantBytes(t, dest, "d/grown", pattern(int(size), 1))
					wantBytes(t, dest, "d/empty", pattern(int(size), 1))
				})
			})
		}
	}
}

// A local file that is written to while it is copied is an error.
func TestWrittenMeanwhile(t *testing.T) {
	from, dir := dirTree(t)
	to, toDir := dirTree(t)
	put(t, from, "f", pattern(3<<20, 1))
	setTime(t, from, "f", time.Unix(1_000_000_000, 0))
	wrote := false
	j := treecopy.Job{To: to, Sources: []treecopy.Source{{Tree: from, Name: "f"}}, Hooks: treecopy.Hooks{
		Progress: func(_ *treecopy.Item, n int64) {
			if wrote || n < 0 {
				return
			}
			wrote = true
			f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := f.WriteAt([]byte("other"), 2<<20); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		},
	}}
	if _, err := treecopy.Copy(t.Context(), j); !errors.Is(err, treecopy.ErrChanged) || !wrote {
		t.Errorf("error %v", err)
	}
	wantNames(t, to)
	wantNothingLeft(t, toDir)
}

// When the target is full, it has the files that fit, and no parts of the others.
func TestDiskFull(t *testing.T) {
	for _, remote := range []bool{false, true} {
		for _, o := range []treecopy.Options{{}, {Continue: true}, {Sparse: true}} {
			t.Run(fmt.Sprint(remote, o.Continue, o.Sparse), func(t *testing.T) {
				o.Recursive = true
				from := store.Mem(0)
				small := 20
				// The server does not know the size in advance, so a file takes all the room for a
				// while.
				if remote {
					small = 0
				}
				for i := range small {
					put(t, from, fmt.Sprintf("d/small %d", i), pattern(1000, uint64(i)))
				}
				put(t, from, "d/large", pattern(4<<20, 1))
				full := store.Mem(2 << 20)
				to := full
				if remote {
					to = remoteTree(t, full, true)
				}
				r, s, err := copyAll(t.Context(), from, to, ".", o, "d")
				if !errors.Is(err, store.ErrNoSpace) || r.Failed != 1 || int(r.Copied) != small || s.outcomes["d/large"].What != treecopy.Failed {
					t.Errorf("%+v, %v", r, err)
				}
				if s.bytes["d/large"] != 0 {
					t.Errorf("%d bytes were reported of what is not there", s.bytes["d/large"])
				}
				if _, err := full.Stat(t.Context(), "d/large"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the large file: %v", err)
				}
			})
		}
	}
}

// A flipper damages the data that is written to it.
type flipper struct{ store.Upload }

func (f flipper) WriteAt(p []byte, off int64) (int, error) {
	p = bytes.Clone(p)
	if off == 0 && len(p) > 7 {
		p[7] ^= 4
	}
	return f.Upload.WriteAt(p, off)
}

func (f flipper) Unwrap() any { return f.Upload }

// Verify finds a damaged copy, if possible before the copy has its name.
func TestVerify(t *testing.T) {
	for _, early := range []bool{false, true} {
		for _, remote := range []bool{false, true} {
			t.Run(fmt.Sprint(early, remote), func(t *testing.T) {
				served := store.Mem(0)
				put(t, served, "d/damaged", pattern(100_000, 1))
				put(t, served, "d/short", []byte("short"))
				from := served
				if remote {
					from = remoteTree(t, served, false)
				}
				dest, dir := dirTree(t)
				to := &faulty{Tree: dest, upload: func(u store.Upload) store.Upload { return flipper{u} }}
				if early { // the copy can be read before it has its name
					to.can.OpenUpload = store.CapabilitiesOf(dest).OpenUpload
				}
				o := treecopy.Options{Recursive: true, Verify: true}
				r, s, err := copyAll(t.Context(), from, to, ".", o, "d")
				if !errors.Is(err, treecopy.ErrDiffers) || r.Failed != 1 || r.Bytes != int64(len("short")) || !s.outcomes["d/short"].Verified {
					t.Errorf("%+v, %v", r, err)
				}
				if _, err := dest.Stat(t.Context(), "d/damaged"); errors.Is(err, fs.ErrNotExist) != early {
					t.Errorf("the damaged file: %v", err)
				}
				wantNothingLeft(t, dir)
			})
		}
	}
}

// When the context ends, no incomplete file has a name, and nothing is left behind.
func TestCanceled(t *testing.T) {
	eachWay(t, func(t *testing.T, bad *faulty, from, to, dest store.Tree) {
		for i := range 100 {
			put(t, bad.Tree, fmt.Sprintf("d/%d/f", i), pattern(i*5000, uint64(i)))
		}
		put(t, bad.Tree, "d/large", pattern(10<<20, 1))
		for _, after := range []int64{1, 100_000, 3 << 20} {
			ctx, hooks := stopAfter(t, after)
			var begun sync.Map // items without an outcome
			hooks.Started = func(i *treecopy.Item) { begun.Store(i, true) }
			hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) {
				if begun.Delete(i); o.What == treecopy.Failed {
					t.Errorf("%s failed: %v", i.From, o.Err)
				}
			}
			j := treecopy.Job{To: to, Target: "copy/", Sources: []treecopy.Source{{Tree: from, Name: "d"}}, Options: recursive, Hooks: hooks}
			r, err := treecopy.Copy(ctx, j)
			if !errors.Is(err, context.Canceled) || r.Failed != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			begun.Range(func(i, _ any) bool {
				t.Errorf("%s has no outcome", i.(*treecopy.Item).From)
				return true
			})
			for name, text := range contents(t, dest, false) {
				from := strings.TrimPrefix(name, "copy/")
				fi, err := bad.Tree.Stat(t.Context(), from)
				if err != nil && name != "copy" {
					t.Error(err)
				}
				if err == nil && !fi.IsDir() && text != describe(t, bad.Tree, from, fi, false) {
					t.Errorf("%s is %s", name, text)
				}
			}
		}
		gone, stop := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		stop(why)
		if _, _, err := copyAll(gone, from, to, "none/", recursive, "d"); !errors.Is(err, why) {
			t.Errorf("with a context that had ended: %v", err)
		}
	})
}

// A fatal error ends everything, and names its entry.
func TestFatal(t *testing.T) {
	bad := &faulty{Tree: store.Mem(0), open: map[string]error{}}
	gone := errors.New("gone")
	for i := range 5000 {
		name := fmt.Sprintf("d/%d", i)
		put(t, bad, name, nil)
		bad.open[name] = gone
	}
	o := recursive
	o.Fatal = func(err error) bool { return errors.Is(err, gone) }
	r, _, err := copyAll(t.Context(), bad, store.Mem(0), ".", o, "d")
	e, ok := errors.AsType[*treecopy.EntryError](err)
	if !ok || !errors.Is(err, gone) || !strings.HasPrefix(e.From, "d/") || r.Failed > 100 {
		t.Errorf("%+v, %v", r, err)
	}
}

// An error before the copy was ended is not lost.
func TestFailedBeforeTheEnd(t *testing.T) {
	from := &faulty{Tree: store.Mem(0), open: map[string]error{}}
	bad := errors.New("bad")
	for i := range 500 {
		name := fmt.Sprintf("d/%d", i)
		put(t, from, name, nil)
		from.open[name] = bad
	}
	for _, fatal := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		var failed, asked atomic.Int64
		j := treecopy.Job{Sources: []treecopy.Source{{Tree: from, Name: "d"}}, To: store.Mem(0), Options: recursive}
		if fatal {
			j.Options.Fatal = func(error) bool { return asked.Add(1) == 3 }
		}
		j.Hooks.Ended = func(_ *treecopy.Item, o treecopy.Outcome) {
			if o.What == treecopy.Failed && failed.Add(1) == 3 && !fatal {
				cancel()
			}
		}
		r, err := treecopy.Copy(ctx, j)
		cancel()
		e, ok := errors.AsType[*treecopy.IncompleteError](err)
		if !ok || !errors.Is(err, bad) || e.Failed != r.Failed || errors.Is(err, context.Canceled) == fatal {
			t.Errorf("fatal %v: %+v, %v", fatal, r, err)
		} else if want := min(r.Failed, treecopy.MaxErrors); fatal && int64(len(e.Errors)) != want || !fatal && int64(len(e.Errors)) != want+1 {
			t.Errorf("fatal %v: %d errors of %d", fatal, len(e.Errors), r.Failed)
		} else if failed.Load() != r.Failed { // errors after the end count as unfinished
			t.Errorf("fatal %v: the hook got %d failed entries of %d", fatal, failed.Load(), r.Failed)
		}
	}
}

// In place, a longer file is truncated, and links and devices stay unchanged.
func TestInPlace(t *testing.T) {
	to, dir := dirTree(t)
	from := store.Mem(0)
	put(t, from, "f", []byte("new"))
	put(t, to, "f", []byte("old and longer"))
	before, err := os.Stat(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	o := treecopy.Options{InPlace: true, Durable: true, Verify: true}
	if r, s, err := copyAll(t.Context(), from, to, ".", o, "f"); err != nil || r.Bytes != 3 || !s.outcomes["f"].Verified {
		t.Errorf("%+v, %v", r, err)
	}
	after, err := os.Stat(filepath.Join(dir, "f"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("it is another file: %v", err)
	}
	wantBytes(t, to, "f", []byte("new"))
}
