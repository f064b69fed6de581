package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A caseless tree ignores case, as file systems of Windows and macOS do.
type caseless struct{ store.Tree }

func (c caseless) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return c.Tree.Stat(ctx, lower(name))
}

func (c caseless) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return c.Tree.Lstat(ctx, lower(name))
}

func (c caseless) Open(ctx context.Context, name string) (store.File, error) {
	return c.Tree.Open(ctx, lower(name))
}

func (c caseless) Create(ctx context.Context, name string, o store.Create) (store.Upload, error) {
	return c.Tree.Create(ctx, lower(name), o)
}

func (c caseless) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	return c.Tree.OpenFile(ctx, lower(name), a)
}

func (c caseless) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return c.Tree.Mkdir(ctx, lower(name), perm)
}

func (c caseless) RemoveDir(ctx context.Context, name string) error {
	return c.Tree.RemoveDir(ctx, lower(name))
}

func (c caseless) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	return c.Tree.SetAttr(ctx, lower(name), a, follow)
}

// lower returns a name in lower case if it is text.
func lower(name string) string {
	if !utf8.ValidString(name) {
		return name
	}
	return strings.ToLower(name)
}

// Names of files or directories that differ in case do not replace each other in a target that
// ignores case, neither in the first run nor in the next.
func TestNamesThatDifferInCase(t *testing.T) {
	names := []string{"File", "FILE", "file", "Dir/inside", "dir/other", "ÄÖ", "äö", "alone", "byte\xfe", "byte\xff"}
	from := store.Mem(0)
	for i, name := range names { // all have different sizes, or Continue could mistake one for another
		put(t, from, "top/"+name, []byte(name+strings.Repeat(".", i)))
	}
	for _, o := range []treecopy.Options{{}, {Continue: true}, {InPlace: true}} {
		t.Run(fmt.Sprint(o.Continue, o.InPlace), func(t *testing.T) {
			o.Recursive = true
			exact := store.Mem(0)
			if r, _, err := copyAll(t.Context(), from, exact, "new", o, "top"); err != nil || r.Copied != int64(len(names)) {
				t.Errorf("where case counts: %+v, %v", r, err)
			}
			wantSame(t, contents(t, from, false), renamedTop(contents(t, exact, false)))
			to := store.Mem(0)
			for range 2 {
				r, s, err := copyAll(t.Context(), from, caseless{to}, "new/", o, "top")
				if !errors.Is(err, treecopy.ErrConflict) || r.Failed != 4 || !strings.Contains(err.Error(), "upper and lower case") {
					t.Errorf("%+v, %v", r, err)
				}
				if s.outcomes["top/alone"].Err != nil {
					t.Error(s.outcomes["top/alone"].Err)
				}
				there := strings.TrimRight(string(get(t, to, "new/top/file")), ".")
				if o := s.outcomes["top/"+there]; o.Err != nil {
					t.Errorf("there is %q, of which the copy says %v", there, o.Err)
				}
				for name := range contents(t, to, false) {
					if strings.Contains(name, ".haul-") {
						t.Errorf("left behind: %s", name)
					}
				}
			}
		})
	}
}

// renamedTop returns the contents with the source's name in place of the target's.
func renamedTop(m map[string]string) map[string]string {
	other := map[string]string{}
	for name, text := range m {
		other["top"+strings.TrimPrefix(name, "new")] = text
	}
	return other
}

// A name that a listing has twice is copied once, and causes an error. Whatever the two entries
// are, their contents are never mixed.
func TestNamesTwice(t *testing.T) {
	for _, kinds := range [][]fs.FileMode{{0o644, 0o644}, {0o644, fs.ModeDir | 0o755}, {fs.ModeDir | 0o755, 0o644}, {fs.ModeDir | 0o755, fs.ModeDir | 0o755}} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			from, entry := newLiar(t)
			for _, kind := range kinds {
				from.listings["top"] = append(from.listings["top"], entry("d", kind))
			}
			from.listings["top"] = append(from.listings["top"], entry("other", 0o644))
			from.listings["top/d"] = []fs.FileInfo{entry("inside", 0o644)}
			to, dir := dirTree(t)
			r, _, err := copyAll(t.Context(), from, to, "target/", recursive, "top")
			if !errors.Is(err, treecopy.ErrConflict) || r.Failed != 1 {
				t.Errorf("%+v, %v", r, err)
			}
			want := []string{"target", "target/top", "target/top/d", "target/top/other"}
			if kinds[0].IsDir() {
				want = append(want, "target/top/d/inside")
			}
			wantNames(t, to, want...)
			wantNothingLeft(t, dir)
		})
	}
}

// oneName is a listing that repeats one name without end.
type oneName struct{ fs.FileInfo }

func (o oneName) Next(into []fs.FileInfo) (int, error) {
	for i := range into {
		into[i] = o.FileInfo
	}
	return len(into), nil
}

func (oneName) Close() error { return nil }

type repeating struct {
	store.Tree
	entry fs.FileInfo
}

func (r repeating) OpenDir(context.Context, string) (store.Entries, error) {
	return oneName{r.entry}, nil
}

// A copy stops reading a listing that repeats a name without end.
func TestNameTwiceWithoutEnd(t *testing.T) {
	from, entry := newLiar(t)
	r, _, err := copyAll(t.Context(), repeating{from, entry("f", 0o644)}, store.Mem(0), "new", recursive, "top")
	if !errors.Is(err, treecopy.ErrConflict) || r.Copied != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
