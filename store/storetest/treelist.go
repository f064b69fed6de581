package storetest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/haul-project/haul/store"
)

func openDir(t *testing.T, tr store.Tree, name string) store.Entries {
	t.Helper()
	e, err := tr.OpenDir(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// next returns the names of the next entries: at most n, and nil at the end of the listing.
func next(t *testing.T, e store.Entries, n int) []string {
	t.Helper()
	into := make([]fs.FileInfo, n)
	n, err := e.Next(into)
	if err == io.EOF && n == 0 {
		return nil
	}
	if err != nil || n == 0 {
		t.Fatalf("Next of %d = %d, %v", len(into), n, err)
	}
	var names []string
	for _, fi := range into[:n] {
		names = append(names, fi.Name())
	}
	return names
}

// all returns the sorted names of all entries. It reads n entries at a time.
func all(t *testing.T, e store.Entries, n int) []string {
	t.Helper()
	var names []string
	for {
		some := next(t, e, n)
		if some == nil {
			slices.Sort(names)
			return names
		}
		names = append(names, some...)
	}
}

// touch is like [Put], but writes the file in place if the store supports that, because it need not
// wait until the file is durable.
func touch(t *testing.T, tr store.Tree, name, content string) {
	t.Helper()
	h, err := tr.OpenFile(t.Context(), name, store.Access{Write: true, Create: true})
	if errors.Is(err, errors.ErrUnsupported) {
		Put(t, tr, name, content)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, h, content, 0)
	closeAll(t, h)
}

func testOpenDir(t *testing.T, tr store.Tree) {
	if got := all(t, openDir(t, tr, "."), 10); len(got) > 0 {
		t.Errorf("an empty directory has entries %q", got)
	}
	mkdir(t, tr, "d")
	var want []string
	for i := range 600 { // more entries than a store reads at a time
		name := fmt.Sprintf("f%03d", i)
		if i%100 == 0 {
			mkdir(t, tr, "d/"+name)
			touch(t, tr, "d/"+name+"/in", "")
		} else {
			touch(t, tr, "d/"+name, name)
		}
		want = append(want, name)
	}
	create(t, tr, "d/unfinished", store.Create{})
	for _, n := range []int{1, 7, 100, 1000} {
		e := openDir(t, tr, "d")
		if got := all(t, e, n); !slices.Equal(got, want) {
			t.Errorf("read by %d: %d entries, want %d, each once", n, len(got), len(want))
		}
		for range 2 {
			if k, err := e.Next(make([]fs.FileInfo, 1)); k != 0 || err != io.EOF {
				t.Errorf("Next after the last = %d, %v, want io.EOF", k, err)
			}
		}
		closeAll(t, e)
		_, err := e.Next(make([]fs.FileInfo, 1))
		wantError(t, "Next after Close", err, fs.ErrClosed)
		wantError(t, "Close again", e.Close(), fs.ErrClosed)
	}
	e := openDir(t, tr, "d")
	if n, err := e.Next(nil); n != 0 || err != nil {
		t.Errorf("Next of none = %d, %v", n, err)
	}
	into := make([]fs.FileInfo, 50)
	for {
		n, err := e.Next(into)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, fi := range into[:n] {
			got, err := tr.Lstat(t.Context(), "d/"+fi.Name())
			if err != nil || fs.FormatFileInfo(got) != fs.FormatFileInfo(fi) {
				t.Errorf("entry %s, Lstat %s, %v", fs.FormatFileInfo(fi), fs.FormatFileInfo(got), err)
			}
		}
	}
	closeAll(t, e)
	for _, name := range []string{"d/f001", "missing", "missing/x", "d/f001/x"} {
		_, err := tr.OpenDir(t.Context(), name)
		wantError(t, "OpenDir of "+name, err, fs.ErrNotExist)
	}
	if err := tr.Symlink(t.Context(), "d", "to-d"); err == nil {
		if got := all(t, openDir(t, tr, "to-d"), 100); !slices.Equal(got, want) {
			t.Errorf("through a link: %d entries, want %d", len(got), len(want))
		}
	}
}

// testOpenDirWhileChanging adds and removes entries of a directory while it lists the directory.
// Entries that stay must be listed exactly once.
func testOpenDirWhileChanging(t *testing.T, tr store.Tree) {
	mkdir(t, tr, "d")
	var stay []string
	for i := range 300 {
		touch(t, tr, fmt.Sprintf("d/go%03d", i), "")
		touch(t, tr, fmt.Sprintf("d/stay%03d", i), "")
		stay = append(stay, fmt.Sprintf("stay%03d", i))
	}
	e := openDir(t, tr, "d")
	got := next(t, e, 5)
	for i := range 300 {
		wantNil(t, "Remove", tr.Remove(t.Context(), fmt.Sprintf("d/go%03d", i)))
		touch(t, tr, fmt.Sprintf("d/come%03d", i), "")
	}
	got = append(got, all(t, e, 10)...)
	got = slices.DeleteFunc(got, func(s string) bool { return s[0] != 's' })
	slices.Sort(got)
	if !slices.Equal(got, stay) {
		t.Errorf("%d entries of those that stay, want %d, each once", len(got), len(stay))
	}
	closeAll(t, e)

	e = openDir(t, tr, "d")
	if err := tr.Rename(t.Context(), "d", "moved", false); err == nil { // Windows may refuse
		if got := all(t, e, 100); len(got) != 600 {
			t.Errorf("%d entries of a directory that was moved, want 600", len(got))
		}
	}
	closeAll(t, e)
}

func testSpace(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	for _, name := range []string{".", "f"} {
		s, err := tr.Space(t.Context(), name)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("it does not know")
		}
		if err != nil {
			t.Fatal(err)
		}
		ok := s.Total > 0 && s.Free > 0 && s.Free <= s.Total && s.Available >= 0 && s.Available <= s.Free &&
			s.BlockSize > 0 && s.Total%s.BlockSize == 0 && s.Files >= s.FreeFiles && s.FreeFiles >= s.AvailableFiles &&
			s.MaxName >= 255 && !s.ReadOnly
		if !ok {
			t.Errorf("Space(%s) = %+v", name, s)
		}
	}
	_, err := tr.Space(t.Context(), "missing")
	wantError(t, "Space of nothing", err, fs.ErrNotExist)
}

// testDetails checks that a listed entry has details if Lstat returns details for it.
func testDetails(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	fi, err := tr.Lstat(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	d, ok := store.DetailsOf(fi)
	if !ok {
		t.Skip("it has no details")
	}
	if d.Links != 1 || d.AccessTime.IsZero() {
		t.Errorf("details %+v", d)
	}
	if err := tr.Link(t.Context(), "f", "g"); err == nil {
		fi, err := tr.Stat(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := store.DetailsOf(fi); !ok || d.Links != 2 {
			t.Errorf("details of a file of two names: %+v, %v", d, ok)
		}
	}
	if _, ok := store.DetailsOf(value(store.FromBytes("x", nil).Stat())); ok {
		t.Error("a file of no store has details")
	}
}

func value[T any](v T, _ error) T { return v }
