package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

var recursive = treecopy.Options{Recursive: true}

// world returns a tree with a few entries.
func world(t *testing.T) store.Tree {
	m := store.Mem(0)
	for _, name := range []string{"a.log", "b.log", "c.txt", ".hidden.log", "dir/x", "dir/sub/y", "dir/sub/z.log", "other/x", "*.txt", "dir/.dot/w"} {
		put(t, m, name, []byte("this is "+name))
	}
	mkdir(t, m, "dir/empty")
	return m
}

// The names of the copies are those that cp and scp would use.
func TestLanding(t *testing.T) {
	dirNames := []string{"x", "sub", "sub/y", "sub/z.log", "empty", ".dot", ".dot/w"}
	below := func(top string) (all []string) {
		all = append(all, top)
		for _, n := range dirNames {
			all = append(all, path.Join(top, n))
		}
		return all
	}
	tests := []struct {
		name    string
		sources []string
		target  string
		want    []string
		err     error
	}{
		{"a file to the root", []string{"c.txt"}, ".", []string{"c.txt"}, nil},
		{"a file to no name", []string{"c.txt"}, "", []string{"c.txt"}, nil},
		{"a file to a new name", []string{"c.txt"}, "new", []string{"new"}, nil},
		{"a file onto a file", []string{"c.txt"}, "old", []string{"old"}, nil},
		{"a file to a directory", []string{"c.txt"}, "there", []string{"there", "there/c.txt"}, nil},
		{"a file to a directory with a slash", []string{"c.txt"}, "there/", []string{"there", "there/c.txt"}, nil},
		{"a file to a missing directory", []string{"c.txt"}, "new/", []string{"new", "new/c.txt"}, nil},
		{"a file to a slash behind a file", []string{"c.txt"}, "old/", []string{"old"}, treecopy.ErrConflict},
		{"a file below a missing directory", []string{"c.txt"}, "no/no/", nil, fs.ErrNotExist},
		{"a file from below", []string{"dir/sub/y"}, "there", []string{"there", "there/y"}, nil},
		{"a file with a slash", []string{"c.txt/"}, ".", nil, fs.ErrInvalid},
		{"files to a directory", []string{"c.txt", "dir/x"}, "there", []string{"there", "there/c.txt", "there/x"}, nil},
		{"files to a missing directory", []string{"c.txt", "dir/x"}, "new", nil, fs.ErrNotExist},
		{"files to a missing directory with a slash", []string{"c.txt", "dir/x"}, "new/", []string{"new", "new/c.txt", "new/x"}, nil},
		{"files onto a file", []string{"c.txt", "dir/x"}, "old", []string{"old"}, treecopy.ErrConflict},
		{"two of one name", []string{"other/x", "dir/x"}, "there", []string{"there"}, treecopy.ErrConflict},
		{"the same twice", []string{"c.txt", "./c.txt"}, ".", nil, treecopy.ErrConflict},
		{"a directory to a new name", []string{"dir"}, "new", below("new"), nil},
		{"a directory to a new name with a slash", []string{"dir"}, "new/", append(below("new/dir"), "new"), nil},
		{"a directory to a directory", []string{"dir/"}, "there", append(below("there/dir"), "there"), nil},
		{"a directory onto a file", []string{"dir"}, "old", []string{"old"}, treecopy.ErrConflict},
		{"contents to a directory", []string{"dir/."}, "there", below("there"), nil},
		{"contents to a new directory", []string{"dir/."}, "new", below("new"), nil},
		{"contents to a new directory with a slash", []string{"dir/."}, "new/", below("new"), nil},
		{"contents and a file", []string{"dir/.", "c.txt"}, "there", append(below("there"), "there/c.txt"), nil},
		{"contents twice", []string{"dir/.", "other/."}, "there", []string{"there"}, treecopy.ErrConflict},
		{"a directory and a file", []string{"dir", "c.txt"}, ".", append(below("dir"), "c.txt"), nil},
		{"nothing", []string{"none"}, ".", nil, fs.ErrNotExist},
		{"nothing and a file", []string{"none", "c.txt"}, ".", []string{"c.txt"}, fs.ErrNotExist},
		{"out of the source", []string{"dir/../../c.txt"}, ".", nil, fs.ErrInvalid},
		{"out of the target", []string{"c.txt"}, "../x", nil, fs.ErrInvalid},
		{"absolute", []string{"/c.txt"}, ".", nil, fs.ErrInvalid},

		{"a pattern", []string{"*.log"}, ".", []string{"a.log", "b.log"}, nil},
		{"a pattern with a dot", []string{".*.log"}, ".", []string{".hidden.log"}, nil},
		{"a pattern of one", []string{"c.t?t"}, "new", []string{"new"}, nil},
		{"a pattern of several to a new name", []string{"[ab].log"}, "new", nil, fs.ErrNotExist},
		{"a name that looks like a pattern", []string{"*.txt"}, ".", []string{"*.txt"}, nil},
		{"a pattern among directories", []string{"*/sub/y"}, ".", []string{"y"}, nil},
		{"a pattern and its conflict", []string{"*/x"}, ".", nil, treecopy.ErrConflict},
		{"a pattern for directories", []string{"o*/"}, ".", []string{"other", "other/x"}, nil},
		{"a pattern for directories that matches files", []string{"*.log/"}, ".", nil, fs.ErrNotExist},
		{"a pattern for contents", []string{"o*/."}, ".", []string{"x"}, nil},
		{"any depth", []string{"**/*.log"}, ".", []string{"a.log", "b.log", "z.log"}, nil},
		{"any depth below", []string{"dir/**/**/y"}, ".", []string{"y"}, nil},
		{"a pattern without a match", []string{"*.none"}, ".", nil, fs.ErrNotExist},
		{"a pattern that is none", []string{"a[.log"}, ".", nil, path.ErrBadPattern},
		{"an escape", []string{`\*.txt`}, ".", []string{"*.txt"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			from, to := world(t), store.Mem(0)
			want := test.want
			if !strings.HasPrefix(test.target, "there") && len(want) > 0 && want[0] == "old" || strings.HasPrefix(test.target, "old") {
				put(t, to, "old", []byte("old"))
			}
			if strings.HasPrefix(test.target, "there") {
				mkdir(t, to, "there")
			}
			_, _, err := copyAll(t.Context(), from, to, test.target, recursive, test.sources...)
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			wantNames(t, to, want...)
		})
	}
}

