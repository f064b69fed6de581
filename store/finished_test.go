package store_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// A client that knew the name of an unfinished upload of haul's SFTP client could claim it as its
// own. So such files are not visible.
func TestFinished(t *testing.T) {
	random := strings.Repeat("A", 26)
	temp, record := ".haul-"+random+".upload", ".haul-"+random+".record"
	tree := memWith(t, "x", "f", temp, record)
	secret := func(name string) bool { return name == temp }
	for view, v := range map[string]store.Tree{
		"Visible": store.Visible(tree), "Finished": store.Finished(tree), "ReadOnly": store.ReadOnly(store.Finished(tree)),
		"CreateOnly": store.CreateOnly(tree, secret), "UploadOnly": store.UploadOnly(tree, secret),
	} {
		list, err := v.ReadDir(t.Context(), ".")
		if want := view != "UploadOnly"; err != nil || len(list) > 1 || want && (len(list) < 1 || list[0].Name() != "f") {
			t.Errorf("%s lists %v, %v", view, list, err)
		}
		e, err := v.OpenDir(t.Context(), ".")
		if err != nil {
			t.Fatal(view, err)
		}
		var fi [8]fs.FileInfo
		if n, err := e.Next(fi[:]); n != len(list) || err != nil && err != io.EOF {
			t.Errorf("%s lists %v, %v", view, fi[:n], err)
		}
		_ = e.Close()
		for _, name := range []string{temp, record, strings.ToUpper(record)} {
			if f, err := v.Open(t.Context(), name); err == nil && (name != temp || view != "CreateOnly") {
				t.Errorf("%s opens %s", view, f)
			}
			if h, err := v.OpenFile(t.Context(), name, store.Access{Read: true}); err == nil && (name != temp || view != "CreateOnly") {
				t.Errorf("%s opens %v in place", view, h)
			}
			if err := v.Remove(t.Context(), name); err == nil && name != temp {
				t.Errorf("%s removes %s", view, name)
			}
			if fi, err := v.Stat(t.Context(), name); strings.HasSuffix(view, "ed") && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s describes %v, %v", view, fi, err)
			}
		}
		// These views have removed the file for the client that knew its name.
		if view == "UploadOnly" || view == "CreateOnly" {
			if err := upload(t, tree, temp, "x", store.Create{}); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := store.Finished(tree).Create(t.Context(), temp, store.Create{})
	wantError(t, "Create", err, fs.ErrPermission)
}
