package store_test

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

// TestDirReadDirInfo checks that an entry is what the directory has, and that
// a directory replaced meanwhile by a link outside gives nothing away.
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

func TestMemReadDir(t *testing.T) {
	m := memWith(t, "", "a/b/c", "a/b/d", "a/x", "f")
	wantNames(t, m, ".", "a", "f")
	wantNames(t, m, "a", "b", "x")
	wantNames(t, m, "a/b", "c", "d")
	entries, err := m.ReadDir(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if !entries[0].IsDir() || entries[1].IsDir() {
		t.Errorf("entries %v", entries)
	}
	// Replacing a file adds no entry.
	if err := upload(t, m, "a/x", "again", store.Create{}); err != nil {
		t.Error(err)
	}
	wantNames(t, m, "a", "b", "x")
	if want := int64(5*overhead+len("a/b/c a/b/d f ")) + int64(len("again")) + overhead; m.Used() != want {
		t.Errorf("%d bytes charged, want %d: 4 files and 2 directories", m.Used(), want)
	}
}

func TestMemReadDirMany(t *testing.T) {
	m := store.Mem(1 << 30)
	for i := range store.MaxEntries {
		if err := upload(t, m, fmt.Sprint("f", i), "", store.Create{}); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := m.ReadDir(t.Context(), "."); err != nil || len(entries) != store.MaxEntries {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	l := store.Layers(m, memWith(t, "", "one more"))
	if _, err := l.(store.Lister).ReadDir(t.Context(), "."); err == nil {
		t.Error("more entries than allowed in layers, and no error")
	}
	if err := upload(t, m, "one more", "", store.Create{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReadDir(t.Context(), "."); err == nil {
		t.Error("more entries than allowed, and no error")
	}
}

// TestMemDirectoriesCount has names imply more directories than fit.
func TestMemDirectoriesCount(t *testing.T) {
	m := store.Mem(10 * overhead)
	if err := upload(t, m, "1/2/3/4/5/6/f", "", store.Create{}); err != nil {
		t.Fatal(err)
	}
	err := upload(t, m, "1/2/3/four/five/six/f", "", store.Create{})
	wantError(t, "Commit below new directories that do not fit", err, store.ErrNoSpace)
	_, err = m.Stat(t.Context(), "1/2/3/four")
	wantError(t, "Stat of one", err, fs.ErrNotExist)
	if err := upload(t, m, "1/2/3/four/five/f", "", store.Create{}); err != nil {
		t.Error(err)
	}
	if m.Used() != 10*overhead {
		t.Errorf("%d bytes charged, want all %d", m.Used(), 10*overhead)
	}
}
