package store_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// tempDir returns a new directory and the store in it.
func tempDir(t testing.TB) (string, *store.DirStore) {
	t.Helper()
	dir := t.TempDir()
	return dir, dirAt(t, dir)
}

// dirAt returns the store in dir.
func dirAt(t testing.TB, dir string) *store.DirStore {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return store.Dir(root)
}

// upload writes content in one go and returns the first error.
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

// begin creates an upload, to be closed when the test ends.
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

func symlink(t testing.TB, target, dir, name string) {
	t.Helper()
	err := os.Symlink(target, filepath.Join(dir, name))
	if err != nil && runtime.GOOS == "windows" {
		t.Skipf("Windows lets only some users make links: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func wantFile(t testing.TB, dir, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(got) != want {
		t.Errorf("%s holds %.40q, %v, want %.40q", name, got, err, want)
	}
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// temps returns the temporary files below dir.
func temps(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if strings.HasPrefix(e.Name(), ".haul-") {
			names = append(names, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func wantNoTemps(t testing.TB, dir string) {
	t.Helper()
	if left := temps(t, dir); len(left) > 0 {
		t.Errorf("temporary files left: %q", left)
	}
}

// childEnv is set where a test runs in a process of its own.
const childEnv = "HAUL_STORE_TEST_CHILD"

// child returns a command that runs this same test in another process, which
// finds arg in childEnv.
func child(t *testing.T, arg string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+top+"$", "-test.v")
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, childEnv) })
	// A race detector would sleep a second before it exits.
	cmd.Env = append(env, childEnv+"="+arg, "GORACE=atexit_sleep_ms=0")
	return cmd
}
