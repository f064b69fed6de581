package userroots

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/users"
)

// NoSync applies to DIR and to the directory of a user.
func TestNoSync(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		roots, err := Open(t.TempDir(), nil, Options{NoSync: noSync})
		if err != nil {
			t.Fatal(err)
		}
		defer roots.Close()
		_, _, leave, err := roots.Enter(users.User{Root: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		if roots.local.NoSync != noSync || len(roots.open) != 1 {
			t.Errorf("NoSync %v: DIR has %v, and %d directories are open", noSync, roots.local.NoSync, len(roots.open))
		}
		for _, o := range roots.open {
			if o.files.NoSync != noSync {
				t.Errorf("NoSync %v: a user's directory has %v", noSync, o.files.NoSync)
			}
		}
	}
}

// A connection needs one more descriptor if a user who may log in has another directory than DIR.
func TestFilesPerVisit(t *testing.T) {
	served := t.TempDir()
	for _, test := range []struct {
		what, text string
		want       int
	}{
		{"all have DIR", "user a\n  root .\nuser b\nuser c\n  root " + served + "\n", 0},
		{"one below DIR", "user a\nuser b\n  root b\n", 1},
		{"one elsewhere", "user a\n  root " + t.TempDir() + "\n", 1},
		{"each their own", "root %u\nuser a\nuser b\n", 1},
		{"of one who may not log in", "user a\nuser b\n  disabled\n  root b\n", 0},
	} {
		file := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := users.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		roots, err := Open(served, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer roots.Close()
		if got := roots.FilesPerVisit(dir); got != test.want {
			t.Errorf("%s: %d, want %d", test.what, got, test.want)
		}
	}
}

// A place is the same for each way of writing it, and may have parts that do not exist yet.
func TestRealPath(t *testing.T) {
	dir := RealPath(t.TempDir())
	if err := os.MkdirAll(filepath.Join(dir, "real/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{
		"real":            "real",
		"link":            "real",
		"link/deep":       "real/deep",
		"link/none/x":     "real/none/x",
		"none":            "none",
		"real/../link/./": "real",
	} {
		if got := RealPath(dir + "/" + path); got != filepath.Join(dir, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
