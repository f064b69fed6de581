package treecopy_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// mirroring returns the options of a sync that may delete anything.
func mirroring() treecopy.Options {
	return treecopy.Options{Recursive: true, Unchanged: treecopy.SizeAndTime, FileTimes: true, Links: treecopy.KeepLinks, Delete: &treecopy.Deletion{Max: -1}}
}

func rulesOf(t *testing.T, text string) *treecopy.Filter {
	t.Helper()
	r := new(treecopy.Filter)
	if err := r.AddText(text); err != nil {
		t.Fatal(err)
	}
	return r
}

// grow makes files, whose content is their name; directories, whose names end in a slash; and
// links, written as NAME>TEXT. All have the same time.
func grow(t testing.TB, tree store.Tree, names ...string) {
	t.Helper()
	for _, name := range names {
		if link, text, ok := strings.Cut(name, ">"); ok {
			mkdir(t, tree, path.Dir(link))
			if err := tree.Symlink(t.Context(), text, link); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			mkdir(t, tree, dir)
			continue
		}
		put(t, tree, name, []byte(name))
		setTime(t, tree, name, time.Unix(1_500_000_000, 0))
	}
}

// namesIn returns the names in a tree, sorted. The name of a directory ends in a slash.
func namesIn(t testing.TB, tree store.Tree) string {
	t.Helper()
	var names []string
	for name, text := range contents(t, tree, false) {
		if text[0] == 'd' {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// eachMirror calls f with each kind of target, and a source in memory that may be behind a server.
func eachMirror(t *testing.T, f func(t *testing.T, from, to, source, dest store.Tree)) {
	for _, way := range []string{"local", "memory", "download", "upload"} {
		t.Run(way, func(t *testing.T) {
			source, dest := store.Mem(0), store.Mem(0)
			if way != "memory" {
				dest, _ = dirTree(t)
			}
			from, to := source, dest
			switch way {
			case "download":
				from = remoteTree(t, source, false)
			case "upload":
				to = remoteTree(t, dest, true)
			}
			f(t, from, to, source, dest)
		})
	}
}

// The target becomes the same as the source. Files that a filter excludes stay, with the
// directories that contain them; with Excluded they are removed too.
func TestMirror(t *testing.T) {
	source := []string{"new", "same", "d/new", "d/same", "empty/", "link>same", "file-now", "dir-now/x", "link-now>x", "skipped.o"}
	target := []string{"same", "d/same", "d/old", "old", "gone/a/b", "gone/c", "oldlink>same", "file-now/sub/y", "dir-now", "link-now/z",
		"skipped.o", "old.o", "d/old.o", "half/old.o", "half/old", "case>nowhere"}
	base := "d/ d/new d/same dir-now/ dir-now/x empty/ file-now link link-now new same"
	tests := []struct {
		name     string
		rules    string
		excluded bool
		want     string
		deleted  int64
	}{
		{"all", "", false, base + " skipped.o", 19},
		{"filtered", "- *.o", false, base + " d/old.o half/ half/old.o old.o skipped.o", 15},
		{"excluded too", "- *.o", true, base, 20},
	}
	eachMirror(t, func(t *testing.T, from, to, from0, dest store.Tree) {
		grow(t, from0, source...)
		for _, test := range tests {
			grow(t, dest, "t/")
			for _, name := range target {
				grow(t, dest, "t/"+name)
			}
			o := mirroring()
			o.Filter, o.Delete.Excluded = rulesOf(t, test.rules), test.excluded
			dry := o
			dry.DryRun = true
			before := contents(t, dest, true)
			d, _, err := copyAll(t.Context(), from, to, "t/", dry, ".")
			if err != nil || d.Deleted != test.deleted {
				t.Errorf("%s, dry: %+v, %v", test.name, d, err)
			}
			wantSame(t, before, contents(t, dest, true))
			r, s, err := copyAll(t.Context(), from, to, "t/", o, ".")
			if err != nil || r.Deleted != test.deleted || r.Failed != 0 {
				t.Errorf("%s: %+v, %v, %+v", test.name, r, err, s.outcomes)
			}
			if d.Copied != r.Copied || d.Made != r.Made || d.Same != r.Same {
				t.Errorf("%s: a dry run says %+v, and it is %+v", test.name, d, r)
			}
			wantPaths(t, dest, test.want)
			r, _, err = copyAll(t.Context(), from, to, "t/", o, ".")
			if err != nil || r.Copied != 0 || r.Deleted != 0 {
				t.Errorf("%s, again: %+v, %v", test.name, r, err)
			}
			r, _, err = copyAll(t.Context(), store.Mem(0), to, "t/", treecopy.Options{Recursive: true, Delete: &treecopy.Deletion{Max: -1, EmptySource: true}}, ".")
			if err != nil || r.Deleted == 0 {
				t.Errorf("%s, to clean up: %+v, %v", test.name, r, err)
			}
		}
	})
}

// wantPaths compares the names below "t".
func wantPaths(t *testing.T, dest store.Tree, want string) {
	t.Helper()
	list := strings.Fields(want)
	slices.Sort(list)
	got := strings.TrimPrefix(namesIn(t, dest), "t/ ")
	if got = strings.ReplaceAll(" "+got, " t/", " ")[1:]; got != strings.Join(list, " ") {
		t.Errorf("the target has\n%s, want\n%s", got, strings.Join(list, " "))
	}
}

// Nothing is deleted if anything has failed, or if the deletion is probably a mistake.
func TestNothingDeleted(t *testing.T) {
	tests := []struct {
		name    string
		source  []string
		change  func(o *treecopy.Options, bad *faulty)
		want    error
		copied  string
		deleted int64
	}{
		{"a directory cannot be listed", []string{"a", "d/x"}, func(_ *treecopy.Options, bad *faulty) { bad.list = map[string]error{"d": fs.ErrPermission} }, fs.ErrPermission, "a", 0},
		{"a file cannot be read", []string{"a", "b"}, func(_ *treecopy.Options, bad *faulty) { bad.open = map[string]error{"b": fs.ErrPermission} }, fs.ErrPermission, "a", 0},
		{"a file is gone since it was listed", []string{"a", "b"}, func(_ *treecopy.Options, bad *faulty) { bad.open = map[string]error{"b": fs.ErrNotExist} }, fs.ErrNotExist, "a", 0},
		{"whether the source has a file is not known", []string{"a"}, func(_ *treecopy.Options, bad *faulty) { bad.lstat = map[string]error{"old": fs.ErrPermission} }, fs.ErrPermission, "a", 0},
		{"the source is empty", nil, nil, treecopy.ErrEmptySource, "", 0},
		{"more than may be", []string{"a"}, func(o *treecopy.Options, _ *faulty) { o.Delete.Max = 4 }, treecopy.ErrTooManyDeletions, "a", 0},
		{"as many as may be", []string{"a"}, func(o *treecopy.Options, _ *faulty) { o.Delete.Max = 5 }, nil, "a", 5},
		{"none may be", []string{"a"}, func(o *treecopy.Options, _ *faulty) { o.Delete = &treecopy.Deletion{} }, treecopy.ErrTooManyDeletions, "a", 0},
	}
	for _, test := range tests {
		eachWay(t, func(t *testing.T, bad *faulty, from, to, dest store.Tree) {
			grow(t, bad.Tree, test.source...)
			grow(t, dest, "old", "d/old", "gone/old")
			o := mirroring()
			if test.change != nil {
				test.change(&o, bad)
			}
			r, _, err := copyAll(t.Context(), from, to, ".", o, ".")
			if !errors.Is(err, test.want) || r.Deleted != test.deleted || test.want != nil && !errors.Is(err, treecopy.ErrEmptySource) && !errors.Is(err, treecopy.ErrTooManyDeletions) && r.Undeleted == 0 {
				t.Errorf("%s: %+v, %v", test.name, r, err)
			}
			want := "d/ d/old gone/ gone/old old"
			if test.deleted > 0 {
				want = ""
			}
			if got := strings.TrimSpace(strings.TrimPrefix(namesIn(t, dest), test.copied)); got != want {
				t.Errorf("%s: the target has %s, want %s and %s", test.name, got, test.copied, want)
			}
		})
	}
}

// If the target is full, nothing is deleted to make room.
func TestMirrorFull(t *testing.T) {
	source, dest := store.Mem(0), store.Mem(300_000)
	put(t, source, "big", pattern(200_000, 1))
	put(t, dest, "old", pattern(200_000, 2))
	r, _, err := copyAll(t.Context(), source, dest, "./", mirroring(), ".")
	if !errors.Is(err, store.ErrNoSpace) || r.Undeleted != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := namesIn(t, dest); got != "old" {
		t.Errorf("the target has %s", got)
	}
}

// NoClobber leaves every existing entry unchanged, even if it was created after the target was
// examined.
func TestNoClobber(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		source, dest := store.Mem(0), &racing{Tree: store.Mem(0)}
		grow(t, source, "file", "late", "link>file", "dir", "new")
		grow(t, dest.Tree, "file>x", "link", "dir/")
		o := treecopy.Options{Recursive: true, NoClobber: true, InPlace: inPlace, Links: treecopy.KeepLinks}
		r, s, err := copyAll(t.Context(), source, dest, "./", o, ".")
		if err != nil || r.Existing != 4 || r.Copied != 1 || s.outcomes["late"].What != treecopy.Existing {
			t.Errorf("in place: %v: %+v, %v, %+v", inPlace, r, err, s.outcomes)
		}
		wantBytes(t, dest.Tree, "late", []byte("other"))
		if got := namesIn(t, dest.Tree); got != "dir/ file late link new" {
			t.Errorf("the target has %s", got)
		}
	}
}

// A racing tree has another program create the file named late at the moment when it is written.
type racing struct{ store.Tree }

func (r *racing) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := r.Tree.Create(ctx, name, c)
	return u, errors.Join(err, r.race(ctx, name))
}

func (r *racing) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if err := r.race(ctx, name); err != nil {
		return nil, err
	}
	return r.Tree.OpenFile(ctx, name, a)
}