// A source can get another name, and each can have its own tree.
func TestSourcesOfSeveralTrees(t *testing.T) {
	a, b, to := store.Mem(0), store.Mem(0), store.Mem(0)
	put(t, a, "x", []byte("a's"))
	put(t, b, "x", []byte("b's"))
	put(t, b, "d/e", []byte("e"))
	j := treecopy.Job{To: to, Options: recursive, Sources: []treecopy.Source{
		{Tree: a, Name: "x"}, {Tree: b, Name: "x", As: "y"}, {Tree: b, Name: ".", As: "all of b"},
	}}
	if _, err := treecopy.Copy(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	wantNames(t, to, "x", "y", "all of b", "all of b/x", "all of b/d", "all of b/d/e")
	wantBytes(t, to, "y", []byte("b's"))
	for _, as := range []string{"..", "a/b", "a\x00"} {
		j.Sources = []treecopy.Source{{Tree: a, Name: "x", As: as}}
		if _, err := treecopy.Copy(t.Context(), j); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("as %q: %v", as, err)
		}
	}
	for _, j := range []treecopy.Job{{}, {To: to}, {To: to, Sources: []treecopy.Source{{Name: "x"}}}} {
		if _, err := treecopy.Copy(t.Context(), j); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", j, err)
		}
	}
}

// Without Recursive a directory is an error, and the files are copied.
func TestDirectoriesAreAskedFor(t *testing.T) {
	from, to := world(t), store.Mem(0)
	r, s, err := copyAll(t.Context(), from, to, ".", treecopy.Options{}, "dir", "c.txt", "*.log")
	if !errors.Is(err, treecopy.ErrDirectory) || r.Failed != 1 || r.Copied != 3 || s.outcomes["dir"].What != treecopy.Failed {
		t.Errorf("%+v, %v", r, err)
	}
	wantNames(t, to, "c.txt", "a.log", "b.log")
}

