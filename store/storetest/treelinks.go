package storetest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// testLink gives a file a second name.
func testLink(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	mkdir(t, tr, "d")
	err := tr.Link(t.Context(), "f", "d/g")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("files have one name only")
	}
	wantNil(t, "Link", err)
	wantContent(t, tr, "d/g", []byte("content"))
	before := Snapshot(t, tr)
	for _, tt := range []struct {
		from, to string
		want     error
	}{
		{"f", "d/g", fs.ErrExist}, {"f", "f", fs.ErrExist}, {"f", "d", fs.ErrExist}, {"f", ".", fs.ErrExist},
		{"missing", "x", fs.ErrNotExist}, {"f", "missing/x", fs.ErrNotExist}, {"f", "d/g/x", fs.ErrNotExist},
		{"d", "x", fs.ErrPermission}, {".", "x", fs.ErrPermission},
	} {
		wantError(t, "Link from "+tt.from+" to "+tt.to, tr.Link(t.Context(), tt.from, tt.to), tt.want)
	}
	wantUnchanged(t, tr, "Link", before)

	// Both names lead to the same file, until an upload replaces one of them.
	h := openFile(t, tr, "f", store.Access{Read: true, Write: true})
	write(t, h, "CON", 0)
	wantContent(t, tr, "d/g", []byte("CONtent"))
	wantNil(t, "Rename of one over the other", tr.Rename(t.Context(), "f", "d/g", true))
	wantContent(t, tr, "f", []byte("CONtent"))
	Put(t, tr, "f", "new")
	wantContent(t, tr, "d/g", []byte("CONtent"))
	write(t, h, "X", 0)
	wantContent(t, tr, "d/g", []byte("XONtent"))
	wantContent(t, tr, "f", []byte("new"))
	closeAll(t, h)
	wantNil(t, "Remove", tr.Remove(t.Context(), "d/g"))
	wantContent(t, tr, "f", []byte("new"))
	wantMissing(t, tr, "d/g")
}

