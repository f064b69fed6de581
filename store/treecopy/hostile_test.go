package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A liar is a tree with false listings.
type liar struct {
	store.Tree
	listings map[string][]fs.FileInfo
	listed   func(dir string) // called when a directory has been listed
}

type lie struct {
	fs.FileInfo
	name string
	mode fs.FileMode
}

func (l lie) Name() string      { return l.name }
func (l lie) Mode() fs.FileMode { return l.mode }
func (l lie) IsDir() bool       { return l.mode.IsDir() }
func (l lie) Size() int64       { return 4 }

func newLiar(t *testing.T) (*liar, func(name string, mode fs.FileMode) fs.FileInfo) {
	m := store.Mem(0)
	put(t, m, "top/real", []byte("real"))
	real, err := m.Stat(t.Context(), "top/real")
	if err != nil {
		t.Fatal(err)
	}
	return &liar{Tree: m, listings: map[string][]fs.FileInfo{}}, func(name string, mode fs.FileMode) fs.FileInfo {
		return lie{real, name, mode}
	}
}

func (l *liar) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	if list, ok := l.listings[name]; ok {
		return &lies{list: list, end: func() {
			if l.listed != nil {
				l.listed(name)
			}
		}}, nil
	}
	return l.Tree.OpenDir(ctx, name)
}

// Open returns a file for any name.
func (l *liar) Open(_ context.Context, name string) (store.File, error) {
	return store.FromBytes(name[strings.LastIndexByte(name, '/')+1:], []byte("evil")), nil
}

func (l *liar) Readlink(context.Context, string) (string, error) { return "../../outside", nil }

type lies struct {
	list []fs.FileInfo
	end  func()
}

func (l *lies) Next(into []fs.FileInfo) (int, error) {
	if len(l.list) == 0 {
		l.end()
		return 0, io.EOF
	}
	n := copy(into, l.list)
	l.list = l.list[n:]
	return n, nil
}

func (l *lies) Close() error { return nil }

// No name in a listing leads out of the target: it is an error of that entry.
func TestNamesOfServers(t *testing.T) {
	odd := "new\nline"
	if runtime.GOOS == "windows" {
		odd = "new line"
	}
	names := []string{"", ".", "..", "/", "/etc/passwd", "../x", "a/b", "a/../../x", "a\x00b", "a\xff/\xfe", "b/"}
	if runtime.GOOS == "windows" {
		names = append(names, `..\x`, `C:x`, "NUL")
	}
	for _, mode := range []fs.FileMode{0o644, fs.ModeDir | 0o755, fs.ModeSymlink | 0o777, fs.ModeIrregular} {
		t.Run(mode.String(), func(t *testing.T) {
			from, entry := newLiar(t)
			from.listings["top"] = []fs.FileInfo{entry("fine", 0o644)}
			for _, name := range names {
				from.listings["top"] = append(from.listings["top"], entry(name, mode))
			}
			from.listings["top"] = append(from.listings["top"], entry(odd, 0o644), entry("fine too", 0o644))
			to, dir := dirTree(t)
			outer := filepath.Join(dir, "outer")
			if err := os.MkdirAll(filepath.Join(outer, "inner"), 0o755); err != nil {
				t.Fatal(err)
			}
			r, _, err := copyAll(t.Context(), from, to, "outer/inner", treecopy.Options{Recursive: true, Links: treecopy.KeepLinks}, "top")
			if !errors.Is(err, treecopy.ErrUnsafeName) || r.Failed != int64(len(names)) || r.Copied != 3 {
				t.Errorf("%+v, %v", r, err)
			}
			if e, ok := errors.AsType[*treecopy.IncompleteError](err); ok {
				for _, one := range e.Errors {
					if text := one.Error(); !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n") {
						t.Errorf("an error that a terminal should not see: %q", text)
					}
				}
			}
			wantNames(t, to, "outer", "outer/inner", "outer/inner/top", "outer/inner/top/fine", "outer/inner/top/"+odd, "outer/inner/top/fine too")
		})
	}
}