// An entry of another kind that is in the way stays, and the rest is copied.
func TestConflicts(t *testing.T) {
	from, to := store.Mem(0), store.Mem(0)
	put(t, to, "file", nil)
	put(t, from, "file", nil)
	if _, _, err := copyAll(t.Context(), from, to, "file/", recursive, "file"); !errors.Is(err, treecopy.ErrConflict) || !strings.Contains(err.Error(), "copy to file/: that names a directory, and a file is in the way") {
		t.Error(err)
	}
	put(t, from, "d/file", []byte("file"))
	put(t, from, "d/dir/x", []byte("x"))
	put(t, from, "d/fine", []byte("fine"))
	put(t, to, "d/file/inside", []byte("kept"))
	put(t, to, "d/dir", []byte("kept"))
	r, s, err := copyAll(t.Context(), from, to, ".", recursive, "d")
	if !errors.Is(err, treecopy.ErrConflict) || r.Failed != 2 || r.Copied != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, name := range []string{"d/file", "d/dir"} {
		if !errors.Is(s.outcomes[name].Err, treecopy.ErrConflict) {
			t.Errorf("%s: %v", name, s.outcomes[name])
		}
	}
	wantBytes(t, to, "d/dir", []byte("kept"))
	wantBytes(t, to, "d/file/inside", []byte("kept"))
	wantBytes(t, to, "d/fine", []byte("fine"))
}

// Copying a tree into itself ends, and copying a file onto itself is refused.
func TestOntoItself(t *testing.T) {
	dir, _ := dirTree(t)
	t.Run("directory", func(t *testing.T) { testOntoItself(t, dir) })
	t.Run("memory", func(t *testing.T) { testOntoItself(t, store.Mem(0)) })
}

func testOntoItself(t *testing.T, tree store.Tree) {
	put(t, tree, "d/f", []byte("f"))
	put(t, tree, "d/e/g", []byte("g"))
	if _, _, err := copyAll(t.Context(), tree, tree, "d/copy", recursive, "d"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a directory into itself: %v", err)
	}
	wantNames(t, tree, "d", "d/f", "d/e", "d/e/g", "d/copy", "d/copy/f", "d/copy/e", "d/copy/e/g")
	for _, o := range []treecopy.Options{{}, {InPlace: true}, {Recursive: true}} {
		for _, target := range []string{"d", "d/f"} {
			if _, _, err := copyAll(t.Context(), tree, tree, target, o, "d/f"); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("a file onto itself: %v", err)
			}
		}
	}
	wantBytes(t, tree, "d/f", []byte("f"))
}