func testSymlink(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	mkdir(t, tr, "d")
	Put(t, tr, "d/g", "in d")
	symlink(t, tr, "f", "to-f")
	symlink(t, tr, "../f", "d/up")
	symlink(t, tr, "d", "to-d")
	symlink(t, tr, "to-d/up", "far")
	symlink(t, tr, "d/new", "to-new")
	for name, want := range map[string]string{"to-f": "f", "d/up": "../f", "far": "to-d/up", "to-new": "d/new"} {
		if got, err := tr.Readlink(t.Context(), name); got != want || err != nil {
			t.Errorf("Readlink(%s) = %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"to-f", "d/up", "to-d/up", "far"} {
		wantContent(t, tr, name, []byte("content"))
		if fi, err := tr.Lstat(t.Context(), name); err != nil || fi.Mode().Type() != fs.ModeSymlink {
			t.Errorf("Lstat(%s) = %v, %v, want a link", name, fi, err)
		}
		h := openFile(t, tr, name, store.Access{Read: true, Write: true})
		wantHandle(t, h, []byte("content"))
		closeAll(t, h)
	}
	wantContent(t, tr, "to-d/g", []byte("in d"))
	if fi, err := tr.Stat(t.Context(), "to-d"); err != nil || !fi.IsDir() || fi.Name() != "to-d" {
		t.Errorf("Stat of a link to a directory = %v, %v", fi, err)
	}
	closeAll(t, openFile(t, tr, "to-new", store.Access{Write: true, Create: true}))
	wantContent(t, tr, "d/new", nil)

	symlink(t, tr, "nowhere", "dangling")
	before := Snapshot(t, tr)
	_, err := tr.OpenFile(t.Context(), "to-f", store.Access{Write: true, Create: true, Exclusive: true})
	wantError(t, "exclusive OpenFile of a link", err, fs.ErrExist)
	_, err = tr.OpenFile(t.Context(), "dangling", store.Access{Write: true, Create: true, Exclusive: true})
	wantError(t, "exclusive OpenFile of a link to nowhere", err, fs.ErrExist)
	_, err = tr.Create(t.Context(), "dangling", store.Create{Exclusive: true})
	wantError(t, "exclusive Create of a link to nowhere", err, fs.ErrExist)
	wantError(t, "Symlink of a name that is taken", tr.Symlink(t.Context(), "x", "to-f"), fs.ErrExist)
	wantError(t, "Symlink of the root", tr.Symlink(t.Context(), "x", "."), fs.ErrExist)
	wantError(t, "Symlink in no directory", tr.Symlink(t.Context(), "x", "missing/l"), fs.ErrNotExist)
	for _, text := range []string{"", "a\x00b", strings.Repeat("x", 4097)} {
		wantError(t, "Symlink of bad text", tr.Symlink(t.Context(), text, "bad"), fs.ErrInvalid)
	}
	for name, want := range map[string]error{
		"f": fs.ErrInvalid, "d": fs.ErrInvalid, ".": fs.ErrInvalid, "missing": fs.ErrNotExist, "f/x": fs.ErrNotExist,
	} {
		_, err := tr.Readlink(t.Context(), name)
		wantError(t, "Readlink of "+name, err, want)
	}
	wantError(t, "RemoveDir of a link", tr.RemoveDir(t.Context(), "to-d"), fs.ErrNotExist)
	wantUnchanged(t, tr, "all that", before)

	wantNil(t, "Remove of a link", tr.Remove(t.Context(), "to-d"))
	wantContent(t, tr, "d/g", []byte("in d"))
	wantNil(t, "Rename of a link", tr.Rename(t.Context(), "to-f", "d/to-f", false))
	wantError(t, "Open of a link that leads nowhere now", openError(t, tr, "d/to-f"), fs.ErrNotExist)
	wantNil(t, "Rename over a link", tr.Rename(t.Context(), "d/g", "d/up", true))
	wantContent(t, tr, "f", []byte("content"))
	wantContent(t, tr, "d/up", []byte("in d"))
}

func openError(t *testing.T, tr store.Tree, name string) error {
	f, err := tr.Open(t.Context(), name)
	if err == nil {
		_ = f.Close()
	}
	return err
}

// testLinksOutside makes links that lead out of the tree. Making them is allowed, but following
// them is not. The error must be the same whether or not the target exists.
func testLinksOutside(t *testing.T, tr store.Tree) {
	mkdir(t, tr, "d")
	Put(t, tr, "f", "content")
	texts := map[string]string{
		"up": "../x", "far": "../../../../../../../../../../etc/passwd", "abs": "/etc/passwd", "absnothing": "/no/such",
		"upnothing": "../no/such", "through": "d/../../x",
	}
	for name, text := range texts {
		symlink(t, tr, text, name)
		if got, err := tr.Readlink(t.Context(), name); got != text || err != nil {
			t.Errorf("Readlink(%s) = %q, %v, want %q", name, got, err, text)
		}
	}
	before := Snapshot(t, tr)
	reasons := map[string]bool{}
	for link := range texts {
		for _, name := range []string{link, link + "/x", link + "/no/such"} {
			for op, err := range followed(t, tr, name, name == link) {
				if err == nil {
					t.Errorf("%s of %s succeeded", op, name)
					continue
				}
				wantError(t, op+" of "+name, err, fs.ErrPermission)
				reasons[err.Error()[strings.LastIndex(err.Error(), name)+len(name):]] = true
			}
		}
	}
	if len(reasons) != 1 {
		t.Errorf("%d different answers: %v", len(reasons), reasons)
	}
	wantUnchanged(t, tr, "following links outside", before)
	for link := range texts {
		wantNil(t, "Remove of the link itself", tr.Remove(t.Context(), link))
	}
}

// followed makes every call that follows links, and returns the errors. With atEnd, the link is the
// last element of name; otherwise it is one of the directories in name.
func followed(t *testing.T, tr store.Tree, name string, atEnd bool) map[string]error {
	ctx := t.Context()
	errs := map[string]error{}
	_, errs["stat"] = tr.Stat(ctx, name)
	_, errs["open"] = tr.Open(ctx, name)
	_, errs["create"] = tr.Create(ctx, name, store.Create{})
	_, errs["openfile"] = tr.OpenFile(ctx, name, store.Access{Read: true})
	_, errs["openfile for writing"] = tr.OpenFile(ctx, name, store.Access{Write: true, Create: true})
	_, errs["readdir"] = tr.ReadDir(ctx, name)
	_, errs["opendir"] = tr.OpenDir(ctx, name)
	_, errs["statvfs"] = tr.Space(ctx, name)
	size, mode := int64(0), fs.FileMode(0o777)
	errs["setattr size"] = tr.SetAttr(ctx, name, store.Attr{Size: &size}, true)
	errs["setattr mode"] = tr.SetAttr(ctx, name, store.Attr{Mode: &mode}, true)
	if errors.Is(errs["statvfs"], errors.ErrUnsupported) {
		delete(errs, "statvfs")
	}
	if atEnd {
		return errs
	}
	_, errs["lstat"] = tr.Lstat(ctx, name)
	_, errs["readlink"] = tr.Readlink(ctx, name)
	_, errs["exclusive create"] = tr.Create(ctx, name, store.Create{Exclusive: true})
	_, errs["exclusive openfile"] = tr.OpenFile(ctx, name, store.Access{Write: true, Create: true, Exclusive: true})
	errs["mkdir"] = tr.Mkdir(ctx, name, 0)
	errs["remove"] = tr.Remove(ctx, name)
	errs["rmdir"] = tr.RemoveDir(ctx, name)
	errs["symlink"] = tr.Symlink(ctx, "x", name)
	errs["rename to"] = tr.Rename(ctx, "f", name, true)
	errs["rename to, not replacing"] = tr.Rename(ctx, "f", name, false)
	errs["link to"] = tr.Link(ctx, "f", name)
	errs["setattr of itself"] = tr.SetAttr(ctx, name, store.Attr{Mode: &mode}, false)
	return errs
}

func testLinkLoop(t *testing.T, tr store.Tree) {
	symlink(t, tr, "self", "self")
	symlink(t, tr, "pong", "ping")
	symlink(t, tr, "ping", "pong")
	before := Snapshot(t, tr)
	for _, name := range []string{"self", "ping", "self/x", "ping/x"} {
		for op, err := range followed(t, tr, name, !strings.Contains(name, "/")) {
			if err == nil {
				t.Errorf("%s of %s succeeded", op, name)
			}
		}
	}
	wantUnchanged(t, tr, "going round in circles", before)
}
