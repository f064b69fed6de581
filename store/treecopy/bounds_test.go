package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// An endless tree has files, directories and links in each of its directories.
type endless struct {
	store.Tree
	dir, file, link fs.FileInfo
}

type renamed struct {
	fs.FileInfo
	name string
}

func (r renamed) Name() string { return r.name }

func newEndless(t *testing.T) *endless {
	t.Helper()
	m := store.Mem(0)
	e := &endless{Tree: m}
	u, err := m.Create(t.Context(), "file", store.Create{})
	if err == nil {
		err = u.Commit()
	}
	if err == nil {
		err = m.Mkdir(t.Context(), "dir", 0o755)
	}
	if err == nil {
		err = m.Symlink(t.Context(), "file", "link")
	}
	for name, fi := range map[string]*fs.FileInfo{"file": &e.file, "dir": &e.dir, "link": &e.link} {
		if err == nil {
			*fi, err = m.Lstat(t.Context(), name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *endless) entries() []fs.FileInfo {
	list := []fs.FileInfo{e.file, e.link}
	for i := range 10 {
		list = append(list, renamed{e.dir, fmt.Sprint(i)})
	}
	return list
}

func (e *endless) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return e.dir, nil
}

func (e *endless) OpenDir(context.Context, string) (store.Entries, error) {
	return &listed{list: e.entries()}, nil
}

type listed struct{ list []fs.FileInfo }

func (l *listed) Next(into []fs.FileInfo) (int, error) {
	n := copy(into, l.list)
	if l.list = l.list[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (l *listed) Close() error { return nil }

// An endless tree is copied up to a bound of its directories, and the error is reported once.
// Directories that are being made when the copy ends may be missing.
func TestEndlessDirectories(t *testing.T) {
	const most = 1000
	e := newEndless(t)
	for _, dry := range []bool{false, true} {
		j := Job{Sources: []Source{{Tree: e, Name: "top"}}, To: store.Mem(0), Options: Options{Recursive: true, MaxDirs: most, DryRun: dry}}
		r, err := Copy(t.Context(), j)
		if !errors.Is(err, errTooManyDirs) || !strings.Contains(err.Error(), fmt.Sprint(most+1)) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("dry %v: %v", dry, err)
		}
		if r.Made > most || r.Made <= most-listsAtOnce {
			t.Errorf("dry %v: %d directories were made", dry, r.Made)
		}
	}
}

// Waiting directories and links are counted for all directories together, until they are copied.
// The files among them are copied nevertheless.
func TestSetAside(t *testing.T) {
	for _, full := range []bool{false, true} {
		e := newEndless(t)
		j := Job{To: store.Mem(0), Options: Options{Recursive: true, Links: KeepLinks, DryRun: true}}
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		c, err := newCopier(ctx, stop, &j)
		if err != nil {
			t.Fatal(err)
		}
		if full {
			c.closer.waiting.n.Store(maxWaiting - 3)
		}
		of := newTree(e)
		d := &dir{source: &start{tree: of}, tree: of, from: "top", to: "top"}
		list := append(e.entries(), renamed{e.file, "another file"})
		b := &batch{dir: d, names: newListedNames(false)}
		c.walker.take(b, list)
		files := len(c.queue.small)
		if wrong := errors.Is(b.full, fs.ErrInvalid); wrong != full || files != 2 || c.report.sums.Found.Files != 2 {
			t.Errorf("full %v: %d files, %v", full, files, b.full)
		}
		if want := map[bool]int{true: 2, false: 10}[full]; len(b.below) != want || len(d.links) != 1 {
			t.Errorf("full %v: %d directories and %d links", full, len(b.below), len(d.links))
		}
	}
}

// After a copy, no directories or links count as waiting any more.
func TestNothingStaysAside(t *testing.T) {
	from := store.Mem(0)
	for _, name := range []string{"d", "d/a", "d/a/b", "d/c"} {
		if err := from.Mkdir(t.Context(), name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := from.Symlink(t.Context(), "nowhere", name+"/link"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	j := Job{Sources: []Source{{Tree: from, Name: "d"}}, To: store.Mem(0), Options: Options{Recursive: true, Links: KeepLinks}}
	c, err := newCopier(ctx, stop, &j)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(j); err != nil || c.report.err(nil) != nil || c.report.sums.Copied != 4 || c.report.sums.Made != 4 {
		t.Errorf("%+v, %v, %v", c.report.sums, err, c.report.err(nil))
	}
	if n := c.closer.waiting.n.Load(); n != 0 {
		t.Errorf("%d are still counted as waiting", n)
	}
}