// Modes and times, with and without the options that preserve them.
func TestAttributes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have other modes there")
	}
	then := time.Unix(1_000_000_000, 0)
	for _, kind := range []string{"memory", "directory"} {
		for _, o := range []treecopy.Options{{}, {PreserveMode: true}, {PreserveTimes: true}, {PreserveMode: true, PreserveTimes: true, InPlace: true}, {Umask: 0o77}} {
			t.Run(fmt.Sprintf("%s %+v", kind, o.PreserveMode), func(t *testing.T) {
				o.Recursive = true
				newTree := func() store.Tree {
					if kind == "memory" {
						return store.Mem(0)
					}
					d, _ := dirTree(t)
					return d
				}
				from, to := newTree(), newTree()
				modes := map[string]fs.FileMode{"d": 0o750, "d/sealed": 0o555, "d/open": 0o777, "d/sealed/f": 0o640, "d/open/f": 0o777, "d/open/none": 0}
				for name := range modes {
					if !strings.HasSuffix(name, "/f") && !strings.HasSuffix(name, "none") {
						mkdir(t, from, name)
					}
				}
				put(t, from, "d/sealed/f", []byte("f"))
				put(t, from, "d/open/f", []byte("f"))
				put(t, from, "d/open/none", []byte("f"))
				put(t, to, "d/open/f", []byte("old"))
				setMode(t, to, "d/open/f", 0o600)
				for _, name := range []string{"d/open/none", "d/open/f", "d/sealed/f", "d/open", "d/sealed", "d"} {
					setTime(t, from, name, then)
					setMode(t, from, name, modes[name])
				}
				if os.Geteuid() != 0 {
					setMode(t, from, "d/open/none", 0o400) // readable, so that it can be copied
					modes["d/open/none"] = 0o400
				}
				t.Cleanup(func() {
					for _, tree := range []store.Tree{from, to} {
						setModeIfThere(tree, "d/sealed", 0o755)
					}
				})
				if _, _, err := copyAll(t.Context(), from, to, ".", o, "d"); err != nil {
					t.Fatal(err)
				}
				for name, mode := range modes {
					fi, err := to.Lstat(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					want := mode &^ 0o22
					switch {
					case o.PreserveMode:
						want = mode
					case name == "d/open/f":
						want = 0o600
					case name == "d" || name == "d/open": // these existed in the target before
						want = 0o755
					case o.Umask != 0:
						want = mode &^ o.Umask
					}
					if fi.Mode().Perm() != want {
						t.Errorf("%s has mode %v, want %v", name, fi.Mode(), want)
					}
					if got := fi.ModTime().Equal(then); got != o.PreserveTimes {
						t.Errorf("%s is of %v", name, fi.ModTime())
					}
				}
			})
		}
	}
}

