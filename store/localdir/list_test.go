package localdir_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/store"
)

func TestDirReadDir(t *testing.T) {
	outer, inner := linkedDir(t)
	d := dirAt(t, inner)
	begin(t, d, "unfinished", store.Create{})
	begin(t, d, "d/unfinished", store.Create{})
	wantNames(t, d, "d", "e", "f")
	wantNames(t, d, "d/e", "f", "up-f")
	wantNames(t, d, "to-e", "f", "up-f") // through a link that stays inside
	wantNames(t, d, ".", "abs-inside", "d", "f", "out", "out-abs", "out-dir", "out-far", "out-file", "out-nothing",
		"out-prefix", "out-through-d", "to-e", "to-f", "to-new", "to-self", "to-to-f")
	for _, name := range outsideNames {
		_, err := d.ReadDir(t.Context(), name)
		wantError(t, "readdir "+name, err, fs.ErrPermission)
	}
	for _, name := range []string{"f", "to-f", "d/missing", "to-new"} {
		_, err := d.ReadDir(t.Context(), name)
		wantError(t, "readdir "+name, err, fs.ErrNotExist)
	}
	if _, err := d.ReadDir(t.Context(), "to-self"); err == nil {
		t.Error("listed a link to itself")
	}
	wantFile(t, outer, "secret", secret)
}

// TestDirReadDirInfo checks that an entry describes the file in the directory, and that a directory
// that was replaced by a link to the outside reveals nothing.
func TestDirReadDirInfo(t *testing.T) {
	outer, inner := linkedDir(t)
	d := dirAt(t, inner)
	entries, err := d.ReadDir(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	links, err := d.ReadDir(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range links {
		fi, err := e.Info()
		if err != nil || fi.Mode().Type() != e.Type() || (e.Name() != "d" && e.Name() != "f") != (e.Type() == fs.ModeSymlink) {
			t.Errorf("%s has type %v, Info %v, %v", e.Name(), e.Type(), fi, err)
		}
	}
	if err := os.Rename(filepath.Join(inner, "d"), filepath.Join(inner, "moved")); err != nil {
		t.Fatal(err)
	}
	_, err = entries[0].Info()
	wantError(t, "Info of what was moved away", err, fs.ErrNotExist)
	writeFile(t, outer, "outdir/e", secret)
	symlink(t, "../outdir", inner, "d")
	_, err = entries[0].Info()
	wantError(t, "Info through a link outside", err, fs.ErrPermission)
}

func TestDirReadDirMany(t *testing.T) {
	dir, d := tempDir(t)
	const many = 700 // several batches
	for i := range many {
		writeFile(t, dir, fmt.Sprintf("f%03d", i), "")
	}
	entries, err := d.ReadDirAtMost(t.Context(), ".", many)
	if err != nil || len(entries) != many {
		t.Errorf("%d entries, %v, want %d", len(entries), err, many)
	}
	if _, err = d.ReadDirAtMost(t.Context(), ".", many-1); err == nil {
		t.Error("more entries than allowed, and no error")
	}
	all, err := d.ReadDir(t.Context(), ".")
	if err != nil || len(all) != many || all[0].Name() != "f000" || all[many-1].Name() != "f699" {
		t.Errorf("%d entries, %v", len(all), err)
	}
}
