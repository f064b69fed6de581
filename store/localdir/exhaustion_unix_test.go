//go:build unix

package localdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
)

// TestNoDescriptors opens files until the process may not open any more, and then makes all other
// calls. Their errors must not look as if a file were missing, nothing must be left behind, and the
// condition must end when files are closed.
func TestNoDescriptors(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		// The limit applies to the whole process.
		if out, err := child(t, "limit").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir, d := tempDir(t)
	writeFile(t, dir, "f", "content")
	writeFile(t, dir, "d/f", "content")
	late := begin(t, d, "late", store.Create{})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	var files []store.File
	var err error
	for range 100 {
		var f store.File
		if f, err = d.Open(t.Context(), "f"); err != nil {
			break
		}
		files = append(files, f)
	}
	wantNoMoreFiles(t, "open", err)
	_, err = d.Open(t.Context(), "d/f")
	wantNoMoreFiles(t, "open", err)
	_, err = d.Create(t.Context(), "g", store.Create{Size: 10})
	wantNoMoreFiles(t, "create", err)
	_, err = d.Stat(t.Context(), "d/f")
	wantNoMoreFiles(t, "stat", err)
	_, err = d.ReadDir(t.Context(), ".")
	wantNoMoreFiles(t, "readdir", err)
	_, err = d.Sweep(t.Context())
	wantNoMoreFiles(t, "sweep", err)
	_, err = d.OpenFile(t.Context(), "f", store.Access{Read: true})
	wantNoMoreFiles(t, "open in place", err)
	_, err = d.OpenFile(t.Context(), "h", store.Access{Write: true, Create: true})
	wantNoMoreFiles(t, "create in place", err)
	_, err = d.OpenDir(t.Context(), "d")
	wantNoMoreFiles(t, "opendir", err)
	wantNoMoreFiles(t, "remove", d.Remove(t.Context(), "d/f"))
	wantNoMoreFiles(t, "rmdir", d.RemoveDir(t.Context(), "d/e"))
	wantNoMoreFiles(t, "rename", d.Rename(t.Context(), "d/f", "d/g", false))
	_, err = fold(t, d).Open(t.Context(), "F")
	wantNoMoreFiles(t, "open in another case", err)
	_, err = store.Layers(d, store.Mem(0)).Open(t.Context(), "d/f")
	wantNoMoreFiles(t, "open in layers", err)

	// Open uploads continue. If a Commit cannot make the name durable, it must return an error.
	p := make([]byte, 7)
	if _, err := files[0].ReadAt(p, 0); err != nil || string(p) != "content" {
		t.Errorf("an open file reads %q, %v", p, err)
	}
	if _, err := late.WriteAt([]byte("late"), 0); err != nil {
		t.Error(err)
	}
	if err := late.Commit(); err != nil {
		wantNoMoreFiles(t, "commit", err)
	}
	for _, f := range files {
		f.Close()
	}
	wantContent(t, d, "d/f", "content")
	if err := upload(t, d, "g", "new", store.Create{Size: 3}); err != nil {
		t.Errorf("an upload after that: %v", err)
	}
	wantNoTemps(t, dir)
}

func wantNoMoreFiles(t *testing.T, what string, err error) {
	t.Helper()
	wantError(t, what, err, syscall.EMFILE)
	for _, kind := range []error{fs.ErrNotExist, fs.ErrPermission, store.ErrNotRegular, store.ErrNoSpace} {
		if errors.Is(err, kind) {
			t.Errorf("%s: error %v is also %q", what, err, kind)
		}
	}
}

// TestDirErrno checks that error numbers stay in the chain, including numbers that a test cannot
// cause: ENFILE would affect the whole machine.
func TestDirErrno(t *testing.T) {
	tests := []struct {
		errno syscall.Errno
		kind  error
	}{
		{syscall.ENFILE, syscall.ENFILE},
		{syscall.EMFILE, syscall.EMFILE},
		{syscall.EIO, syscall.EIO},
		{syscall.ENOMEM, syscall.ENOMEM},
		{syscall.ESTALE, syscall.ESTALE},
		{syscall.EROFS, fs.ErrPermission},
		{syscall.EACCES, fs.ErrPermission},
		{syscall.ENOSPC, store.ErrNoSpace},
		{syscall.EDQUOT, store.ErrNoSpace},
		{syscall.EFBIG, syscall.EFBIG},
	}
	dir, d := tempDir(t)
	writeFile(t, dir, "f", "content")
	for _, tt := range tests {
		for call, use := range map[string]func() error{
			"open":    func() error { _, err := d.Open(t.Context(), "f"); return err },
			"readdir": func() error { _, err := d.ReadDir(t.Context(), "."); return err },
			"create":  func() error { return upload(t, d, "f", "x", store.Create{}) },
			"write":   func() error { return upload(t, d, "f", "x", store.Create{}) },
			"sync":    func() error { return upload(t, d, "f", "x", store.Create{}) },
			"rename":  func() error { return upload(t, d, "f", "x", store.Create{}) },
		} {
			d.Before(failAt(call, tt.errno))
			err := use()
			wantError(t, fmt.Sprint(call, " ", tt.errno), err, tt.errno)
			wantError(t, fmt.Sprint(call, " ", tt.errno), err, tt.kind)
			if errors.Is(err, store.ErrNoSpace) != (tt.kind == store.ErrNoSpace) {
				t.Errorf("%s %v is ErrNoSpace: %v", call, tt.errno, err)
			}
		}
	}
	d.Before(nil)
	wantFile(t, dir, "f", "content")
	wantNoTemps(t, dir)
}

// TestDirVanishes removes directories that are in use, including the root.
func TestDirVanishes(t *testing.T) {
	outer := t.TempDir()
	root := filepath.Join(outer, "root")
	writeFile(t, root, "f", "content")
	writeFile(t, root, "d/f", "content")
	d := dirAt(t, root)
	for _, name := range []string{"d", "."} {
		f, err := d.Open(t.Context(), path.Join(name, "f"))
		if err != nil {
			t.Fatal(err)
		}
		uploads := []store.Upload{
			begin(t, d, path.Join(name, "f"), store.Create{}),
			begin(t, d, path.Join(name, "new"), store.Create{}),
			begin(t, d, path.Join(name, "exclusive"), store.Create{Exclusive: true}),
		}
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 7)
		if _, err := f.ReadAt(p, 0); err != nil || string(p) != "content" {
			t.Errorf("a file open since before reads %q, %v", p, err)
		}
		f.Close()
		for _, u := range uploads {
			if _, err := u.WriteAt([]byte("x"), 0); err != nil {
				t.Error(err)
			}
			wantError(t, "commit", u.Commit(), fs.ErrNotExist)
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		}
		_, err = d.Open(t.Context(), path.Join(name, "f"))
		wantError(t, "open", err, fs.ErrNotExist)
		_, err = d.Stat(t.Context(), path.Join(name, "f"))
		wantError(t, "stat", err, fs.ErrNotExist)
		_, err = d.Create(t.Context(), path.Join(name, "f"), store.Create{})
		wantError(t, "create", err, fs.ErrNotExist)
		if name == "d" {
			_, err := d.ReadDir(t.Context(), "d")
			wantError(t, "readdir", err, fs.ErrNotExist)
		} else if entries, err := d.ReadDir(t.Context(), "."); err == nil && len(entries) > 0 {
			t.Errorf("a root that is gone has entries %v", entries)
		}
	}
}
