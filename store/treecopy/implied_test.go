package treecopy_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// An implier is a tree whose directories come with their files.
type implier struct {
	*store.MemStore
	t *testing.T
}

func (implier) ImpliesDirs() bool { return true }

func (i implier) Mkdir(_ context.Context, name string, _ fs.FileMode) error {
	i.t.Errorf("it is asked to make %s", name)
	return errors.ErrUnsupported
}

func (i implier) SetAttr(_ context.Context, name string, _ store.Attr, _ bool) error {
	i.t.Errorf("it is asked to set the attributes of %s", name)
	return errors.ErrUnsupported
}

// Directories that come with their files are not made, wherever the copy lands, and
// those without files are left out and reported.
func TestImpliedDirectories(t *testing.T) {
	from := world(t)
	mkdir(t, from, "dir/deep/empty")
	setMode(t, from, "dir/sub", 0o555)
	for _, c := range []struct {
		source, target, top string
		made                int64
	}{
		{"dir", "new", "new", 3}, // it, sub and .dot
		{"dir", "new/er", "new/er", 3},
		{"dir", "new/", "new/dir", 3},
		{"dir/.", "new/", "new", 3},
	} {
		for _, o := range []treecopy.Options{{}, {Continue: true}, {DryRun: true}} {
			to := implier{store.Mem(0), t}
			o.Recursive = true
			r, s, err := copyAll(t.Context(), from, to, c.target, o, c.source)
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
	// Directories that are there are entered, and reported to be there.
	to := implier{store.Mem(0), t}
	put(t, to.MemStore, "dir/sub/y", []byte("old"))
	r, s, err := copyAll(t.Context(), from, to, ".", recursive, "dir")
	if err != nil || r.Copied != 4 || r.Made != 1 || s.outcomes["dir"].What != treecopy.Present || s.outcomes["dir/.dot"].What != treecopy.Made {
		t.Errorf("%+v, %v, %v", r, s.outcomes, err)
	}
	wantBytes(t, to, "dir/sub/y", []byte("this is dir/sub/y"))
}

// A directory that cannot be listed has failed, and is reported once.
func TestImpliedUnlisted(t *testing.T) {
	from := &faulty{Tree: world(t), list: map[string]error{"dir/sub": fs.ErrPermission}}
	r, s, err := copyAll(t.Context(), from, implier{store.Mem(0), t}, "new", recursive, "dir")
	if !errors.Is(err, fs.ErrPermission) || r.Failed != 1 || r.Skipped != 1 || s.outcomes["dir/sub"].What != treecopy.Failed {
		t.Errorf("%+v, %v, %v", r, s.outcomes, err)
	}
}

// A directory of which no file could be copied was not made.
func TestImpliedWithoutFiles(t *testing.T) {
	from := &faulty{Tree: world(t), open: map[string]error{"dir/sub/y": fs.ErrPermission, "dir/sub/z.log": fs.ErrPermission}}
	r, s, err := copyAll(t.Context(), from, implier{store.Mem(0), t}, "new", recursive, "dir")
	if r.Copied != 2 || r.Failed != 2 || s.outcomes["dir"].What != treecopy.Made || s.outcomes["dir/.dot"].What != treecopy.Made {
		t.Errorf("%+v, %v, %v", r, s.outcomes, err)
	}
	if got, ok := s.outcomes["dir/sub"]; ok {
		t.Errorf("dir/sub is %+v, and none of its files was copied", got)
	}
}
