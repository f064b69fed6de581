package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// tempDir returns a new directory and the store in it.
func tempDir(t testing.TB) (string, *localdir.Dir) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return dir, localdir.New(root)
}

// upload writes content in one call and returns the first error.
func upload(t testing.TB, st store.Store, name, content string, c store.Create) error {
	u, err := st.Create(t.Context(), name, c)
	if err != nil {
		return err
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte(content), 0); err != nil {
		return err
	}
	return u.Commit()
}

// begin creates an upload, which is closed when the test ends.
func begin(t testing.TB, st store.Store, name string, c store.Create) store.Upload {
	t.Helper()
	u, err := st.Create(t.Context(), name, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

func writeFile(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}