func (r *racing) race(ctx context.Context, name string) error {
	if name != "late" {
		return nil
	}
	u, err := r.Tree.Create(ctx, name, store.Create{})
	if err != nil {
		return err
	}
	if _, err = u.WriteAt([]byte("other"), 0); err != nil {
		return err
	}
	return u.Commit()
}

// A copy of anything but one directory deletes nothing.
func TestMirrorOfOneDirectory(t *testing.T) {
	tree := store.Mem(0)
	grow(t, tree, "f", "d/x", "e/y", "t/")
	for _, names := range [][]string{{"f"}, {"d"}, {"d/.", "e/."}, {"*"}} {
		if r, _, err := copyAll(t.Context(), tree, tree, "t/", mirroring(), names...); !errors.Is(err, fs.ErrInvalid) || r.Deleted+r.Copied > 0 {
			t.Errorf("%q: %+v, %v", names, r, err)
		}
	}
	o := mirroring()
	o.NoClobber = true
	if _, _, err := copyAll(t.Context(), tree, tree, "t/", o, "d/."); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("with NoClobber: %v", err)
	}
}

// A file that moved is renamed in the target if both sides can compare the content; otherwise it is
// copied.
func TestMoved(t *testing.T) {
	eachMirror(t, func(t *testing.T, from, to, source, dest store.Tree) {
		big := pattern(200_000, 1)
		other := pattern(200_000, 2)
		for name, data := range map[string][]byte{"new/deep/big": big, "other": other, "small": []byte("1")} {
			put(t, source, name, data)
		}
		for name, data := range map[string][]byte{"old/big": big, "was": pattern(200_000, 3), "tiny": []byte("1")} {
			put(t, dest, name, data)
		}
		for _, tree := range []store.Tree{source, dest} {
			for name := range contents(t, tree, false) {
				setTime(t, tree, name, time.Unix(1_500_000_000, 0))
			}
		}
		o := mirroring()
		o.DryRun = true
		if r, _, err := copyAll(t.Context(), from, to, "./", o, "."); err != nil || r.Moved != 1 || r.Copied != 2 || r.Deleted != 3 {
			t.Errorf("dry: %+v, %v", r, err)
		}
		o.DryRun = false
		r, s, err := copyAll(t.Context(), from, to, "./", o, ".")
		if err != nil || r.Moved != 1 || r.Copied != 2 || r.Deleted != 3 || s.outcomes["new/deep/big"].Was != "old/big" {
			t.Errorf("%+v, %v, %+v", r, err, s.outcomes)
		}
		if got := namesIn(t, dest); got != "new/ new/deep/ new/deep/big other small" {
			t.Errorf("the target has %s", got)
		}
		wantBytes(t, dest, "new/deep/big", big)
		wantBytes(t, dest, "other", other)
	})
}

