package storetest

import (
	"context"
	"io/fs"
	"slices"
	"testing"

	"github.com/haul-project/haul/store"
)

// A readDir is the function ReadDir of a store's Capabilities.
type readDir func(ctx context.Context, name string) ([]fs.DirEntry, error)

// testReadDir checks ReadDir. A store without ReadDir passes.
func testReadDir(t *testing.T, st store.Store) {
	l := readDir(store.CapabilitiesOf(st).ReadDir)
	if l == nil {
		return
	}
	wantEntries(t, l, ".")
	for _, name := range []string{"b", "a", "é", "B", "a.b"} {
		if name != "B" || !foldsCase(t, st) {
			Put(t, st, name, name)
		}
	}
	u := create(t, st, "unfinished", store.Create{})
	want := []string{"B", "a", "a.b", "b", "é"}
	if foldsCase(t, st) {
		want = want[1:]
	}
	wantEntries(t, l, ".", want...)
	commit(t, u)
	wantEntries(t, l, ".", append(slices.Clip(want[:len(want)-1]), "unfinished", "é")...)

	for _, name := range []string{"a", "missing", "missing/too", "a/b"} {
		_, err := l(t.Context(), name)
		wantError(t, "ReadDir of "+name, err, fs.ErrNotExist)
	}
	for _, name := range []string{"", "/", "..", "a/..", "\x00", "a//b"} {
		_, err := l(t.Context(), name)
		wantError(t, "ReadDir of "+name, err, fs.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l(ctx, ".")
	wantError(t, "ReadDir", err, context.Canceled)
}

// foldsCase reports whether "A" and "a" are the same name in this store, for example because its
// file system ignores case. The store must contain "a".
func foldsCase(t *testing.T, st store.Store) bool {
	t.Helper()
	_, err := st.Stat(t.Context(), "A")
	if err != nil {
		wantError(t, "Stat", err, fs.ErrNotExist)
	}
	return err == nil
}

func wantEntries(t *testing.T, l readDir, dir string, want ...string) {
	t.Helper()
	entries, err := l(t.Context(), dir)
	if err != nil {
		t.Errorf("ReadDir(%s): %v", dir, err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
		fi, err := e.Info()
		if err != nil {
			t.Errorf("Info of %s: %v", e.Name(), err)
			continue
		}
		if e.IsDir() || e.Type() != 0 || !fi.Mode().IsRegular() || fi.Name() != e.Name() {
			t.Errorf("entry %s, Info %s: want a regular file", fs.FormatDirEntry(e), fs.FormatFileInfo(fi))
		}
		if e.Name() != "unfinished" && fi.Size() != int64(len(e.Name())) {
			t.Errorf("Info of %s has size %d, want %d", e.Name(), fi.Size(), len(e.Name()))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("ReadDir(%s) = %q, want %q", dir, got, want)
	}
}
