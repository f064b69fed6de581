package store

import (
	"os"
	"path/filepath"
	"testing"
)

// An open file knows its place on the disk, whichever view of the tree opened it.
func TestLocationThroughViews(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	d := Dir(root)
	d.Path = dir
	want := func(view, what string, f interface{ Close() error }, err error, name string) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %s: %v", view, what, err)
			return
		}
		defer f.Close()
		if got := LocationOf(f); got != filepath.Join(dir, name) {
			t.Errorf("%s: what %s returns is at %q", view, what, got)
		}
	}
	for view, tree := range map[string]Tree{"none": d, "ReadOnly": ReadOnly(d), "CreateOnly": CreateOnly(d), "Visible": Visible(d)} {
		f, err := tree.Open(ctx, "old")
		want(view, "Open", f, err, "old")
		h, err := tree.OpenFile(ctx, "old", Access{Read: true})
		want(view, "OpenFile", h, err, "old")
	}
	for view, tree := range map[string]Tree{"none": d, "UploadOnly": UploadOnly(d), "CreateOnly": CreateOnly(d), "Visible": Visible(d)} {
		u, err := tree.Create(ctx, "new", Create{})
		want(view, "Create", u, err, "new")
	}
	for view, tree := range map[string]Tree{"none": d, "UploadOnly": UploadOnly(d), "CreateOnly": CreateOnly(d)} {
		h, err := tree.OpenFile(ctx, "of "+view, Access{Write: true, Create: true, Perm: 0o600})
		want(view, "OpenFile of a new file", h, err, "of "+view)
	}
	u, err := Layers(d).Create(ctx, "new", Create{})
	want("Layers", "Create", u, err, "new")
	f, err := d.Open(ctx, "old")
	if err == nil {
		f, err = new(SharedFiles).Share(f)
	}
	want("SharedFiles", "Share", f, err, "old")
}
