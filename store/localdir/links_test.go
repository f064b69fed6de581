package localdir_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// chrootDir returns a directory with absolute links, whose store follows them.
func chrootDir(t *testing.T) (string, *localdir.Dir) {
	t.Helper()
	dir, d := tempDir(t)
	d.LinksFromRoot = true
	writeFile(t, dir, "d/sub/f", "content")
	symlink(t, "/d/sub/f", dir, "file")
	symlink(t, "/d", dir, "dir")
	symlink(t, "/dir/sub", dir, "d/again")   // an absolute link that leads through another one
	symlink(t, "../file", dir, "d/relative") // a relative link to an absolute one
	symlink(t, "//d/./sub/../sub//f", dir, "odd")
	symlink(t, "/", dir, "d/top")
	symlink(t, "/d/new", dir, "dangling")
	return dir, d
}

// contentOf returns the content of a file of a store.
func contentOf(t *testing.T, st store.Store, name string) string {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// Absolute links begin at the root of the store, wherever they are in a name.
func TestLinksFromRoot(t *testing.T) {
	dir, d := chrootDir(t)
	ctx := t.Context()
	then := time.Unix(1_000_000_000, 0)
	for _, name := range []string{
		"file", "dir/sub/f", "d/again/f", "d/relative", "odd", "d/top/file", "dir/top/d/top/dir/again/f", "d/top/odd",
	} {
		if got := contentOf(t, d, name); got != "content" {
			t.Errorf("%s holds %q", name, got)
		}
		h, err := d.OpenFile(ctx, name, store.Access{Read: true, Write: true})
		if err != nil {
			t.Errorf("%s in place: %v", name, err)
			continue
		}
		h.Close()
		if err := d.SetAttr(ctx, name, store.Attr{Mode: new(fs.FileMode(0o644)), ModTime: then}, true); err != nil {
			t.Errorf("attributes of %s: %v", name, err)
		}
		if fi, err := d.Stat(ctx, name); err != nil || !fi.ModTime().Equal(then) {
			t.Errorf("%s is %v, %v", name, fi, err)
		}
	}
	for _, name := range []string{"dir/sub", "d/again", "dir/again", "d/top/dir/sub"} {
		list, err := d.ReadDir(ctx, name)
		if err != nil || len(list) != 1 || list[0].Name() != "f" {
			t.Errorf("%s lists %v, %v", name, list, err)
			continue
		}
		if fi, err := list[0].Info(); err != nil || fi.Size() != 7 {
			t.Errorf("the entry of %s is %v, %v", name, fi, err)
		}
		e, err := d.OpenDir(ctx, name)
		if err != nil {
			t.Errorf("open %s: %v", name, err)
			continue
		}
		e.Close()
	}
	if text, err := d.Readlink(ctx, "dir/again"); err != nil || text != "/dir/sub" {
		t.Errorf("the text of a link is %q, %v", text, err)
	}
	if fi, err := d.Lstat(ctx, "dir"); err != nil || fi.Mode().Type() != fs.ModeSymlink {
		t.Errorf("Lstat follows a link: %v, %v", fi, err)
	}
	sub, closer, err := store.CapabilitiesOf(d).Sub(ctx, "dir")
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	symlink(t, "/sub/f", dir, "d/of-sub")
	if got := contentOf(t, sub, "of-sub"); got != "content" {
		t.Errorf("in a store of a directory it holds %q", got)
	}
	_, err = d.Stat(ctx, "d/of-sub")
	wantError(t, "Stat of a link of another root", err, fs.ErrNotExist)
}

// Changes through such names affect the files that the names lead to.
func TestLinksFromRootChanges(t *testing.T) {
	dir, d := chrootDir(t)
	ctx := t.Context()
	if err := upload(t, d, "file", "replaced", store.Create{}); err != nil {
		t.Error(err)
	}
	wantFile(t, dir, "d/sub/f", "replaced")
	if err := upload(t, d, "dangling", "new", store.Create{}); err != nil {
		t.Error(err)
	}
	wantFile(t, dir, "d/new", "new")
	if err := upload(t, d, "dir/top/x/y/z", "deep", store.Create{Parents: true}); err != nil {
		t.Error(err)
	}
	wantFile(t, dir, "x/y/z", "deep")
	for what, err := range map[string]error{
		"mkdir":   d.Mkdir(ctx, "dir/made", 0o750),
		"link":    d.Link(ctx, "d/top/d/new", "dir/linked"),
		"symlink": d.Symlink(ctx, "/d/new", "dir/symlinked"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"rename":      d.Rename(ctx, "dir/linked", "d/top/renamed", false),
		"remove":      d.Remove(ctx, "dir/symlinked"),
		"rmdir":       d.RemoveDir(ctx, "dir/made"),
		"remove link": d.Remove(ctx, "dangling"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantFile(t, dir, "renamed", "new")
	wantFile(t, dir, "d/new", "new")
	_, err := d.Create(ctx, "file", store.Create{Exclusive: true})
	wantError(t, "an exclusive upload to a link", err, fs.ErrExist)
}

// No link leads out of the store, and no link is followed forever.
func TestLinksFromRootConfined(t *testing.T) {
	dir, d := chrootDir(t)
	outside := t.TempDir()
	writeFile(t, outside, "secret", "secret")
	symlink(t, filepath.Join(outside, "secret"), dir, "out")
	symlink(t, "/../../../../../../../../"+filepath.Join(outside, "secret"), dir, "climbs")
	symlink(t, "/d/../..", dir, "above")
	symlink(t, "../../"+filepath.Join(outside, "secret"), dir, "d/climbs")
	symlink(t, "/loop", dir, "loop")
	symlink(t, "/two/x", dir, "one")
	symlink(t, "/one/x", dir, "two")
	ctx := t.Context()
	for name, want := range map[string]error{
		"out": fs.ErrNotExist, "climbs": fs.ErrPermission, "above": fs.ErrPermission, "above/secret": fs.ErrPermission,
		"d/climbs": fs.ErrPermission, "loop": syscall.ELOOP, "loop/x": syscall.ELOOP, "one": syscall.ELOOP,
		"dir/top/d/top/none": fs.ErrNotExist,
	} {
		_, errs := d.Open(ctx, name)
		wantError(t, "open "+name, errs, want)
		_, errs = d.Stat(ctx, name)
		wantError(t, "stat "+name, errs, want)
		_, errs = d.OpenFile(ctx, name, store.Access{Read: true})
		wantError(t, "open in place "+name, errs, want)
	}
	for i := range 42 {
		symlink(t, fmt.Sprintf("/link%d", i+1), dir, fmt.Sprintf("link%d", i))
	}
	writeFile(t, dir, "link42", "the end")
	if got := contentOf(t, d, "link2"); got != "the end" {
		t.Errorf("40 links lead to %q", got)
	}
	_, err := d.Open(ctx, "link1")
	wantError(t, "41 links", err, syscall.ELOOP)
	long := strings.Repeat("d/top/", 200) + "file"
	if _, err := d.Open(ctx, long); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a name of 200 links: %v", err)
	}
	if fi, err := os.Lstat(filepath.Join(outside, "secret")); err != nil || fi.Size() != 6 {
		t.Errorf("what is outside is %v, %v", fi, err)
	}
}