// An entry that the source has but does not list stays. A target that changes the case of names
// does not lose its copies.
func TestListingsThatHide(t *testing.T) {
	source, dest := &hiding{Tree: store.Mem(0), hidden: "secret"}, store.Mem(0)
	grow(t, source.Tree, "a", "secret", "d/secret")
	grow(t, dest, "secret", "d/secret", "old")
	if r, _, err := copyAll(t.Context(), source, dest, "./", mirroring(), "."); err != nil || r.Deleted != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := namesIn(t, dest); got != "a d/ d/secret secret" {
		t.Errorf("the target has %s", got)
	}
	plain := store.Mem(0)
	grow(t, plain, "A", "README")
	lower := &lowering{Tree: store.Mem(0)}
	for range 2 {
		if r, _, err := copyAll(t.Context(), plain, lower, "./", mirroring(), "."); err != nil || r.Deleted != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if got := namesIn(t, lower.Tree); got != "a readme" {
		t.Errorf("the target has %s", got)
	}
	// In other targets, a name that differs only in case is a different name.
	grow(t, dest, "A", "Secret")
	if r, _, err := copyAll(t.Context(), source, dest, "./", mirroring(), "."); err != nil || r.Deleted != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A hiding tree omits a name in its listings.
type hiding struct {
	store.Tree
	hidden string
}

func (h *hiding) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	e, err := h.Tree.OpenDir(ctx, name)
	return hidingEntries{e, h.hidden}, err
}

type hidingEntries struct {
	store.Entries
	hidden string
}

func (h hidingEntries) Next(into []fs.FileInfo) (int, error) {
	n, err := h.Entries.Next(into)
	kept := slices.DeleteFunc(slices.Clone(into[:n]), func(fi fs.FileInfo) bool { return fi.Name() == h.hidden })
	return copy(into, kept), err
}

// A lowering tree has all names in lower case, as some file systems do.
type lowering struct{ store.Tree }

func (l *lowering) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return l.Tree.Lstat(ctx, strings.ToLower(name))
}
func (l *lowering) Open(ctx context.Context, name string) (store.File, error) {
	return l.Tree.Open(ctx, strings.ToLower(name))
}
func (l *lowering) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	return l.Tree.Create(ctx, strings.ToLower(name), c)
}
func (l *lowering) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	return l.Tree.SetAttr(ctx, strings.ToLower(name), a, follow)
}

