package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// Snapshot describes everything in a tree, with a line for each name: its kind, its permission
// bits, and its content. Times are left out.
func Snapshot(t testing.TB, tr store.Tree) string {
	t.Helper()
	var b strings.Builder
	snapshotDir(t, tr, ".", &b)
	return b.String()
}

func snapshotDir(t testing.TB, tr store.Tree, dir string, b *strings.Builder) {
	entries, err := tr.ReadDir(t.Context(), dir)
	if err != nil {
		fmt.Fprintf(b, "%s: %v\n", dir, err)
		return
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		fi, err := tr.Lstat(t.Context(), name)
		if err != nil {
			fmt.Fprintf(b, "%s: %v\n", name, err)
			continue
		}
		switch fi.Mode().Type() {
		case fs.ModeDir:
			fmt.Fprintf(b, "%s %v\n", name, fi.Mode())
			snapshotDir(t, tr, name, b)
		case fs.ModeSymlink:
			text, err := tr.Readlink(t.Context(), name)
			fmt.Fprintf(b, "%s -> %q %v\n", name, text, err)
		default:
			fmt.Fprintf(b, "%s %v %s\n", name, fi.Mode(), content(t, tr, name))
		}
	}
}

// content returns a short form of the content of a file. If the file cannot be read, it returns the
// reason.
func content(t testing.TB, tr store.Tree, name string) string {
	f, err := tr.Open(t.Context(), name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	p, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %.40q", len(p), p)
}

// mkdir makes a directory. It does nothing in a store in which a directory exists as soon as it
// contains a file.
func mkdir(t *testing.T, tr store.Tree, name string) {
	t.Helper()
	if store.CapabilitiesOf(tr).ImpliedDirs {
		return
	}
	if err := tr.Mkdir(t.Context(), name, 0); err != nil {
		t.Fatal(err)
	}
}

// symlink makes a symbolic link. If the store does not support symbolic links, it skips the test.
func symlink(t *testing.T, tr store.Tree, target, name string) {
	t.Helper()
	err := tr.Symlink(t.Context(), target, name)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no symbolic links")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func openFile(t *testing.T, tr store.Tree, name string, a store.Access) store.Handle {
	t.Helper()
	h, err := tr.OpenFile(t.Context(), name, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func closeAll(t *testing.T, closers ...io.Closer) {
	t.Helper()
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// wantHandle checks the content that can be read through a handle, and the size that its Stat
// returns.
func wantHandle(t *testing.T, h store.Handle, want []byte) {
	t.Helper()
	got := make([]byte, len(want)+10)
	n, err := h.ReadAt(got, 0)
	if err != io.EOF || !bytes.Equal(got[:n], want) {
		t.Errorf("handle reads %d bytes %.20q, %v, want %d bytes %.20q", n, got[:n], err, len(want), want)
	}
	if fi, err := h.Stat(); err != nil || fi.Size() != int64(len(want)) {
		t.Errorf("Stat of the handle = %v, %v, want size %d", fi, err, len(want))
	}
}

// wantUnchanged checks that an operation that failed has not changed the tree. `before` is the
// Snapshot from before the operation.
func wantUnchanged(t *testing.T, tr store.Tree, what, before string) {
	t.Helper()
	if after := Snapshot(t, tr); after != before {
		t.Errorf("%s changed the tree from\n%sto\n%s", what, before, after)
	}
}

func wantNil(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