// An existing directory keeps its times if the target does not let us change them. A directory that
// the copy has made and whose times it cannot set is an error, and so is any other failure.
func TestDirectoriesThatMayNotBeChanged(t *testing.T) {
	for _, c := range []struct {
		there        bool
		err          error
		kept, failed int64
	}{{true, fs.ErrPermission, 1, 0}, {true, fs.ErrInvalid, 0, 1}, {false, fs.ErrPermission, 0, 1}} {
		from, to := store.Mem(0), store.Mem(0)
		put(t, from, "d/f", []byte("f"))
		if c.there {
			mkdir(t, to, "d")
		}
		r, _, err := copyAll(t.Context(), from, undated{to, c.err}, ".", treecopy.Options{Recursive: true, PreserveTimes: true}, "d")
		if r.Copied != 1 || r.Kept != c.kept || r.Failed != c.failed || !errors.Is(err, c.err) && c.failed > 0 {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
}

// undated is a tree that refuses to set attributes of directory d.
type undated struct {
	store.Tree
	err error
}

func (u undated) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	if name == "d" {
		return u.err
	}
	return u.Tree.SetAttr(ctx, name, a, follow)
}

func setModeIfThere(tree store.Tree, name string, mode fs.FileMode) {
	_ = tree.SetAttr(context.Background(), name, store.Attr{Mode: &mode}, true)
}

// Unchanged files are left alone.
func TestUnchanged(t *testing.T) {
	then := time.Unix(1_000_000_000, 123_456_789)
	tests := []struct {
		name string
		o    treecopy.Options
		data string    // content of the target's file
		at   time.Time // modification time of the target's file
		same bool
	}{
		{"never", treecopy.Options{}, "data", then, false},
		{"the same to the second", treecopy.Options{Unchanged: treecopy.SizeAndTime}, "atad", then.Truncate(time.Second), true},
		{"another second", treecopy.Options{Unchanged: treecopy.SizeAndTime}, "data", then.Add(time.Second), false},
		{"another size", treecopy.Options{Unchanged: treecopy.SizeAndTime}, "date.", then, false},
		{"the same hash", treecopy.Options{Unchanged: treecopy.Hash}, "data", time.Unix(1, 0), true},
		{"another hash", treecopy.Options{Unchanged: treecopy.Hash}, "atad", then, false},
		{"another hash, to be continued", treecopy.Options{Unchanged: treecopy.Hash, Continue: true}, "atad", then, false},
		{"to be continued, of the same time", treecopy.Options{Continue: true}, "atad", then.Truncate(time.Second), true},
		{"to be continued, of the same time, verified", treecopy.Options{Continue: true, Verify: true}, "atad", then, false},
		{"to be continued, the same", treecopy.Options{Continue: true}, "data", then.Add(time.Hour), true},
		{"to be continued, newer and another", treecopy.Options{Continue: true}, "atad", then.Add(time.Hour), false},
		{"the same to the second, verified", treecopy.Options{Unchanged: treecopy.SizeAndTime, Verify: true}, "atad", then, false},
		{"verified, and the same", treecopy.Options{Unchanged: treecopy.SizeAndTime, Verify: true}, "data", then, true},
		{"the same size", treecopy.Options{Unchanged: treecopy.Size}, "atad", then.Add(-time.Hour), true},
		{"the same size, verified", treecopy.Options{Unchanged: treecopy.Size, Verify: true}, "atad", then, false},
		{"of another size", treecopy.Options{Unchanged: treecopy.Size}, "date.", then, false},
		{"not finished before", treecopy.Options{Continue: true}, "dat", then.Add(time.Hour), false},
		{"to be continued, older and another", treecopy.Options{Continue: true}, "atad", then.Add(-time.Hour), false},
	}
	for _, test := range tests {
		for _, target := range []string{".", "f"} {
			from, to := store.Mem(0), store.Mem(0)
			put(t, from, "f", []byte("data"))
			setTime(t, from, "f", then)
			put(t, to, "f", []byte(test.data))
			setTime(t, to, "f", test.at)
			r, s, err := copyAll(t.Context(), from, to, target, test.o, "f")
			if err != nil {
				t.Error(err)
			}
			if same := r.Same == 1 && r.Copied == 0 && s.outcomes["f"].What == treecopy.Same; same != test.same {
				t.Errorf("%s: %+v, %v", test.name, r, s.outcomes)
			}
			want := "data"
			if test.same {
				want = test.data
			}
			wantBytes(t, to, "f", []byte(want))
		}
	}
}

// Update leaves files unchanged that are newer in the target, to the second, and copies the rest.
func TestUpdate(t *testing.T) {
	then := time.Unix(1_000_000_000, 999)
	from, to := store.Mem(0), store.Mem(0)
	for name, ahead := range map[string]time.Duration{"newer": time.Second, "same": 500, "older": -time.Second, "missing": 0} {
		put(t, from, name, []byte("source of "+name))
		setTime(t, from, name, then)
		if name != "missing" {
			put(t, to, name, []byte("old"))
			setTime(t, to, name, then.Add(ahead))
		}
	}
	for _, dry := range []bool{true, false} {
		r, s, err := copyAll(t.Context(), from, to, ".", treecopy.Options{Recursive: true, Update: true, DryRun: dry}, "./.")
		if err != nil || r.Existing != 1 || r.Copied != 3 || s.outcomes["newer"].Err == nil {
			t.Errorf("dry %v: %+v, %v", dry, r, err)
		}
	}
	wantBytes(t, to, "newer", []byte("old"))
	wantBytes(t, to, "same", []byte("source of same"))
	if r, _, err := copyAll(t.Context(), timeless{from}, to, ".", treecopy.Options{Recursive: true, Update: true}, "./."); err != nil || r.Copied != 4 {
		t.Errorf("of a source without times: %+v, %v", r, err)
	}
}

// A timeless tree does not know when files were modified.
type timeless struct{ store.Tree }

func (l timeless) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	e, err := l.Tree.OpenDir(ctx, name)
	return timelessEntries{e}, err
}

type timelessEntries struct{ store.Entries }

func (e timelessEntries) Next(into []fs.FileInfo) (int, error) {
	n, err := e.Entries.Next(into)
	for i := range into[:n] {
		into[i] = timelessInfo{into[i]}
	}
	return n, err
}

type timelessInfo struct{ fs.FileInfo }

func (timelessInfo) ModTime() time.Time { return time.Time{} }

