package store_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// optional lists all interfaces that a file, a handle or an upload may have besides its own.
var optional = []reflect.Type{
	reflect.TypeFor[store.TryReader](), reflect.TypeFor[store.Identifier](), reflect.TypeFor[store.Versioned](), reflect.TypeFor[store.PartOpener](),
	reflect.TypeFor[store.Located](), reflect.TypeFor[store.RemoteFile](), reflect.TypeFor[store.Filler](), reflect.TypeFor[store.Resumer](), reflect.TypeFor[store.AttrUpload](),
}

// The list of this test and the list in the package's documentation contain all interfaces of the
// package.
func TestOptionalInterfaces(t *testing.T) {
	base := []string{"Store", "Tree", "File", "Handle", "Upload", "Entries"}
	names, doc := map[string]bool{}, ""
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		doc += f.Doc.Text()
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, isInterface := spec.Type.(*ast.InterfaceType); isInterface && !slices.Contains(base, spec.Name.Name) {
					names[spec.Name.Name] = true
				}
			}
			return true
		})
	}
	for _, of := range optional {
		if !names[of.Name()] {
			t.Errorf("there is no interface %s", of.Name())
		}
		delete(names, of.Name())
		if !strings.Contains(doc, "["+of.Name()+"]") {
			t.Errorf("the package's documentation lacks %s", of.Name())
		}
	}
	if len(names) > 0 {
		t.Errorf("this test lacks %v", names)
	}
	const most = 10 // including the method Capabilities of a Store
	if len(optional)+1 > most {
		t.Errorf("%d optional interfaces, want %d at most", len(optional)+1, most)
	}
}

// capabilities lists the optional interfaces that store.As finds in a file, a handle or an upload.
func capabilities(f any) (all []string) {
	for _, of := range optional {
		for at := f; at != nil; {
			if reflect.TypeOf(at).Implements(of) {
				all = append(all, of.Name())
				break
			}
			outer, ok := at.(interface{ Unwrap() any })
			if !ok {
				break
			}
			at = outer.Unwrap()
		}
	}
	return all
}

// No wrapper loses a capability of a handle or an upload.
func TestWrappersKeepCapabilities(t *testing.T) {
	of := ableTree{store.Mem(0)}
	all := make([]string, len(optional))
	for i, one := range optional {
		all[i] = one.Name()
	}
	check := func(view string, f any, err error) {
		t.Helper()
		if got := capabilities(f); err != nil || !slices.Equal(got, all) {
			t.Errorf("%s: %T has %v, want %v; %v", view, f, got, all, err)
		}
	}
	folded, err := store.FoldCase(of)
	if err != nil {
		t.Fatal(err)
	}
	views := map[string]store.Store{
		"ReadOnly": store.ReadOnly(of), "Visible": store.Visible(of), "Finished": store.Finished(of), "UploadOnly": store.UploadOnly(of), "CreateOnly": store.CreateOnly(of),
		"Layers": store.Layers(of, store.Mem(0)), "FoldCase": folded,
	}
	for view, s := range views {
		if view != "ReadOnly" {
			u, err := s.Create(t.Context(), "new", store.Create{Exclusive: true})
			check("an upload of "+view, u, err)
		}
		tree, ok := s.(store.Tree)
		if !ok {
			continue
		}
		a := store.Access{Read: true}
		if view == "UploadOnly" {
			a = store.Access{Write: true, Create: true}
		}
		h, err := tree.OpenFile(t.Context(), "new", a)
		check("a handle of "+view, h, err)
	}
}

// An ableTree has handles and uploads with all optional interfaces.
type ableTree struct{ store.Tree }

func (ableTree) Create(context.Context, string, store.Create) (store.Upload, error) {
	return ended{}, nil
}

func (ableTree) OpenFile(context.Context, string, store.Access) (store.Handle, error) {
	return ended{}, nil
}

// Unwrap returns a value with all optional methods.
func (ended) Unwrap() any {
	return struct {
		store.TryReader
		store.Identifier
		store.Versioned
		store.PartOpener
		store.Located
		store.RemoteFile
		store.Filler
		store.Resumer
		store.AttrUpload
	}{}
}

// ended is a Handle and an Upload without content.
type ended struct{ store.File }

