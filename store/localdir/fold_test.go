package localdir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// TestFoldCaseErrors checks that a directory that cannot be listed does not count as empty.
func TestFoldCaseErrors(t *testing.T) {
	_, d := tempDir(t)
	m := fold(t, d)
	d.Before(failAt("readdir", os.ErrPermission))
	_, err := m.Open(t.Context(), "F")
	wantError(t, "Open", err, fs.ErrPermission)
	_, err = m.Create(t.Context(), "F", store.Create{})
	wantError(t, "Create", err, fs.ErrPermission)
}

// TestFoldCaseOutside uses names that lead outside, in another case.
func TestFoldCaseOutside(t *testing.T) {
	outer, inner := linkedDir(t)
	m := fold(t, dirAt(t, inner))
	for _, name := range outsideNames {
		_, err := m.Open(t.Context(), strings.ToUpper(name))
		wantError(t, "open "+strings.ToUpper(name), err, fs.ErrPermission)
	}
	wantContent(t, m, "TO-E/F", "inside")
	if runtime.GOOS == "linux" { // on other systems, names must be UTF-8
		writeFile(t, inner, "\xff", "x")
		_, err := m.Open(t.Context(), "\ufffd")
		wantError(t, "open of what a bad name looks like", err, fs.ErrNotExist)
	}
	wantFile(t, outer, filepath.Join("outdir", "secret"), secret)
}

// fold returns a store with the files of d that ignores case.
func fold(t testing.TB, d *localdir.Dir) store.Store {
	t.Helper()
	f, err := store.FoldCase(d)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
