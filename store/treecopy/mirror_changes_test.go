package treecopy_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A changing tree changes when its root is listed for the first time, before the listing has
// returned any entries.
type changing struct {
	store.Tree
	once   sync.Once
	change func()
}

func (c *changing) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	e, err := c.Tree.OpenDir(ctx, name)
	if err != nil || name != "." {
		return e, err
	}
	return &changingEntries{Entries: e, c: c}, nil
}

type changingEntries struct {
	store.Entries
	c    *changing
	list []fs.FileInfo
	err  error // the error that ended the real listing; nil until the listing has been read
}

func (e *changingEntries) Next(into []fs.FileInfo) (int, error) {
	for e.err == nil {
		var n int
		n, e.err = e.Entries.Next(into)
		e.list = append(e.list, into[:n]...)
	}
	e.c.once.Do(e.c.change)
	n := copy(into, e.list)
	if e.list = e.list[n:]; n > 0 {
		return n, nil
	}
	return 0, e.err
}

// replace replaces an entry by another one, written as for grow.
func replace(t *testing.T, tree store.Tree, name string, with ...string) {
	t.Helper()
	if tree.Remove(t.Context(), name) != nil && tree.RemoveDir(t.Context(), name) != nil {
		t.Errorf("%s cannot be removed", name)
	}
	grow(t, tree, with...)
}

// eachChanging calls f with each pair of a source and a target, local or remote, that change when
// they are listed.
func eachChanging(t *testing.T, f func(t *testing.T, source, dest *changing, from, to store.Tree)) {
	for _, way := range []string{"local", "download", "upload"} {
		t.Run(way, func(t *testing.T) {
			sourceTree, _ := dirTree(t)
			destTree, _ := dirTree(t)
			source, dest := &changing{Tree: sourceTree, change: func() {}}, &changing{Tree: destTree, change: func() {}}
			from, to := store.Tree(source), store.Tree(dest)
			switch way {
			case "local":
				to = destTree // because the target is opened as a part of itself
			case "download":
				from, to = remoteTree(t, source, false), destTree
			case "upload":
				to = remoteTree(t, dest, false)
			}
			f(t, source, dest, from, to)
		})
	}
}

// An entry that vanishes from the source while it is copied, or changes its kind, is an error. Then
// nothing is deleted, and no incomplete file has a name. The next run makes the target the same as
// the source is by then.
func TestSourceChangesMeanwhile(t *testing.T) {
	eachChanging(t, func(t *testing.T, source, dest *changing, from, to store.Tree) {
		grow(t, source.Tree, "fine", "gone", "now-dir", "now-link", "dir-gone/", "dir-now-file/", "dir-now-link/", "link>fine", "in-way/x", "other/y")
		grow(t, dest.Tree, "old", "gone-old/x", "in-way")
		source.change = func() {
			replace(t, source.Tree, "gone")
			replace(t, source.Tree, "now-dir", "now-dir/x")
			replace(t, source.Tree, "now-link", "now-link>nowhere")
			replace(t, source.Tree, "dir-gone")
			replace(t, source.Tree, "dir-now-file", "dir-now-file")
			replace(t, source.Tree, "dir-now-link", "dir-now-link>nowhere")
			replace(t, source.Tree, "link", "link/z")
			replace(t, source.Tree, "in-way/x")
			replace(t, source.Tree, "in-way")
		}
		r, s, err := copyAll(t.Context(), from, to, "./", mirroring(), ".")
		if err == nil || r.Deleted != 0 || r.Undeleted == 0 || s.outcomes["fine"].Err != nil {
			t.Errorf("%+v, %v, %+v", r, err, s.outcomes)
		}
		for _, name := range []string{"gone", "now-dir", "now-link", "dir-gone", "dir-now-file", "dir-now-link", "link", "in-way"} {
			if s.outcomes[name].What != treecopy.Failed {
				t.Errorf("%s: %+v", name, s.outcomes[name])
			}
		}
		if got := namesIn(t, dest.Tree); got != "fine gone-old/ gone-old/x in-way old other/ other/y" {
			t.Errorf("the target has %s", got)
		}
		if r, _, err := copyAll(t.Context(), from, to, "./", mirroring(), "."); err != nil {
			t.Errorf("again: %+v, %v", r, err)
		}
		wantSame(t, contents(t, source.Tree, false), contents(t, dest.Tree, false))
	})
}

// Nothing is written or deleted through an entry that replaces a file of the target after that was
// listed.
func TestTargetChangesMeanwhile(t *testing.T) {
	tree, _ := dirTree(t)
	source := &changing{Tree: store.Mem(0)}
	grow(t, source.Tree, "a", "b", "c", "d/x", "e")
	grow(t, tree, "d/old", "victim")
	for _, name := range []string{"a", "b", "c"} {
		put(t, tree, name, []byte("older"))
	}
	source.change = func() { // the target is already listed
		replace(t, tree, "a", "a>victim")
		replace(t, tree, "b", "b/y")
		replace(t, tree, "c")
		grow(t, tree, "e>victim")
	}
	o := mirroring()
	o.Filter = rulesOf(t, "- /victim")
	r, s, err := copyAll(t.Context(), source, tree, "./", o, ".")
	if !errors.Is(err, treecopy.ErrConflict) || r.Deleted != 0 || r.Failed != 3 || s.outcomes["c"].What != treecopy.Copied {
		t.Errorf("%+v, %v, %+v", r, err, s.outcomes)
	}
	wantBytes(t, tree, "victim", []byte("victim"))
	if r, _, err = copyAll(t.Context(), source, tree, "./", o, "."); err != nil {
		t.Errorf("again: %+v, %v", r, err)
	}
	if got := namesIn(t, tree); got != "a b c d/ d/x e victim" {
		t.Errorf("the target has %s", got)
	}
	wantBytes(t, tree, "victim", []byte("victim"))
}

// A target that becomes full while files are copied keeps its files, and nothing is deleted to make
// room.
func TestFullMeanwhile(t *testing.T) {
	for _, remote := range []bool{false, true} {
		source, full := store.Mem(0), store.Mem(1<<20)
		for name := range strings.SplitSeq("abcdefgh", "") {
			put(t, source, name, pattern(200_000, 1))
		}
		put(t, full, "old", pattern(200_000, 2))
		put(t, full, "c", pattern(100, 3))
		to := full
		if remote {
			to = remoteTree(t, full, false)
		}
		r, _, err := copyAll(t.Context(), source, to, "./", mirroring(), ".")
		if !errors.Is(err, store.ErrNoSpace) || r.Deleted != 0 || r.Undeleted != 1 || r.Copied > 4 {
			t.Errorf("remote %v: %+v, %v", remote, r, err)
		}
		wantBytes(t, full, "old", pattern(200_000, 2))
		for name := range contents(t, full, false) {
			fi, err := full.Stat(t.Context(), name)
			if err != nil || fi.Size() != 200_000 && (name != "c" || fi.Size() != 100) {
				t.Errorf("remote %v: of %s there are %d bytes, %v", remote, name, fi.Size(), err)
			}
		}
	}
}
