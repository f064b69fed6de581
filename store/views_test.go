package store_test

import (
	"io/fs"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

func TestReadOnly(t *testing.T) {
	for name, open := range trees() {
		t.Run(name, func(t *testing.T) {
			storetest.RunView(t, func(t *testing.T) (view, behind store.Tree) {
				behind = open(t)
				return store.ReadOnly(behind), behind
			}, "open", "stat", "lstat", "readlink", "readdir", "opendir", "statvfs", "openfile to read")
		})
	}
}

func TestUploadOnly(t *testing.T) {
	for name, open := range trees() {
		t.Run(name, func(t *testing.T) {
			storetest.RunView(t, func(t *testing.T) (view, behind store.Tree) {
				behind = open(t)
				return store.UploadOnly(behind), behind
			}, "stat", "lstat", "readdir", "opendir", "statvfs", "openfile of a new name",
				"openfile of a new name, exclusive", "create", "create, exclusive", "mkdir")
		})
	}
}

func trees() map[string]func(t *testing.T) store.Tree {
	return map[string]func(t *testing.T) store.Tree{
		"Dir": func(t *testing.T) store.Tree { _, d := tempDir(t); return d },
		"Mem": func(*testing.T) store.Tree { return store.Mem(0) },
	}
}

// TestUploadOnlyShows lists a drop box, and checks that hidden entries do not use up the slice.
func TestUploadOnlyShows(t *testing.T) {
	m := store.Mem(0)
	storetest.Fill(t, m)
	u := store.UploadOnly(m)
	wantNames(t, u, ".", "d", "empty")
	wantNames(t, u, "d", "e")
	e, err := u.OpenDir(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	into := make([]fs.FileInfo, 1) // room for one entry; most entries are hidden
	for range 2 {
		if n, err := e.Next(into); n != 1 || err != nil || !into[0].IsDir() {
			t.Errorf("Next = %d, %v, want a directory", n, err)
		}
	}
	if n, err := e.Next(into); n != 0 || err == nil {
		t.Errorf("Next after the last = %d, %v", n, err)
	}
	h, err := u.OpenFile(t.Context(), "new", store.Access{Write: true, Create: true, Truncate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = h.ReadAt(make([]byte, 1), 0)
	wantError(t, "ReadAt", err, fs.ErrPermission)
	uid := uint32(0)
	wantError(t, "SetAttr of the owner", h.SetAttr(store.Attr{UID: &uid}), fs.ErrPermission)
	if err := h.SetAttr(store.Attr{Size: new(int64(3)), Mode: new(fs.FileMode(0o600))}); err != nil {
		t.Error(err)
	}
	_, err = u.OpenFile(t.Context(), "new", store.Access{Write: true, Create: true, Exclusive: true})
	wantError(t, "OpenFile again", err, fs.ErrExist)
	_, err = u.OpenFile(t.Context(), "newer", store.Access{Read: true, Write: true, Create: true})
	wantError(t, "OpenFile to read too", err, fs.ErrPermission)
}

func TestReadOnlySpace(t *testing.T) {
	if s, err := store.ReadOnly(store.Mem(0)).Space(t.Context(), "."); err != nil || !s.ReadOnly {
		t.Errorf("Space = %+v, %v", s, err)
	}
}
