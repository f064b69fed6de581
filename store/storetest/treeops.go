package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// An Operation is a call on a tree that [Fill] has filled. It succeeds if the tree has all
// capabilities.
type Operation struct {
	Name    string // for example "rename, replacing"
	Changes bool   // the call changes the tree
	Do      func(ctx context.Context, tr store.Tree) error
}

// Fill creates, in an empty tree, the files that the [Operations] need. It returns false if the
// tree does not support symbolic links and second names of files; then it creates everything else.
func Fill(t testing.TB, tr store.Tree) bool {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	for _, dir := range []string{"d", "d/e", "empty"} {
		must(tr.Mkdir(ctx, dir, 0o755))
	}
	for _, name := range []string{"f", "d/f", "d/e/f"} {
		u, err := tr.Create(ctx, name, store.Create{})
		must(err)
		_, err = u.WriteAt([]byte("content of "+name), 0)
		must(err)
		must(u.Commit())
	}
	err := tr.Symlink(ctx, "d/f", "l")
	if errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	must(err)
	return true
}

// Operations returns an Operation for each method of a tree; most methods have several variants.
func Operations() []Operation {
	ops := []Operation{
		{"open", false, func(ctx context.Context, tr store.Tree) error {
			f, err := tr.Open(ctx, "f")
			return readAndClose(f, err)
		}},
		{"stat", false, func(ctx context.Context, tr store.Tree) error { return second(tr.Stat(ctx, "f")) }},
		{"lstat", false, func(ctx context.Context, tr store.Tree) error { return second(tr.Lstat(ctx, "l")) }},
		{"readlink", false, func(ctx context.Context, tr store.Tree) error { return second(tr.Readlink(ctx, "l")) }},
		{"readdir", false, func(ctx context.Context, tr store.Tree) error { return second(tr.ReadDir(ctx, "d")) }},
		{"opendir", false, func(ctx context.Context, tr store.Tree) error {
			e, err := tr.OpenDir(ctx, "d")
			if err == nil {
				_, err = e.Next(make([]fs.FileInfo, 10))
				_ = e.Close()
			}
			return err
		}},
		{"openfile to read", false, func(ctx context.Context, tr store.Tree) error {
			h, err := tr.OpenFile(ctx, "f", store.Access{Read: true})
			return readAndClose(h, err)
		}},
		{"openfile to write", true, inPlace("f", store.Access{Write: true})},
		{"openfile to append", true, inPlace("f", store.Access{Append: true})},
		{"openfile to read and write", true, inPlace("f", store.Access{Read: true, Write: true})},
		{"openfile to create or empty", true, inPlace("f", store.Access{Write: true, Create: true, Truncate: true})},
		{"openfile of a new name", true, inPlace("new", store.Access{Write: true, Create: true})},
		{"openfile of a new name, exclusive", true, inPlace("new", store.Access{Append: true, Create: true, Exclusive: true})},
		{"create", true, upload("new", store.Create{})},
		{"create, replacing", true, upload("f", store.Create{Size: 100})},
		{"create, exclusive", true, upload("d/new", store.Create{Exclusive: true})},
		{"mkdir", true, func(ctx context.Context, tr store.Tree) error { return tr.Mkdir(ctx, "new", 0o700) }},
		{"remove", true, func(ctx context.Context, tr store.Tree) error { return tr.Remove(ctx, "f") }},
		{"rmdir", true, func(ctx context.Context, tr store.Tree) error { return tr.RemoveDir(ctx, "empty") }},
		{"rename", true, func(ctx context.Context, tr store.Tree) error { return tr.Rename(ctx, "f", "new", false) }},
		{"rename of a directory", true, func(ctx context.Context, tr store.Tree) error {
			return tr.Rename(ctx, "d", "empty/d", false)
		}},
		{"rename, replacing", true, func(ctx context.Context, tr store.Tree) error { return tr.Rename(ctx, "f", "d/f", true) }},
		{"link", true, func(ctx context.Context, tr store.Tree) error { return tr.Link(ctx, "f", "new") }},
		{"symlink", true, func(ctx context.Context, tr store.Tree) error { return tr.Symlink(ctx, "f", "new") }},
		{"setattr size", true, func(ctx context.Context, tr store.Tree) error {
			return tr.SetAttr(ctx, "f", store.Attr{Size: new(int64(3))}, true)
		}},
	}
	if runtime.GOOS != "windows" {
		ops = append(ops, Operation{"setattr mode", true, func(ctx context.Context, tr store.Tree) error {
			return tr.SetAttr(ctx, "d", store.Attr{Mode: new(fs.FileMode(0o600))}, false)
		}})
	}
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		ops = append(ops, Operation{"statvfs", false, func(ctx context.Context, tr store.Tree) error {
			return second(tr.Space(ctx, "d"))
		}})
	}
	return ops
}

func readAndClose(f store.File, err error) error {
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(make([]byte, 1), 0)
	return err
}