func (ended) Stat() (info os.FileInfo, err error) { return nil, os.ErrClosed }
func (ended) WriteAt([]byte, int64) (int, error)  { return 0, os.ErrClosed }
func (ended) Truncate(int64) error                { return os.ErrClosed }
func (ended) SetAttr(store.Attr) error            { return os.ErrClosed }
func (ended) Sync() error                         { return os.ErrClosed }
func (ended) Commit() error                       { return os.ErrClosed }
func (ended) Close() error                        { return nil }

// Each view has exactly the capabilities that are listed here, and drops all others.
func TestCapabilitiesOfViews(t *testing.T) {
	of := fullTree{store.Mem(0)}
	folded, err := store.FoldCase(of)
	if err != nil {
		t.Fatal(err)
	}
	const tree = "Features ReadDir OpenDir Remove Birth"
	for view, c := range map[string]struct {
		s    store.Store
		want string
	}{
		"ReadOnly":   {store.ReadOnly(of), tree},
		"UploadOnly": {store.UploadOnly(of), tree}, // whose users may not read what they have uploaded
		"CreateOnly": {store.CreateOnly(of), tree + " OpenUpload"},
		"Visible":    {store.Visible(of), tree + " OpenUpload RemoveIf"},
		"Finished":   {store.Finished(of), tree + " OpenUpload RemoveIf"},
		"Layers":     {store.Layers(of, of), "ReadDir OpenUpload"},
		"FoldCase":   {folded, "ReadDir OpenUpload"},
	} {
		want := strings.Fields(c.want)
		slices.Sort(want)
		if got := present(store.CapabilitiesOf(c.s)); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", view, got, want)
		}
	}
	if got, all := present(store.CapabilitiesOf(of)), reflect.TypeFor[store.Capabilities]().NumField(); len(got) != all {
		t.Errorf("the tree itself has %v of %d capabilities", got, all)
	}
}

// present lists the capabilities that are not zero.
func present(c store.Capabilities) (names []string) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	slices.Sort(names)
	return names
}

// A fullTree has all capabilities.
type fullTree struct{ store.Tree }

func (fullTree) Capabilities() (c store.Capabilities) {
	v := reflect.ValueOf(&c).Elem()
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("it is not called") }))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
	c.Features = store.Features{OwnTimes: true}
	return c
}

// Files of a directory have the same capabilities through each view. Uploads know the permissions
// that they will have, in a drop box too.
func TestDirectoryThroughViews(t *testing.T) {
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
	check := func(what string, f any, want ...string) {
		t.Helper()
		if got := capabilities(f); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", what, got, want)
		}
	}
	file := []string{"TryReader", "Identifier", "PartOpener", "Located"}
	if runtime.GOOS != "linux" {
		f, err := d.Open(ctx, "old")
		if err != nil {
			t.Fatal(err)
		}
		file = capabilities(f)
		_ = f.Close()
	}
	n := 0
	for view, s := range stores {
		if view != "UploadOnly" {
			f, err := s.Open(ctx, "old")
			if err != nil {
				t.Fatal(view, err)
			}
			check("a file of "+view, f, file...)
			_ = f.Close()
		}
		if view == "ReadOnly" {
			continue
		}
		for _, c := range []store.Create{{}, {Exclusive: true}, {Resume: "me"}, {Exclusive: true, Resume: "me"}} {
			n++
			c.Perm = 0o640
			u, err := s.Create(ctx, fmt.Sprint("new", n), c)
			if err != nil {
				t.Fatal(view, err)
			}
			want := []string{"Located", "Resumer", "AttrUpload"}
			if c.Resume == "" {
				want = []string{"Located", "AttrUpload"}
			}
			check(fmt.Sprintf("an upload %+v of %s", c, view), u, want...)
			a, ok := store.As[store.AttrUpload](u)
			if !ok {
				continue
			}
			if perm, ok := a.Perm(); !ok || runtime.GOOS != "windows" && perm != 0o640 {
				t.Errorf("an upload of %s has the permissions %v, %v", view, perm, ok)
			}
			_ = u.Close()
		}
	}
	u, err := store.CreateOnly(store.Mem(0)).Create(ctx, "new", store.Create{})
	if err != nil {
		t.Fatal(err)
	}
	check("an upload in memory", u) // capabilities are not invented
	_ = u.Close()
}
