package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// visibleNames maps names to whether a visible store has them.
var visibleNames = map[string]bool{
	"a": true, "d/b": true, "d.d/x.y": true, "d/e./f..g": true, ".well-known/acme/t": true, "d/.well-known/x": true,
	".a": false, "d/.b": false, ".d/c": false, "d/.e/f": false, "...": false, "..x/y": false, ".well-known/.x": false, ".well-known2": false,
	"\u200c.a": false, "\ufeff\u2060.d/c": false, "d/\u200d.well-known": false,
}

func TestVisible(t *testing.T) {
	dir := t.TempDir()
	for name := range visibleNames {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	v, ctx := store.Visible(localdir.New(root)), t.Context()
	for name, shown := range visibleNames {
		wantErr := error(nil)
		if !shown {
			wantErr = fs.ErrNotExist
		}
		f, err := v.Open(ctx, name)
		if !errors.Is(err, wantErr) {
			t.Errorf("Open(%q): %v", name, err)
		} else if err == nil {
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
			if err != nil || !bytes.Equal(b, []byte(name)) {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			_ = f.Close()
		}
		for op, do := range map[string]func() error{
			"Stat":  func() error { _, err := v.Stat(ctx, name); return err },
			"Lstat": func() error { _, err := v.Lstat(ctx, name); return err },
			"Space": func() error { _, err := v.Space(ctx, name); return err },
		} {
			if op == "Space" && shown {
				continue // not supported on all systems
			}
			if err := do(); !errors.Is(err, wantErr) {
				t.Errorf("%s(%q): %v", op, name, err)
			}
		}
		u, err := v.Create(ctx, name, store.Create{})
		if shown != (err == nil) || !shown && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Create(%q): %v", name, err)
		}
		if err == nil {
			_ = u.Close()
		}
	}
	for where, want := range map[string]string{".": ".well-known a d d.d", "d": ".well-known b e.", ".well-known": "acme"} {
		entries, err := v.ReadDir(ctx, where)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("ReadDir(%q): %q, %v; want %q", where, got, err, want)
		}
		if got := entryNames(t, v, where, 1); got != want {
			t.Errorf("OpenDir(%q): %q, want %q", where, got, want)
		}
	}
	for _, where := range []string{".d", "d/.e"} {
		_, err1 := v.ReadDir(ctx, where)
		_, err2 := v.OpenDir(ctx, where)
		if !errors.Is(err1, fs.ErrNotExist) || !errors.Is(err2, fs.ErrNotExist) {
			t.Errorf("listing %q: %v, %v", where, err1, err2)
		}
	}
	if err := v.Remove(ctx, ".a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove: %v", err)
	}
	if err := v.Remove(ctx, "a"); err != nil {
		t.Errorf("Remove: %v", err)
	}
	for what, err := range map[string]error{
		"Mkdir": v.Mkdir(ctx, "m", 0), "Rename": v.Rename(ctx, "d/b", ".c", true), "Link": v.Link(ctx, "d/b", ".c"), "Symlink": v.Symlink(ctx, "x", ".c"),
	} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A backslash separates elements too, as it does on Windows.
func TestIsHidden(t *testing.T) {
	for name, want := range map[string]bool{".": false, "": false, `a\.b`: true, `\.b`: true, `.a\b`: true, `a\b`: false, "a/./b": true, "a/..": true} {
		if got := store.IsHidden(name); got != want {
			t.Errorf("isHidden(%q) is %v", name, got)
		}
	}
}

// entryNames lists a directory, batch entries at a time.
func entryNames(t *testing.T, tree store.Tree, where string, batch int) string {
	t.Helper()
	entries, err := tree.OpenDir(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer entries.Close()
	var names []string
	for into := make([]fs.FileInfo, batch); ; {
		n, err := entries.Next(into)
		for _, fi := range into[:n] {
			names = append(names, fi.Name())
		}
		if err == io.EOF {
			break
		}
		if err != nil || n == 0 {
			t.Fatal(fmt.Errorf("Next returns %d entries: %w", n, err))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
