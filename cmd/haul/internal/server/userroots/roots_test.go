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