// If one side lists names that no entry may have, nothing is deleted.
func TestHostileListings(t *testing.T) {
	for _, name := range []string{"..", ".", "", "../up", "a/b", "/etc/passwd", "nul\x00"} {
		source, dest := store.Mem(0), &lying{Tree: store.Mem(0), name: name}
		grow(t, source, "a")
		grow(t, dest.Tree, "old")
		r, _, err := copyAll(t.Context(), source, dest, "./", mirroring(), ".")
		if !errors.Is(err, treecopy.ErrUnsafeName) || r.Deleted != 0 || len(dest.removed) > 0 {
			t.Errorf("%q in the target: %+v, %v, removed %q", name, r, err, dest.removed)
		}
		r, _, err = copyAll(t.Context(), &lying{Tree: source, name: name}, dest.Tree, "./", mirroring(), ".")
		if !errors.Is(err, treecopy.ErrUnsafeName) || r.Deleted != 0 || r.Undeleted != 1 {
			t.Errorf("%q in the source: %+v, %v", name, r, err)
		}
	}
}

// A lying tree lists a name that it does not have.
type lying struct {
	store.Tree
	name    string
	removed []string
}

func (l *lying) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	e, err := l.Tree.OpenDir(ctx, name)
	return &lyingEntries{e, l.name, false}, err
}

