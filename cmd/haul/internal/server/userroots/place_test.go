//go:build unix

package userroots

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/users"
)

// enterRoot opens the directory of a user, and returns the content of the file "who" in it.
func enterRoot(t *testing.T, r *Roots, dir *users.Directory, name string) (string, error) {
	t.Helper()
	u, ok := dir.User(name)
	if !ok {
		t.Fatal("no such user:", name)
	}
	files, _, leave, err := r.Enter(u)
	if err != nil {
		return "", err
	}
	defer leave()
	f, err := files.Open(t.Context(), "who")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

// A user can replace a directory in their own tree with a link. That must not change the root of
// another user, wherever that tree is and however the users file names it. Links that the
// administrator has made outside all trees are followed.
func TestRootInsideAnotherUsersTree(t *testing.T) {
	top := RealPath(t.TempDir())
	in := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	for _, path := range []string{in("dir", "outer", "inner"), in("else", "outer", "inner"), in("secret"), in("plain")} {
		servetest.WriteFile(t, filepath.Join(path, "who"), filepath.Base(path))
	}
	for link, target := range map[string]string{
		in("alias"):    in("dir"),
		in("relative"): filepath.Join("else", "outer"),
		in("deep"):     in("dir", "outer", "inner"),
		in("link"):     in("plain"),
		in("loop"):     in("loop"),
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Skip(err)
		}
	}
	inner := map[string]string{ // users whose root is in another user's tree
		"direct": in("dir", "outer", "inner"),
		"alias":  in("alias", "outer", "inner"),
		"deep":   in("deep"),
		"nested": in("else", "outer", "inner"),
		"byname": in("relative", "inner"),
	}
	text := "user one\n  root outer\nuser two\n  root " + in("else", "outer") + "\n" +
		"user link\n  root " + in("link") + "\nuser loop\n  root " + in("loop") + "\n"
	for name, root := range inner {
		text += "user " + name + "\n  root " + root + "\n"
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := users.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := Open(in("dir"), nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer roots.Close()
	roots.Learn(dir)
	for name := range inner {
		if who, err := enterRoot(t, roots, dir, name); err != nil || who != "inner" {
			t.Errorf("%s is in %q (%v)", name, who, err)
		}
	}
	if who, err := enterRoot(t, roots, dir, "link"); err != nil || who != "plain" {
		t.Errorf("a link of the operator leads to %q (%v)", who, err)
	}
	if who, err := enterRoot(t, roots, dir, "loop"); err == nil {
		t.Errorf("a link to itself leads to %q", who)
	}
	for _, path := range []string{in("dir", "outer", "inner"), in("else", "outer", "inner")} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(in("secret"), path); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // before and after the next start of the server
		for name := range inner {
			if who, err := enterRoot(t, roots, dir, name); err == nil || !strings.Contains(err.Error(), "links are not followed") {
				t.Errorf("%s is in %q (%v)", name, who, err)
			}
		}
		roots.Learn(dir)
	}
}
