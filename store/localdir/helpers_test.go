package localdir_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// tempDir returns a new directory and the store in it.
func tempDir(t testing.TB) (string, *localdir.Dir) {
	t.Helper()
	dir := t.TempDir()
	return dir, dirAt(t, dir)
}

// dirAt returns the store in dir.
func dirAt(t testing.TB, dir string) *localdir.Dir {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return localdir.New(root)
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

// childEnv is a variable that is set when a test runs in a separate process.
const childEnv = "HAUL_STORE_TEST_CHILD"

// child returns a command that runs the same test in another process, which gets arg in childEnv.
func child(t *testing.T, arg string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+top+"$", "-test.v")
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, childEnv) })
	// Otherwise the race detector would sleep for a second before the process exits.
	cmd.Env = append(env, childEnv+"="+arg, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func wantContent(t testing.TB, st store.Store, name, want string) {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil || string(b) != want {
		t.Errorf("%s holds %q, %v, want %q", name, b, err, want)
	}
	if fi, err := st.Stat(t.Context(), name); err != nil || fi.Size() != int64(len(want)) {
		t.Errorf("Stat of %s: %v, want size %d", name, err, len(want))
	}
}

func wantNames(t testing.TB, st store.Store, dir string, want ...string) {
	t.Helper()
	entries, err := store.CapabilitiesOf(st).ReadDir(t.Context(), dir)
	if err != nil {
		t.Errorf("ReadDir(%s): %v", dir, err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("ReadDir(%s) = %q, want %q", dir, got, want)
	}
}

// A resumer is an upload that can be resumed.
type resumer interface {
	store.Upload
	store.Resumer
}