func (l *lying) Remove(ctx context.Context, name string) error {
	l.removed = append(l.removed, name)
	return l.Tree.Remove(ctx, name)
}

type lyingEntries struct {
	store.Entries
	name string
	said bool
}

func (l *lyingEntries) Next(into []fs.FileInfo) (int, error) {
	n, err := l.Entries.Next(into[:len(into)-1])
	if err == io.EOF && !l.said {
		l.said = true
		into[n] = named{fakeInfo{}, l.name}
		return n + 1, nil
	}
	return n, err
}

type named struct {
	fs.FileInfo
	name string
}

func (n named) Name() string { return n.name }

type fakeInfo struct{}

func (fakeInfo) Name() string       { return "" }
func (fakeInfo) Size() int64        { return 1 }
func (fakeInfo) Mode() fs.FileMode  { return 0o644 }
func (fakeInfo) ModTime() time.Time { return time.Time{} }
func (fakeInfo) IsDir() bool        { return false }
func (fakeInfo) Sys() any           { return nil }

// Nothing is deleted through a symbolic link that replaces a directory of the target.
func TestNoDeletionThroughLinks(t *testing.T) {
	source := store.Mem(0)
	dest := &swapping{Tree: store.Mem(0)}
	grow(t, source, "a", "d/keep")
	grow(t, dest.Tree, "d/keep", "d/old", "elsewhere/old", "elsewhere/keep")
	o := mirroring()
	o.Filter = rulesOf(t, "- /elsewhere/")
	r, _, err := copyAll(t.Context(), source, dest, "./", o, ".")
	if err == nil || r.Deleted != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := namesIn(t, dest.Tree); !strings.Contains(got, "elsewhere/old") {
		t.Errorf("the target has %s", got)
	}
}

// A swapping tree replaces the directory d by a link when the whole source is copied.
type swapping struct {
	store.Tree
	done bool
}

func (s *swapping) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == "d" && !s.done {
		s.done = true
		_ = s.Tree.Rename(ctx, "d", "elsewhere/d", false)
		_ = s.Tree.Symlink(ctx, "elsewhere", "d")
	}
	return s.Tree.Lstat(ctx, name)
}

// Directories get their modes and times after the deletions in them, and not before.
func TestAttributesAfterDeletions(t *testing.T) {
	source, dest := store.Mem(0), &guarded{store.Mem(0)}
	grow(t, source, "d/a", "d/e/b", "d/e/x/c", "p/q")
	grow(t, dest.Tree, "d/old", "d/e/gone/old", "d/e/x", "d/a/y", "p/old")
	for _, name := range []string{"d/e/x", "d/e", "d", "p"} {
		setTime(t, source, name, time.Unix(1_200_000_000, 0))
		setMode(t, source, name, 0o555)
	}
	o := mirroring()
	o.PreserveMode, o.PreserveTimes = true, true
	r, _, err := copyAll(t.Context(), source, dest, "./", o, ".")
	if err != nil || r.Deleted != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	wantSame(t, contents(t, source, true), contents(t, dest.Tree, true))
}

// A guarded tree removes nothing from a directory that its owner may not write to, as a system does
// for all users except root.
type guarded struct{ store.Tree }

func (g *guarded) Remove(ctx context.Context, name string) error {
	if fi, err := g.Lstat(ctx, path.Dir(name)); err == nil && fi.Mode().Perm()&0o200 == 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission}
	}
	return g.Tree.Remove(ctx, name)
}