// inPlace returns a function that opens a file in place and writes to it.
func inPlace(name string, a store.Access) func(context.Context, store.Tree) error {
	return func(ctx context.Context, tr store.Tree) error {
		h, err := tr.OpenFile(ctx, name, a)
		if err != nil {
			return err
		}
		defer h.Close()
		_, err = h.WriteAt([]byte("written"), 0)
		return err
	}
}

func upload(name string, c store.Create) func(context.Context, store.Tree) error {
	return func(ctx context.Context, tr store.Tree) error {
		u, err := tr.Create(ctx, name, c)
		if err != nil {
			return err
		}
		defer u.Close()
		if _, err := u.WriteAt([]byte("uploaded"), 0); err != nil {
			return err
		}
		return u.Commit()
	}
}

// RunView checks a view that allows only some operations of a tree. Each of the [Operations] must
// either have the same effect as on the tree itself, or have no effect and return fs.ErrPermission
// or fs.ErrExist. open returns a view, and the empty tree that it restricts. allowed lists the
// names of the operations that must succeed; all others must be refused.
func RunView(t *testing.T, open func(t *testing.T) (view, behind store.Tree), allowed ...string) {
	may := map[string]bool{}
	for _, name := range allowed {
		may[name] = true
	}
	for _, op := range Operations() {
		allow := may[op.Name]
		delete(may, op.Name)
		t.Run(strings.ReplaceAll(op.Name, ",", ""), func(t *testing.T) {
			view, behind := open(t)
			if !Fill(t, behind) {
				t.Skip("no symbolic links")
			}
			before := Snapshot(t, behind)
			err := op.Do(t.Context(), view)
			if !allow {
				if !errors.Is(err, fs.ErrExist) {
					wantError(t, op.Name, err, fs.ErrPermission)
				}
				wantUnchanged(t, behind, op.Name, before)
				return
			}
			wantNil(t, op.Name, err)
			_, twin := open(t)
			Fill(t, twin)
			wantNil(t, op.Name+" without the view", op.Do(t.Context(), twin))
			if got, want := Snapshot(t, behind), Snapshot(t, twin); got != want {
				t.Errorf("%s through the view made of the tree\n%swithout it\n%s", op.Name, got, want)
			}
		})
	}
	for name := range may {
		t.Errorf("no operation has the name %q", name)
	}
}

// named returns the operations that take a name, each as a function that has the name as its only
// parameter.
func named(ctx context.Context, tr store.Tree) map[string]func(name string) error {
	return map[string]func(name string) error{
		"lstat":    func(name string) error { return second(tr.Lstat(ctx, name)) },
		"opendir":  func(name string) error { return second(tr.OpenDir(ctx, name)) },
		"openfile": func(name string) error { return second(tr.OpenFile(ctx, name, store.Access{Read: true})) },
		"openfile to create": func(name string) error {
			return second(tr.OpenFile(ctx, name, store.Access{Write: true, Create: true}))
		},
		"mkdir":       func(name string) error { return tr.Mkdir(ctx, name, 0) },
		"remove":      func(name string) error { return tr.Remove(ctx, name) },
		"rmdir":       func(name string) error { return tr.RemoveDir(ctx, name) },
		"rename from": func(name string) error { return tr.Rename(ctx, name, "new", false) },
		"rename to":   func(name string) error { return tr.Rename(ctx, "f", name, true) },
		"link from":   func(name string) error { return tr.Link(ctx, name, "new") },
		"link to":     func(name string) error { return tr.Link(ctx, "f", name) },
		"symlink":     func(name string) error { return tr.Symlink(ctx, "f", name) },
		"readlink":    func(name string) error { return second(tr.Readlink(ctx, name)) },
		"setattr":     func(name string) error { return tr.SetAttr(ctx, name, store.Attr{Mode: new(fs.FileMode(0o600))}, true) },
		"setattr not following": func(name string) error {
			return tr.SetAttr(ctx, name, store.Attr{Mode: new(fs.FileMode(0o600))}, false)
		},
		"statvfs": func(name string) error { return second(tr.Space(ctx, name)) },
	}
}

func testTreeNames(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	before := Snapshot(t, tr)
	ops := named(t.Context(), tr)
	for _, name := range badNames {
		for what, op := range ops {
			wantError(t, fmt.Sprintf("%s(%q)", what, name), op(name), fs.ErrInvalid)
		}
	}
	wantUnchanged(t, tr, "bad names", before)
}

func testTreeErrors(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	before := Snapshot(t, tr)
	for what, op := range named(t.Context(), tr) {
		if what == "rename to" && store.CapabilitiesOf(tr).ImpliedDirs {
			continue // in such a store, the directory need not exist
		}
		err := op("some-directory/some-name")
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		wantError(t, what+" in no directory", err, fs.ErrNotExist)
		if err == nil || !strings.Contains(err.Error(), "some-directory/some-name") {
			t.Errorf("error %q does not say on what", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, op := range named(ctx, tr) {
		wantError(t, what+" when it is over", op("f"), context.Canceled)
	}
	wantUnchanged(t, tr, "all that", before)
}
