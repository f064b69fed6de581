//go:build unix

package localdir_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
)

// TestResumeDistrusts changes the files that an upload left. The next upload must start from the
// beginning, and must not touch any file that is not its own.
func TestResumeDistrusts(t *testing.T) {
	data := source(10_000)
	tests := map[string]func(t *testing.T, dir, kept, checkpoint string) error{
		"changed": func(_ *testing.T, _, kept, _ string) error {
			return writeAtOffset(kept, 4990, []byte("damage"))
		},
		"cut":           func(_ *testing.T, _, kept, _ string) error { return os.Truncate(kept, 4999) },
		"no data":       func(_ *testing.T, _, kept, _ string) error { return os.Remove(kept) },
		"no checkpoint": func(_ *testing.T, _, _, checkpoint string) error { return os.Remove(checkpoint) },
		"damaged checkpoints": func(_ *testing.T, _, _, checkpoint string) error {
			return errors.Join(writeAtOffset(checkpoint, 20, []byte("x")), writeAtOffset(checkpoint, 532, []byte("x")))
		},
		"a copy": func(_ *testing.T, _, kept, _ string) error {
			b, err := os.ReadFile(kept)
			return errors.Join(err, os.Rename(kept, kept+"2"), os.WriteFile(kept, b, 0o600), os.Remove(kept+"2"))
		},
		"published": func(_ *testing.T, dir, kept, _ string) error {
			return os.Link(kept, filepath.Join(dir, "other"))
		},
		"a pipe": func(t *testing.T, _, kept, _ string) error {
			return errors.Join(os.Remove(kept), syscall.Mkfifo(kept, 0o666))
		},
		"a link": func(_ *testing.T, dir, kept, _ string) error {
			return errors.Join(os.Rename(kept, filepath.Join(dir, "other")), os.Symlink("other", kept))
		},
		"checkpoints elsewhere": func(_ *testing.T, dir, _, checkpoint string) error {
			return errors.Join(os.Rename(checkpoint, filepath.Join(dir, "other")), os.Symlink("other", checkpoint))
		},
	}
	for what, change := range tests {
		t.Run(what, func(t *testing.T) {
			dir, d := tempDir(t)
			u := resumable(t, d, "f", 0)
			writePiece(t, u, data, 0, 5000)
			closeUpload(t, u)
			kept, checkpoint := left(t, dir)
			if err := change(t, dir, kept, checkpoint); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(filepath.Join(dir, "other"))
			u = resumable(t, d, "f", 0)
			wantResumed(t, u, 0)
			finish(t, dir, u, "f", data)
			after, err2 := os.ReadFile(filepath.Join(dir, "other"))
			if !bytes.Equal(after, before) || (err == nil) != (err2 == nil) {
				t.Error("a file that is not the upload's changed")
			}
		})
	}
}

// TestResumeReleases keeps an upload with little data at its start and much data beyond a gap. The
// data beyond the gap is lost, and must take no space.
func TestResumeReleases(t *testing.T) {
	const size, come, gap = 8 << 20, 10_000, 4096
	data := source(size)
	dir, d := tempDir(t)
	taken := func() int64 {
		for _, name := range temps(t, dir) {
			if filepath.Ext(name) == ".keep" {
				return onDisk(t, name)
			}
		}
		t.Fatal("nothing is kept")
		return 0
	}
	u := resumable(t, d, "f", size)
	writePiece(t, u, data, 0, come)
	writePiece(t, u, data, come+gap, size)
	if taken() < size/2 {
		t.Skip("the file system does not say what a file takes")
	}
	closeUpload(t, u)
	if got := taken(); got >= size/2 {
		t.Errorf("%d bytes that are kept take %d of the disk", come, got)
	}
	u = resumable(t, d, "f", size)
	wantResumed(t, u, come)
	finish(t, dir, u, "f", data)
}

// TestCreateReservesNothing announces a large size and sends nothing.
func TestCreateReservesNothing(t *testing.T) {
	const size = 64 << 20
	dir, d := tempDir(t)
	defer begin(t, d, "f", store.Create{Size: size}).Close()
	defer closeUpload(t, resumable(t, d, "g", size))
	for _, name := range temps(t, dir) {
		if got := onDisk(t, name); got > 1<<20 {
			t.Errorf("%s, of which nothing has come, takes %d bytes of the disk", filepath.Base(name), got)
		}
	}
}

// TestResumeReadOnly resumes after a Commit that was interrupted when the file was already
// read-only.
func TestResumeReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d := dirAt(t, dir)
	data := source(1000)
	dropRoot(t, func() {
		u := resumable(t, d, "f", 0)
		writePiece(t, u, data, 0, 500)
		closeUpload(t, u)
	})
	kept, _ := left(t, dir)
	if err := os.Chmod(kept, 0o400); err != nil {
		t.Fatal(err)
	}
	dropRoot(t, func() {
		u := resumable(t, d, "f", 0)
		if os.Geteuid() != 0 { // otherwise the file seems to belong to another user
			wantResumed(t, u, 500)
		}
		writePiece(t, u, data, 0, 1000)
		if err := u.Commit(); err != nil {
			t.Error(err)
		}
	})
	wantFile(t, dir, "f", string(data))
	wantNoTemps(t, dir)
}
