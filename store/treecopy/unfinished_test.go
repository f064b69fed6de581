package treecopy_test

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// newName returns the trees to copy "d" from and to, their underlying trees, of which the source
// has some files, and the directory of the target.
func newName(t *testing.T, kind string) (from, to, source, target store.Tree, dir string) {
	local, _ := dirTree(t)
	put(t, local, "d/large", pattern(8<<20, 1))
	put(t, local, "d/below/small", pattern(1000, 2))
	put(t, local, "other/small", pattern(1000, 3))
	then := time.Unix(1_000_000_000, 0)
	for _, name := range []string{"d/large", "d/below/small", "d/below", "d"} {
		setTime(t, local, name, then)
	}
	dest, dir := dirTree(t)
	source, target = local, dest
	switch kind {
	case "download":
		source = remoteTree(t, local, false)
	case "upload":
		target = remoteTree(t, dest, false)
	case "hidden upload":
		target = remoteTree(t, dest, true)
	}
	return local, dest, source, target, dir
}

// A directory that becomes the target becomes the target again when the copy is resumed, only for
// the same source, and until it is finished.
func TestContinueDirectory(t *testing.T) {
	for _, kind := range []string{"local", "download", "upload", "hidden upload"} {
		t.Run(kind, func(t *testing.T) {
			from, to, source, target, dir := newName(t, kind)
			interrupt := func(name string) {
				t.Helper()
				ctx, hooks := stopAfter(t, 3<<20)
				_, err := treecopy.Copy(ctx, treecopy.Job{Sources: []treecopy.Source{{Tree: source, Name: name}}, To: target, Target: "new",
					Options: continued, Hooks: hooks})
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			}
			whole := func() map[string]string {
				want := map[string]string{}
				for name, text := range contents(t, from, true) {
					if path.Dir(name) == "d" || name == "d/below/small" {
						want["new"+name[1:]] = text
					}
				}
				want["new"] = contents(t, from, true)["d"]
				return want
			}
			interrupt("d")
			interrupt("d/.")
			dry := continued
			dry.DryRun = true
			if r, _, err := copyAll(t.Context(), source, target, "new", dry, "d"); err != nil || r.Made > 0 {
				t.Errorf("dry run: %+v, %v", r, err)
			}
			r, _, err := copyAll(t.Context(), source, target, "new", continued, "d")
			if err != nil || r.Resumed == 0 {
				t.Errorf("%+v, %v", r, err)
			}
			wantSame(t, whole(), contents(t, to, true))
			wantNothingLeft(t, dir)

			// Once finished, it is a directory like any other.
			if _, _, err := copyAll(t.Context(), source, target, "new", continued, "d"); err != nil {
				t.Error(err)
			}
			if _, err := to.Stat(t.Context(), "new/d/large"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A different copy goes below the directory, as usual.
func TestContinueDirectoryElse(t *testing.T) {
	plain := continued
	plain.Continue = false
	for _, c := range []struct {
		name, source, target, origin string
		o                            treecopy.Options
		lands                        string
	}{
		{"again", "d", "new", "here", continued, "new/large"},
		{"without Continue", "d", "new", "here", plain, "new/d/large"},
		{"another source", "other", "new", "here", continued, "new/other/small"},
		{"another tree", "d", "new", "there", continued, "new/d/large"},
		{"a slash", "d", "new/", "here", continued, "new/d/large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, to, source, target, _ := newName(t, "local")
			ctx, hooks := stopAfter(t, 3<<20)
			job := treecopy.Job{Sources: []treecopy.Source{{Tree: source, Name: "d", Origin: "here"}}, To: target, Target: "new",
				Options: continued, Hooks: hooks}
			if _, err := treecopy.Copy(ctx, job); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			job.Sources[0].Name, job.Sources[0].Origin = c.source, c.origin
			job.Target, job.Options, job.Hooks = c.target, c.o, treecopy.Hooks{}
			if _, err := treecopy.Copy(t.Context(), job); err != nil {
				t.Error(err)
			}
			if _, err := to.Stat(t.Context(), c.lands); err != nil {
				t.Error(err)
			}
		})
	}
}

// A source that its owner may not write to passes its mode to the directory that becomes the
// target, in one run and in two.
func TestContinueDirectoryMode(t *testing.T) {
	for _, kind := range []string{"local", "upload"} {
		for _, cut := range []bool{false, true} {
			from, to, source, target, dir := newName(t, kind)
			mode := fs.FileMode(0o555)
			if err := from.SetAttr(t.Context(), "d", store.Attr{Mode: &mode}, true); err != nil {
				t.Fatal(err)
			}
			o := continued
			o.PreserveMode = true
			if cut {
				ctx, hooks := stopAfter(t, 3<<20)
				job := treecopy.Job{Sources: []treecopy.Source{{Tree: source, Name: "d"}}, To: target, Target: "new", Options: o, Hooks: hooks}
				if _, err := treecopy.Copy(ctx, job); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			}
			if _, _, err := copyAll(t.Context(), source, target, "new", o, "d"); err != nil {
				t.Errorf("%s, cut %v: %v", kind, cut, err)
			}
			fi, err := to.Stat(t.Context(), "new")
			if err != nil || fi.Mode().Perm() != mode {
				t.Errorf("%s, cut %v: mode %v, %v", kind, cut, fi.Mode(), err)
			}
			wantNothingLeft(t, dir)
			mode = 0o755 // so that it can be removed
			for name, tree := range map[string]store.Tree{"d": from, "new": to} {
				if err := tree.SetAttr(t.Context(), name, store.Attr{Mode: &mode}, true); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// Entries that failed leave the directory unfinished.
func TestContinueDirectoryFailed(t *testing.T) {
	from, to, source, target, dir := newName(t, "local")
	bad := &faulty{Tree: source, open: map[string]error{"d/large": fs.ErrPermission}}
	if _, _, err := copyAll(t.Context(), bad, target, "new", continued, "d"); err == nil {
		t.Error("no error")
	}
	if _, _, err := copyAll(t.Context(), source, target, "new", continued, "d"); err != nil {
		t.Error(err)
	}
	want, got := contents(t, from, true)["d/large"], contents(t, to, true)
	if got["new/large"] != want || got["new/d"] != "" {
		t.Errorf("it has not landed in the same place: %d entries", len(got))
	}
	wantNothingLeft(t, dir)
}

// A dying tree accepts some changes, and then none.
type dying struct {
	store.Tree
	left int
}

var errDead = errors.New("dead")

func (d *dying) takes() error {
	if d.left--; d.left < 0 {
		return errDead
	}
	return nil
}

func (d *dying) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	if err := d.takes(); err != nil {
		return err
	}
	return d.Tree.Mkdir(ctx, name, perm)
}

func (d *dying) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if err := d.takes(); err != nil {
		return nil, err
	}
	return d.Tree.OpenFile(ctx, name, a)
}

func (d *dying) Rename(ctx context.Context, from, to string, replace bool) error {
	if err := d.takes(); err != nil {
		return err
	}
	return d.Tree.Rename(ctx, from, to, replace)
}

func (d *dying) Remove(ctx context.Context, name string) error {
	if err := d.takes(); err != nil {
		return err
	}
	return d.Tree.Remove(ctx, name)
}

func (d *dying) RemoveDir(ctx context.Context, name string) error {
	if err := d.takes(); err != nil {
		return err
	}
	return d.Tree.RemoveDir(ctx, name)
}

func (d *dying) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if err := d.takes(); err != nil {
		return nil, err
	}
	return d.Tree.Create(ctx, name, c)
}

func (d *dying) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	if err := d.takes(); err != nil {
		return err
	}
	return d.Tree.SetAttr(ctx, name, a, follow)
}

// Whenever a process is killed, the next one resumes at the same name, and leaves nothing else
// behind.
func TestContinueDirectoryKilled(t *testing.T) {
	for _, kind := range []string{"local", "upload"} {
		for n := 0; ; n++ {
			from, to, source, target, dir := newName(t, kind)
			dead := &dying{target, n}
			o := continued
			o.Parallel = 1
			o.Fatal = func(err error) bool { return errors.Is(err, errDead) }
			_, _, err := copyAll(t.Context(), source, dead, "new", o, "other")
			marks, _ := filepath.Glob(filepath.Join(dir, "new", ".haul-*"))
			if _, e := to.Stat(t.Context(), "new/small"); e == nil && len(marks) == 0 {
				// Everything is copied. Only the directory's times may be missing.
				if n < 4 {
					t.Errorf("%s: it takes %d changes, %v", kind, n, err)
				}
				break
			}
			if _, _, err := copyAll(t.Context(), source, target, "new", continued, "other"); err != nil {
				t.Errorf("%s, killed after %d changes: %v", kind, n, err)
			}
			got, want := contents(t, to, false), contents(t, from, false)
			if len(got) != 2 || got["new/small"] != want["other/small"] {
				t.Errorf("%s, killed after %d changes: there are %d entries", kind, n, len(got))
			}
			wantNothingLeft(t, dir)
		}
	}
}

// A user who may not rename a directory gets one without a checkpoint.
func TestContinueDirectoryUploadOnly(t *testing.T) {
	from, to, _, _, dir := newName(t, "local")
	target := remoteTree(t, store.UploadOnly(to), false)
	if _, _, err := copyAll(t.Context(), from, target, "new", continued, "other"); err != nil {
		t.Error(err)
	}
	if got := contents(t, to, false); len(got) != 2 || got["new/small"] == "" {
		t.Errorf("there are %d entries", len(got))
	}
	wantNothingLeft(t, dir)
}