// A pattern does not match names that no entry may have.
func TestPatternsOfServers(t *testing.T) {
	from, entry := newLiar(t)
	from.listings["top"] = []fs.FileInfo{entry("..", fs.ModeDir|0o755), entry("../x", 0o644), entry("a/b", 0o644), entry("x", 0o644)}
	from.listings["."] = []fs.FileInfo{entry("top", fs.ModeDir|0o755)}
	to := store.Mem(0)
	put(t, from.Tree, "top/x", []byte("evil"))
	for _, p := range []string{"top/*", "**/x", "*/[.ax]*"} {
		if _, _, err := copyAll(t.Context(), from, to, "new/", recursive, p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	wantNames(t, to, "new", "new/x")
}

// Nothing below the target is written through a symbolic link, whether it is from an earlier copy
// or from this one, and none leads out of it even if it is created meanwhile.
func TestLinksInTheTarget(t *testing.T) {
	plant := map[string]func(t *testing.T, dir string){
		"a directory's name outside": func(t *testing.T, dir string) { symlink(t, "../outside", filepath.Join(dir, "target/top")) },
		"a directory's name inside":  func(t *testing.T, dir string) { symlink(t, "kept", filepath.Join(dir, "target/top")) },
		"an absolute one": func(t *testing.T, dir string) {
			symlink(t, filepath.Join(dir, "outside"), filepath.Join(dir, "target/top"))
		},
		"a file's name outside": func(t *testing.T, dir string) {
			mkdirOS(t, filepath.Join(dir, "target/top"))
			symlink(t, "../../outside/victim", filepath.Join(dir, "target/top/victim"))
		},
		"a file's name inside": func(t *testing.T, dir string) {
			mkdirOS(t, filepath.Join(dir, "target/top"))
			symlink(t, "../kept/victim", filepath.Join(dir, "target/top/victim"))
		},
		"one that leads nowhere": func(t *testing.T, dir string) {
			mkdirOS(t, filepath.Join(dir, "target/top"))
			symlink(t, "../../outside/new", filepath.Join(dir, "target/top/victim"))
		},
	}
	for name, p := range plant {
		for _, o := range []treecopy.Options{{}, {InPlace: true}, {Continue: true}, {Links: treecopy.KeepLinks}} {
			t.Run(fmt.Sprintf("%s %v %v %v", name, o.InPlace, o.Continue, o.Links), func(t *testing.T) {
				o.Recursive = true
				from := store.Mem(0)
				put(t, from, "top/victim", []byte("evil"))
				to, dir := dirTree(t)
				for _, d := range []string{"outside", "target/kept"} {
					mkdirOS(t, filepath.Join(dir, d))
					if err := os.WriteFile(filepath.Join(dir, d, "victim"), []byte("good"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				p(t, dir)
				_, _, err := copyAll(t.Context(), from, to, "target", o, "top")
				if !errors.Is(err, treecopy.ErrConflict) {
					t.Errorf("error %v", err)
				}
				wantBytes(t, to, "outside/victim", []byte("good"))
				wantBytes(t, to, "target/kept/victim", []byte("good"))
				if _, err := os.Lstat(filepath.Join(dir, "outside/new")); err == nil {
					t.Error("it was written where a link led to")
				}
				wantNothingLeft(t, dir)
			})
		}
	}
}

// A link planted during the copy does not lead out of the target.
func TestLinksPlantedMeanwhile(t *testing.T) {
	from, entry := newLiar(t)
	from.listings["top"] = []fs.FileInfo{entry("d", fs.ModeDir|0o755)}
	from.listings["top/d"] = []fs.FileInfo{entry("victim", 0o644)}
	outer, dir := dirTree(t)
	mkdirOS(t, filepath.Join(dir, "outside"))
	mkdirOS(t, filepath.Join(dir, "target"))
	if err := os.WriteFile(filepath.Join(dir, "outside/victim"), []byte("good"), 0o644); err != nil {
		t.Fatal(err)
	}
	planted := false
	slow := &planter{Tree: from, before: func(name string) {
		// The directory exists, and the file is about to be created.
		if name == "top/d/victim" && !planted {
			planted = true
			d := filepath.Join(dir, "target/top/d")
			if err := os.Remove(d); err != nil {
				t.Error(err)
			}
			symlink(t, "../../outside", d)
		}
	}}
	_, _, err := copyAll(t.Context(), slow, outer, "target", recursive, "top")
	if !errors.Is(err, fs.ErrPermission) || !planted {
		t.Errorf("error %v, planted %v", err, planted)
	}
	wantBytes(t, outer, "outside/victim", []byte("good"))

	// The target itself may be moved away: the opened directory is written to.
	slow.before = func(name string) {
		if name == "top/d/victim" && planted {
			planted = false
			if err := os.Rename(filepath.Join(dir, "target"), filepath.Join(dir, "moved")); err != nil {
				t.Error(err)
			}
			symlink(t, "outside", filepath.Join(dir, "target"))
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "target/top")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := copyAll(t.Context(), slow, outer, "target", recursive, "top"); err != nil || planted {
		t.Errorf("error %v, planted %v", err, planted)
	}
	wantBytes(t, outer, "moved/top/d/victim", []byte("evil"))
	wantBytes(t, outer, "outside/victim", []byte("good"))
	if _, err := os.Lstat(filepath.Join(dir, "outside/top")); err == nil {
		t.Error("it was written where a link led to")
	}
}

// A planter calls a function before a file is opened, for example to plant a symbolic link.
type planter struct {
	store.Tree
	before func(name string)
}

func (p *planter) Open(ctx context.Context, name string) (store.File, error) {
	p.before(name)
	return p.Tree.Open(ctx, name)
}

// Nor is anything written through a link that this copy has made from another source.
func TestLinksOfOtherSources(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		links, files := store.Mem(0), store.Mem(0)
		put(t, links, "x/kept", []byte("good"))
		if err := links.Symlink(t.Context(), "kept", "x/victim"); err != nil {
			t.Fatal(err)
		}
		put(t, files, "victim", []byte("evil"))
		to, dir := dirTree(t)
		slow := &planter{Tree: files, before: func(string) {
			for t.Context().Err() == nil {
				if _, err := os.Lstat(filepath.Join(dir, "target/victim")); err == nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}}
		j := treecopy.Job{
			To: to, Target: "target/", Sources: []treecopy.Source{{Tree: links, Name: "x/."}, {Tree: slow, Name: "victim"}},
			Options: treecopy.Options{Recursive: true, Links: treecopy.KeepLinks, InPlace: inPlace},
		}
		if _, err := treecopy.Copy(t.Context(), j); !errors.Is(err, fs.ErrExist) {
			t.Errorf("in place %v: error %v", inPlace, err)
		}
		wantBytes(t, to, "target/kept", []byte("good"))
	}
}

// The sum of false sizes in a listing does not become negative.
func TestSizesOfServers(t *testing.T) {
	from, entry := newLiar(t)
	for i := range 20 {
		from.listings["top"] = append(from.listings["top"], huge{entry(fmt.Sprint("f", i), 0o644)})
	}
	r, _, err := copyAll(t.Context(), from, store.Mem(0), "new", treecopy.Options{Recursive: true, DryRun: true}, "top")
	if err != nil || r.Found.Bytes != math.MaxInt64 || r.Found.Files != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

type huge struct{ fs.FileInfo }

func (huge) Size() int64 { return 1 << 62 }

// If a listing has an entry twice, as a link and as a directory, the link is due after everything
// below the directory, and is therefore not made.
func TestLinkAndDirectoryOfOneName(t *testing.T) {
	for _, links := range []treecopy.Links{treecopy.SkipLinks, treecopy.KeepLinks} {
		from, entry := newLiar(t)
		from.listings["top"] = []fs.FileInfo{entry("d", fs.ModeSymlink|0o777), entry("d", fs.ModeDir|0o755), entry("d", fs.ModeSymlink|0o777)}
		from.listings["top/d"] = []fs.FileInfo{entry("victim", 0o644)}
		to, dir := dirTree(t)
		_, _, err := copyAll(t.Context(), from, to, "target/", treecopy.Options{Recursive: true, Links: links}, "top")
		if keep := links == treecopy.KeepLinks; errors.Is(err, treecopy.ErrConflict) != keep || !keep && err != nil {
			t.Errorf("error %v", err)
		}
		wantNames(t, to, "target", "target/top", "target/top/d", "target/top/d/victim")
		wantNothingLeft(t, dir)
	}
}

// Symbolic links are treated according to the option.
func TestLinks(t *testing.T) {
	newFrom := func(t *testing.T) store.Tree {
		from := store.Mem(0)
		put(t, from, "d/f", []byte("f"))
		put(t, from, "d/e/g", []byte("g"))
		for name, text := range map[string]string{"d/to f": "f", "d/to e": "e", "d/nowhere": "none", "d/out": "../../x", "d/e/loop": "../../d", "to d": "d"} {
			if err := from.Symlink(t.Context(), text, name); err != nil {
				t.Fatal(err)
			}
		}
		return from
	}
	t.Run("skipped", func(t *testing.T) {
		from, to := newFrom(t), store.Mem(0)
		r, s, err := copyAll(t.Context(), from, to, ".", recursive, "d")
		if err != nil || r.Skipped != 5 || s.outcomes["d/out"].What != treecopy.Skipped || s.outcomes["d/out"].Err == nil {
			t.Errorf("%+v, %v", r, err)
		}
		wantNames(t, to, "d", "d/f", "d/e", "d/e/g")
	})
	t.Run("named", func(t *testing.T) {
		from, to := newFrom(t), store.Mem(0)
		if _, _, err := copyAll(t.Context(), from, to, ".", recursive, "to d", "d/to f"); err != nil {
			t.Error(err)
		}
		wantNames(t, to, "to d", "to d/f", "to d/e", "to d/e/g", "to f")
		if _, _, err := copyAll(t.Context(), from, to, ".", recursive, "d/nowhere"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a link that leads nowhere: %v", err)
		}
	})
	t.Run("kept", func(t *testing.T) {
		from, to := newFrom(t), store.Mem(0)
		o := treecopy.Options{Recursive: true, Links: treecopy.KeepLinks, PreserveTimes: true}
		for again := range 2 {
			r, _, err := copyAll(t.Context(), from, to, ".", o, "d")
			if err != nil || r.Copied != int64(7-5*again) || r.Same != int64(5*again) {
				t.Errorf("%+v, %v", r, err)
			}
		}
		// A link that leads elsewhere is made again.
		if err := from.Remove(t.Context(), "d/to f"); err != nil {
			t.Fatal(err)
		}
		if err := from.Symlink(t.Context(), "e/g", "d/to f"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := copyAll(t.Context(), from, to, ".", o, "d"); err != nil {
			t.Error(err)
		}
		want := contents(t, from, false)
		delete(want, "to d")
		wantSame(t, want, contents(t, to, false))
	})
	t.Run("followed", func(t *testing.T) {
		from, to := newFrom(t), store.Mem(0)
		if err := from.Remove(t.Context(), "d/e/loop"); err != nil {
			t.Fatal(err)
		}
		o := treecopy.Options{Recursive: true, Links: treecopy.FollowLinks}
		r, s, err := copyAll(t.Context(), from, to, ".", o, "d")
		if !errors.Is(err, fs.ErrNotExist) || r.Failed != 2 || s.outcomes["d/nowhere"].What != treecopy.Failed {
			t.Errorf("%+v, %v", r, err)
		}
		wantNames(t, to, "d", "d/f", "d/e", "d/e/g", "d/to f", "d/to e", "d/to e/g")
	})
}

// A symbolic link to a directory above itself is an error, and nothing is copied twice, however
// many such links there are.
func TestLinksThatLeadBack(t *testing.T) {
	links := map[string]string{
		"d/here": ".", "d/also": "../d", "d/sub/up": "..", "d/sub/side": "../other", "d/other/back": "../sub",
	}
	run := func(t *testing.T, from, there store.Tree) {
		for name, text := range links {
			put(t, there, path.Join(path.Dir(name), "f"), []byte("f"))
			if err := there.Symlink(t.Context(), text, name); err != nil {
				t.Skip(err)
			}
		}
		for _, source := range []string{"d", "d/.", "d/here"} {
			to := store.Mem(0)
			r, _, err := copyAll(t.Context(), from, to, "new/", treecopy.Options{Recursive: true, Links: treecopy.FollowLinks}, source)
			// here, also, sub/up, sub/side/back, other/back/up and other/back/side
			if !errors.Is(err, treecopy.ErrLoop) || r.Failed != 6 || r.Copied != 5 {
				t.Errorf("%s: %+v, %v", source, r, err)
			}
		}
	}
	t.Run("mem", func(t *testing.T) {
		from := store.Mem(0)
		run(t, from, from)
	})
	t.Run("dir", func(t *testing.T) {
		from, _ := dirTree(t)
		run(t, from, from)
	})
	t.Run("sftp", func(t *testing.T) {
		served, _ := dirTree(t)
		run(t, remoteTree(t, served, false), served)
	})
}

func symlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip(err) // it may require a privilege
		}
		t.Fatal(err)
	}
}

func mkdirOS(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(name, 0o755); err != nil {
		t.Fatal(err)
	}
}
