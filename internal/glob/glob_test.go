package glob_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/glob"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// newTree returns a directory with files. Names that end in a slash become directories.
func newTree(t *testing.T, names ...string) (store.Tree, string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(file, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return localdir.New(root), dir
}

func symlink(t *testing.T, dir, text, name string) {
	t.Helper()
	if err := os.Symlink(text, filepath.Join(dir, name)); err != nil {
		t.Skip(err)
	}
}

func expand(t *testing.T, tree glob.Tree, pattern string) (string, error) {
	t.Helper()
	found, err := glob.Expand(t.Context(), tree, pattern)
	var names []string
	for _, m := range found {
		if m.Info == nil || m.Info.Name() != path.Base(m.Name) {
			t.Errorf("%q: %s is described as %v", pattern, m.Name, m.Info)
		}
		names = append(names, m.Name)
	}
	return strings.Join(names, " "), err
}

func TestExpand(t *testing.T) {
	tree, dir := newTree(t, "a.gz", "b.txt", ".c.gz", "d/a.gz", "d/e/f/a.gz", "d/e/b.txt", "d/.h/a.gz", "empty/", "[x]", "x")
	symlink(t, dir, "d", "todir")
	symlink(t, dir, "a.gz", "tofile")
	symlink(t, dir, "nowhere", "dangling")
	for _, c := range []struct{ pattern, want string }{
		{"a.gz", "a.gz"},
		{"./a.gz", "a.gz"},
		{"d/", "d"},
		{"*.gz", "a.gz"},
		{".*.gz", ".c.gz"},
		{"[x]", "[x]"}, // an existing name is not a pattern
		{`\[x\]`, "[x]"},
		{"?", "d x"},
		{"*", "[x] a.gz b.txt d dangling empty todir tofile x"},
		{"*/", "d empty todir"},
		{"*/a.gz", "d/a.gz todir/a.gz"},
		{"*/*/b.txt", "d/e/b.txt todir/e/b.txt"},
		{"**/a.gz", "a.gz d/a.gz d/e/f/a.gz"},
		{"**/**/a.gz", "a.gz d/a.gz d/e/f/a.gz"},
		{"**/*.txt", "b.txt d/e/b.txt"},
		{"d/**/a.gz", "d/a.gz d/e/f/a.gz"},
		{"d/**", "d/a.gz d/e d/e/b.txt d/e/f d/e/f/a.gz"},
		{"d/**/", "d/e d/e/f"},
		{"todir/**/b.txt", "todir/e/b.txt"}, // todir is a link, which is followed because the pattern names it
		{"d/**x", ""},
		{"d/a**", "d/a.gz"}, // not a separate element, so it means the same as *
	} {
		got, err := expand(t, tree, c.pattern)
		if c.want == "" {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %q, %v, want nothing", c.pattern, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.pattern, got, err, c.want)
		}
	}
}

func TestExpandErrors(t *testing.T) {
	tree, _ := newTree(t, "a", "d/f")
	for pattern, want := range map[string]error{
		"none": fs.ErrNotExist, "none*": fs.ErrNotExist, "*/none": fs.ErrNotExist, "a/*": fs.ErrNotExist, "none/**/x": fs.ErrNotExist,
		"[a": path.ErrBadPattern, "a[": fs.ErrNotExist, `d/[a/\`: path.ErrBadPattern, "*/../a": nil,
	} {
		if got, err := expand(t, tree, pattern); !errors.Is(err, want) {
			t.Errorf("%q: %q, %v, want %v", pattern, got, err, want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if found, err := glob.Expand(ctx, tree, "*"); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v, %v", found, err)
	}
}

// A liar is a tree that returns the same listing for each directory.
type liar struct {
	store.Tree
	list []fs.FileInfo
}

func (l liar) OpenDir(context.Context, string) (store.Entries, error) {
	return &lies{l.list}, nil
}

func (l liar) Lstat(context.Context, string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

type lies struct{ list []fs.FileInfo }

func (l *lies) Next(into []fs.FileInfo) (int, error) {
	n := copy(into, l.list)
	if l.list = l.list[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (*lies) Close() error { return nil }

// An entry is a directory with an arbitrary name.
type entry struct {
	fs.FileInfo
	name string
}

func (e entry) Name() string { return e.name }

func newLiar(t *testing.T, names ...string) liar {
	t.Helper()
	fi, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var l liar
	for _, name := range names {
		l.list = append(l.list, entry{fi, name})
	}
	return l
}

// A pattern does not match names that an entry cannot have.
func TestHostileNames(t *testing.T) {
	l := newLiar(t, "", ".", "..", "a/b", "../x", "/etc", "nul\x00", "good")
	for _, pattern := range []string{"*", "[.ag]*", "[a-z]*"} {
		if got, err := expand(t, l, pattern); err != nil || got != "good" {
			t.Errorf("%q: %q, %v", pattern, got, err)
		}
	}
	if got, err := expand(t, l, ".*"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("names of dots: %q, %v", got, err)
	}
}

// If each directory contains further directories without end, Expand returns an error.
func TestEndlessDirectories(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		if got, err := expand(t, newLiar(t, names...), "**/none"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %q, %v", names, got, err)
		}
	}
}