// A file that is not copied because it is the same gets the mode and the time of its source.
func TestUnchangedHasAttributes(t *testing.T) {
	then := time.Unix(1_000_000_000, 0)
	for _, preserve := range []bool{false, true} {
		from, to := store.Mem(0), store.Mem(0)
		for i, m := range []store.Tree{from, to} {
			put(t, m, "f", []byte("data"))
			setModeIfThere(m, "f", []fs.FileMode{0o751, 0o600}[i])
			setTime(t, m, "f", then.Add(time.Duration(i)*time.Hour))
		}
		o := treecopy.Options{Unchanged: treecopy.Hash, PreserveMode: preserve, PreserveTimes: preserve}
		r, _, err := copyAll(t.Context(), from, to, ".", o, "f")
		if err != nil || r.Same != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		fi, err := to.Stat(t.Context(), "f")
		if err != nil || (fi.Mode() == 0o751) != preserve || fi.ModTime().Equal(then) != preserve {
			t.Errorf("preserved %v: %v, %v, %v", preserve, fi.Mode(), fi.ModTime(), err)
		}
	}
}

// A dry run changes nothing, and reports the outcomes of a real copy.
func TestDryRun(t *testing.T) {
	from := world(t)
	to, dir := dirTree(t)
	put(t, to, "dir/x", []byte("there"))
	before := contents(t, to, true)
	o := treecopy.Options{Recursive: true, DryRun: true, Links: treecopy.KeepLinks}
	if err := from.Symlink(t.Context(), "x", "dir/link"); err != nil {
		t.Fatal(err)
	}
	r, s, err := copyAll(t.Context(), from, to, ".", o, "dir", "c.txt")
	if err != nil || r.Copied != 6 || r.Made != 3 || r.Bytes != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if s.outcomes["dir"].What != treecopy.Present || s.outcomes["dir/sub"].What != treecopy.Made || s.outcomes["dir/sub/y"].What != treecopy.Copied {
		t.Errorf("%v", s.outcomes)
	}
	if _, _, err := copyAll(t.Context(), from, to, "new/", o, "dir", "c.txt"); err != nil {
		t.Error(err)
	}
	wantSame(t, before, contents(t, to, true))
	wantNothingLeft(t, dir)
}

// The hooks see every entry, and in the end the totals.
func TestHooks(t *testing.T) {
	from, to := store.Mem(0), store.Mem(0)
	var total int64
	for i := range 300 {
		data := pattern(i*1000, uint64(i))
		total += int64(len(data))
		put(t, from, fmt.Sprintf("d/%d/f", i), data)
	}
	r, s, err := copyAll(t.Context(), from, to, ".", recursive, "d")
	if err != nil {
		t.Fatal(err)
	}
	want := treecopy.Totals{Files: 300, Bytes: total, All: true}
	if s.totals != want || r.Found != want || r.Bytes != total || r.Copied != 300 || r.Made != 301 {
		t.Errorf("totals %+v, result %+v", s.totals, r)
	}
	for i := range 300 {
		name := fmt.Sprintf("d/%d/f", i)
		if o := s.outcomes[name]; o.What != treecopy.Copied || o.Bytes != int64(i*1000) || s.bytes[name] != o.Bytes {
			t.Errorf("%s: %+v, %d bytes", name, o, s.bytes[name])
		}
	}
	wantSame(t, contents(t, from, false), contents(t, to, false))
}

// However many entries fail, all are counted, and only a few errors are kept.
func TestManyErrors(t *testing.T) {
	from, to := store.Mem(0), store.Mem(0)
	const n = treecopy.MaxErrors + 50
	for i := range n {
		put(t, from, fmt.Sprintf("d/%d", i), []byte("new"))
		mkdir(t, to, fmt.Sprintf("d/%d", i))
	}
	put(t, from, "d/fine", nil)
	r, _, err := copyAll(t.Context(), from, to, ".", recursive, "d")
	e, ok := errors.AsType[*treecopy.IncompleteError](err)
	if !ok || e.Failed != n || len(e.Errors) != treecopy.MaxErrors || r.Copied != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
