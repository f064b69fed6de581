package localdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// wantEntries checks the entries of a directory, including temporary files.
func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, names, want)
	}
}

// The directories above a file are made if Parents is set, in every view of the store. They have
// the same permissions as other directories.
func TestParents(t *testing.T) {
	for name, around := range map[string]func(*localdir.Dir) store.Store{
		"Dir":    func(d *localdir.Dir) store.Store { return d },
		"Layers": func(d *localdir.Dir) store.Store { return store.Layers(d, store.Mem(0)) },
		"Fold": func(d *localdir.Dir) store.Store {
			f, err := store.FoldCase(d)
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
		"UploadOnly": func(d *localdir.Dir) store.Store { return store.UploadOnly(d) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := tempDir(t)
			st := around(d)
			wantError(t, "without Parents", upload(t, st, "a/f", "x", store.Create{}), fs.ErrNotExist)
			wantEntries(t, dir)
			for _, c := range []struct {
				name string
				c    store.Create
			}{
				{"a/f", store.Create{}}, {"a/b/c/f", store.Create{Exclusive: true}}, {"g", store.Create{}},
				{"kept/f", store.Create{Resume: "me", Size: 7}}, {"quick/f", store.Create{NoSync: true, Size: 7}},
			} {
				c.c.Parents = true
				if err := upload(t, st, c.name, "content", c.c); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				wantFile(t, dir, c.name, "content")
			}
			wantNoTemps(t, dir)
			if fi, err := os.Stat(filepath.Join(dir, "a/b")); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o755 {
				t.Errorf("%v, %v", fi.Mode(), err)
			}
		})
	}
}

// A file whose name is folded is put into the directory that is spelled differently.
func TestParentsFolded(t *testing.T) {
	dir, d := tempDir(t)
	writeFile(t, dir, "Boot/f", "")
	st, err := store.FoldCase(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := upload(t, st, "BOOT/new/g", "x", store.Create{Parents: true}); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, dir, "Boot")
	wantFile(t, dir, "Boot/new/g", "x")
}

// If a directory cannot be made, the directories that were made before it are removed.
func TestParentsRefused(t *testing.T) {
	dir, d := tempDir(t)
	outside := t.TempDir()
	writeFile(t, dir, "file", "")
	writeFile(t, dir, "in/f", "")
	symlink(t, "gone", dir, "dangling")
	symlink(t, "gone/f", dir, "leads")
	symlink(t, "../gone", dir, "up")
	symlink(t, outside, dir, "out")
	symlink(t, "in", dir, "inside")
	hidden := ".haul-" + strings.Repeat("A", 26) + ".part"
	before := []string{"dangling", "file", "in", "inside", "leads", "out", "up"}
	for name, want := range map[string]error{
		"file/f": fs.ErrNotExist, "new/../f": fs.ErrInvalid, "dangling/f": fs.ErrNotExist, "leads": fs.ErrNotExist,
		"up/f": fs.ErrPermission, "up/a/f": fs.ErrPermission, "out/a/f": fs.ErrPermission, "new/" + hidden: fs.ErrPermission,
		"new/" + hidden + "/f": fs.ErrPermission, "new/" + strings.Repeat("x", 300) + "/f": fs.ErrInvalid,
		"new" + strings.Repeat("/d", 64) + "/f": fs.ErrInvalid, "file/a/b/f": fs.ErrNotExist,
	} {
		for _, resume := range []string{"", "me"} {
			_, err := d.Create(t.Context(), name, store.Create{Parents: true, Resume: resume, Size: 10})
			wantError(t, name, err, want)
			wantEntries(t, dir, before...)
			wantEntries(t, outside)
		}
	}
	deep := "new" + strings.Repeat("/d", 63) + "/f"
	if err := upload(t, d, deep, "x", store.Create{Parents: true}); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
	if err := upload(t, d, "inside/new/g", "x", store.Create{Parents: true}); err != nil {
		t.Errorf("through a link that stays inside: %v", err)
	}
	wantFile(t, dir, "in/new/g", "x")
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		return
	}
	if err := os.Chmod(filepath.Join(dir, "in"), 0o555); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(filepath.Join(dir, "in"), 0o755) }() // otherwise dir could not be removed
	wantError(t, "read-only", upload(t, d, "in/more/g", "x", store.Create{Parents: true}), fs.ErrPermission)
}

