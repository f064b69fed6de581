package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// optional lists what a file, a handle or an upload can do besides what each can.
func optional(f any) string {
	var all []string
	add := func(ok bool, name string) {
		if ok {
			all = append(all, name)
		}
	}
	_, ok := f.(store.AttrUpload)
	add(ok, "AttrUpload")
	_, ok = f.(store.ReadableUpload)
	add(ok, "ReadableUpload")
	_, ok = f.(store.Resumer)
	add(ok, "Resumer")
	_, ok = f.(store.TryReader)
	add(ok, "TryReader")
	_, ok = f.(store.Identifier)
	add(ok, "Identifier")
	add(store.LocationOf(f) != "", "Located")
	if file, ok := f.(store.File); ok {
		_, ok = store.SystemFile(file)
		add(ok, "SystemFile")
	}
	return strings.Join(all, " ")
}

// Each view hands on all that a file, a handle or an upload can do, but for what the
// view is there to refuse.
func TestViewsCarryInterfaces(t *testing.T) {
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
	folded, err := store.FoldCase(d)
	if err != nil {
		t.Fatal(err)
	}
	stores := map[string]store.Store{
		"none": d, "ReadOnly": store.ReadOnly(d), "Visible": store.Visible(d), "Finished": store.Finished(d), "UploadOnly": store.UploadOnly(d), "CreateOnly": store.CreateOnly(d),
		"Layers": store.Layers(d, store.Mem(0)), "FoldCase": folded,
	}
	check := func(what, got, all, without string) {
		t.Helper()
		lost := strings.Fields(all)
		lost = slices.DeleteFunc(lost, func(s string) bool { return s == without })
		if want := strings.Join(lost, " "); got != want {
			t.Errorf("%s has %q, want %q", what, got, want)
		}
	}
	n := 0
	for view, s := range stores {
		if view != "UploadOnly" {
			f, err := s.Open(ctx, "old")
			if err != nil {
				t.Fatal(view, err)
			}
			all := "TryReader Identifier Located SystemFile"
			if runtime.GOOS != "linux" {
				all = optional(must(d.Open(ctx, "old")))
			}
			check("a file of "+view, optional(f), all, "")
			shared, err := new(store.SharedFiles).Share(f)
			if err != nil {
				t.Fatal(err)
			}
			check("a shared file of "+view, optional(shared), all, "SystemFile") // its end is not the reader's
			_ = shared.Close()
		}
		if tree, ok := s.(store.Tree); ok {
			a := store.Access{Read: true}
			name := "old"
			if view == "UploadOnly" {
				a, name = store.Access{Write: true, Create: true}, "written"
			}
			h, err := tree.OpenFile(ctx, name, a)
			if err != nil {
				t.Fatal(view, err)
			}
			check("a handle of "+view, optional(h), "Located", "")
			_ = h.Close()
		}
		if view == "ReadOnly" {
			continue
		}
		without := ""
		if view == "UploadOnly" {
			without = "ReadableUpload"
		}
		for _, c := range []store.Create{{}, {Exclusive: true}, {Resume: "me"}, {Exclusive: true, Resume: "me"}} {
			n++
			u, err := s.Create(ctx, fmt.Sprint("new", n), c)
			if err != nil {
				t.Fatal(view, err)
			}
			all := "AttrUpload ReadableUpload Resumer Located"
			if c.Resume == "" {
				all = "AttrUpload ReadableUpload Located"
			}
			check(fmt.Sprintf("an upload %+v of %s", c, view), optional(u), all, without)
			_ = u.Close()
		}
	}
	u, err := store.CreateOnly(store.Mem(0)).Create(ctx, "new", store.Create{})
	if err != nil {
		t.Fatal(err)
	}
	check("an upload in memory", optional(u), "", "") // nothing is made up
	_ = u.Close()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
