package localdir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// In each kind of store, only the file that was described is removed.
func TestRemoveIf(t *testing.T) {
	_, d := tempDir(t)
	for kind, tree := range map[string]store.Tree{"Dir": d, "Mem": store.Mem(0), "Visible": store.Visible(store.Mem(0)), "other": otherTree{store.Mem(0)}} {
		look := func(name string) (fs.FileInfo, store.File) {
			f, err := tree.Open(t.Context(), name)
			if err != nil {
				t.Fatal(kind, err)
			}
			t.Cleanup(func() { _ = f.Close() })
			fi, err := f.Stat()
			if err != nil {
				t.Fatal(kind, err)
			}
			return fi, f
		}
		for _, content := range []string{"one", "three"} {
			if err := upload(t, tree, "f", content, store.Create{}); err != nil {
				t.Fatal(err)
			}
			was, _ := look("f")
			if content == "one" {
				if err := upload(t, tree, "f", "other", store.Create{}); err != nil {
					t.Fatal(err)
				}
				wantError(t, kind+": another file", store.RemoveIf(t.Context(), tree, "f", was), store.ErrChanged)
				wantContent(t, tree, "f", "other")
				continue
			}
			if err := store.RemoveIf(t.Context(), tree, "f", was); err != nil {
				t.Error(kind, err)
			}
			wantError(t, kind+": again", store.RemoveIf(t.Context(), tree, "f", was), fs.ErrNotExist)
		}
	}
	err := d.Mkdir(t.Context(), "sub", 0)
	if err == nil {
		err = d.Symlink(t.Context(), "sub/f", "link")
	}
	if err == nil {
		err = upload(t, d, "sub/f", "x", store.Create{})
	}
	if err != nil {
		t.Fatal(err)
	}
	target, _ := d.Stat(t.Context(), "link")
	directory, _ := d.Stat(t.Context(), "sub")
	if err := store.RemoveIf(t.Context(), d, "link", target); err != nil {
		t.Error("a link to the file:", err)
	}
	wantContent(t, d, "sub/f", "x")
	wantError(t, "a directory", store.RemoveIf(t.Context(), d, "sub", directory), store.ErrNotRegular)
}

// An otherTree is a tree that a program implements itself.
type otherTree struct{ store.Tree }

// A file that is created under the name just before the unlink stays.
func TestRemoveIfCreatedAgain(t *testing.T) {
	dir, d := tempDir(t)
	writeFile(t, dir, "f", "first")
	was, err := d.Stat(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	created := false
	d.Before(func(call string) error {
		if call == "remove" && !created {
			created = true
			writeFile(t, dir, "new", "second")
			return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "f"))
		}
		return nil
	})
	if err := store.RemoveIf(t.Context(), d, "f", was); err != nil {
		t.Error(err)
	}
	wantContent(t, d, "f", "second")
}

// Anything that takes the name at the last moment stays: a file, a directory, and a file that is
// created while another one is being put back.
func TestRemoveIfReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		at   []func(path string) error // functions to call before each rename, or before the link that replaces the rename
		want string
	}{
		"file": {[]func(string) error{func(path string) error {
			return os.WriteFile(path, []byte("second"), 0o644)
		}}, "second"},
		"written": {[]func(string) error{func(path string) error {
			return os.Chtimes(path, time.Time{}, time.Unix(1, 0))
		}}, "first"},
		"directory": {[]func(string) error{func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(path, "below"), 0o755)
		}}, ""},
		"two files": {[]func(string) error{func(path string) error {
			return os.WriteFile(path, []byte("second"), 0o644)
		}, func(path string) error {
			return os.WriteFile(path, []byte("third"), 0o644)
		}}, "third"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := tempDir(t)
			path := filepath.Join(dir, "f")
			writeFile(t, dir, "f", "first")
			f, err := d.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			was, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			d.Before(func(call string) error {
				if call != "rename" && call != "link" || len(test.at) == 0 {
					return nil
				}
				act := test.at[0]
				test.at = test.at[1:]
				if name != "directory" && name != "written" {
					if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
						return err
					}
				}
				return act(path)
			})
			wantError(t, "RemoveIf", store.RemoveIf(t.Context(), d, "f", was), store.ErrChanged)
			if test.want == "" {
				if _, err := d.Lstat(t.Context(), "f/below"); err != nil {
					t.Error(err)
				}
			} else {
				wantContent(t, d, "f", test.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("the directory has %v, %v", left, err)
			}
		})
	}
}