// Whichever call fails, a failed upload leaves no directory behind.
func TestParentsFaults(t *testing.T) {
	broken := errors.New("broken")
	calls := strings.Fields("mkdir syncdir mkdir syncdir create lock space truncate chmod sync rename syncdir")
	for k := range len(calls) + 1 {
		dir, d := tempDir(t)
		var seen []string
		d.Before(func(call string) error {
			if call == "write" || call == "writeback" {
				return nil
			}
			seen = append(seen, call)
			if len(seen) == k+1 {
				return broken
			}
			return nil
		})
		err := upload(t, d, "a/b/f", "content", store.Create{Parents: true, Size: 7})
		if k == len(calls) {
			if err != nil || strings.Join(seen, " ") != strings.Join(calls, " ") {
				t.Errorf("the calls are %q, %v", seen, err)
			}
			continue
		}
		wantError(t, calls[k], err, broken)
		if _, err := os.Stat(filepath.Join(dir, "a/b/f")); err != nil {
			wantEntries(t, dir)
		}
		wantNoTemps(t, dir)
	}
}

// Uploads that all begin and fail at the same time leave nothing behind either.
func TestParentsAtOnce(t *testing.T) {
	dir, d := tempDir(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 20 {
				u, err := d.Create(t.Context(), fmt.Sprintf("a/%d/%d", j%3, i), store.Create{Parents: true, NoSync: true})
				if err != nil {
					t.Error(err)
					return
				}
				if err := u.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	wantEntries(t, dir)
}

// If two uploads use one new directory, neither removes it while the other still needs it.
func TestParentsShared(t *testing.T) {
	dir, d := tempDir(t)
	first := begin(t, d, "a/b/f", store.Create{Parents: true})
	second := begin(t, d, "a/c/g", store.Create{Parents: true})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, dir, "a")
	wantEntries(t, filepath.Join(dir, "a"), "c")
	if err := second.Commit(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dir, "a/c/g", "")
	// An upload of another process removes its directory just when the second upload has found it.
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	first = begin(t, localdir.New(root), "new/f", store.Create{Parents: true})
	d.Before(func(call string) error {
		if call == "create" {
			return first.Close()
		}
		return nil
	})
	second = begin(t, d, "new/g", store.Create{Parents: true})
	if err := second.Commit(); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, filepath.Join(dir, "new"), "g")
	// If another program has put a file into a directory, the directory stays too.
	d.Before(nil)
	third := begin(t, d, "other/f", store.Create{Parents: true})
	writeFile(t, dir, "other/mine", "x")
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, filepath.Join(dir, "other"), "mine")
}

// If several uploads into new directories all fail, the upload that fails last removes the
// directories. If one succeeds, its directories stay.
func TestParentsOfMany(t *testing.T) {
	names := []string{"a/b/c/f", "a/b/g", "a/b/c/h", "a/d/i"}
	orders := [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 3, 1}, {1, 3, 0, 2}, {2, 0, 1, 3}}
	for _, order := range orders {
		for committed := -1; committed < len(names); committed++ {
			dir, d := tempDir(t)
			var all []store.Upload
			for _, name := range names {
				all = append(all, begin(t, d, name, store.Create{Parents: true}))
			}
			for _, i := range order {
				end := all[i].Close
				if i == committed {
					end = all[i].Commit
				}
				if err := end(); err != nil {
					t.Fatal(err)
				}
			}
			var left []string
			if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
				left = append(left, name)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			want := []string{"."}
			if committed >= 0 {
				for at := range names[committed] {
					if names[committed][at] == '/' {
						want = append(want, names[committed][:at])
					}
				}
				want = append(want, names[committed])
			}
			if !slices.Equal(left, want) {
				t.Errorf("in the order %v, with %d committed: %q are left, want %q", order, committed, left, want)
			}
		}
	}
}

// The kept part of an upload is in the directory that was made for it, and the upload resumes
// there. An upload that has kept nothing leaves no directory behind.
func TestParentsKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the store keeps uploads where there are locks")
	}
	dir, d := tempDir(t)
	c := store.Create{Parents: true, Resume: "me", Size: 10}
	if err := begin(t, d, "a/b/f", c).Close(); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, dir)
	u := begin(t, d, "a/b/f", c)
	if _, err := u.WriteAt([]byte("01234"), 0); err != nil {
		t.Fatal(err)
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	u = begin(t, d, "a/b/f", c)
	if n := u.(resumer).Resumed(); n != 5 {
		t.Errorf("of 5 bytes %d are there", n)
	}
	if _, err := u.WriteAt([]byte("56789"), 5); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dir, "a/b/f", "0123456789")
	wantNoTemps(t, dir)
}
