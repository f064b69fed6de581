package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// An open file reports its path on the disk, whichever view of the tree opened it.
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
	d := localdir.New(root)
	d.Path = dir
	want := func(view, what string, f interface{ Close() error }, err error, name string) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %s: %v", view, what, err)
			return
		}
		defer f.Close()
		if got := store.LocationOf(f).Path; got != filepath.Join(dir, name) {
			t.Errorf("%s: what %s returns is at %q", view, what, got)
		}
	}
	for view, tree := range map[string]store.Tree{"none": d, "ReadOnly": store.ReadOnly(d), "CreateOnly": store.CreateOnly(d), "Visible": store.Visible(d)} {
		f, err := tree.Open(ctx, "old")
		want(view, "Open", f, err, "old")
		h, err := tree.OpenFile(ctx, "old", store.Access{Read: true})
		want(view, "OpenFile", h, err, "old")
	}
	for view, tree := range map[string]store.Tree{"none": d, "UploadOnly": store.UploadOnly(d), "CreateOnly": store.CreateOnly(d), "Visible": store.Visible(d)} {
		u, err := tree.Create(ctx, "new", store.Create{})
		want(view, "Create", u, err, "new")
	}
	for view, tree := range map[string]store.Tree{"none": d, "UploadOnly": store.UploadOnly(d), "CreateOnly": store.CreateOnly(d)} {
		h, err := tree.OpenFile(ctx, "of "+view, store.Access{Write: true, Create: true, Perm: 0o600})
		want(view, "OpenFile of a new file", h, err, "of "+view)
	}
	u, err := store.Layers(d).Create(ctx, "new", store.Create{})
	want("Layers", "Create", u, err, "new")
}
