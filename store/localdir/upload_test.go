package localdir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// An upload has its mode and its times as soon as it has its name. It can be read before that.
func TestUploadAttributes(t *testing.T) {
	then := time.Unix(1_000_000_000, 500)
	for _, resume := range []string{"", "me"} {
		dir := t.TempDir()
		d := dirAt(t, dir)
		writeFile(t, dir, "f", "old")
		u, err := d.Create(t.Context(), "f", store.Create{Resume: resume, Size: 3 * 4096})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		a := u.(store.AttrUpload)
		mode, size, uid := fs.FileMode(0o604), int64(7), uint32(1)
		for _, bad := range []store.Attr{{Size: &size}, {UID: &uid}} {
			if err := a.SetAttr(bad); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("SetAttr(%+v): %v", bad, err)
			}
		}
		if err := a.SetAttr(store.Attr{Mode: &mode}); err != nil {
			t.Error(err)
		}
		if err := a.SetAttr(store.Attr{ModTime: then}); err != nil {
			t.Error(err)
		}
		if _, err := u.WriteAt([]byte("new"), 0); err != nil {
			t.Fatal(err)
		}
		f, err := store.CapabilitiesOf(d).OpenUpload(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 3)
		if n, err := f.ReadAt(b, 0); n != 3 || string(b) != "new" {
			t.Errorf("%q, %v", b[:n], err)
		}
		wantZeros(t, d, u, 3*4096)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if string(readFile(t, filepath.Join(dir, "f"))) != "old" {
			t.Error("the file has changed before Commit")
		}
		if err := u.Commit(); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(filepath.Join(dir, "f"))
		if err != nil || fi.Mode() != mode || !fi.ModTime().Equal(then) {
			t.Errorf("%v %v, %v", fi.Mode(), fi.ModTime(), err)
		}
		if err := a.SetAttr(store.Attr{Mode: &mode}); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("SetAttr after Commit: %v", err)
		}
		if _, err := store.CapabilitiesOf(d).OpenUpload(t.Context(), u); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Open after Commit: %v", err)
		}
	}
}

// wantZeros writes zeros after all data of u, up to size. On the disk they may be left out, but
// they must be readable before u is committed.
func wantZeros(t *testing.T, d store.Tree, u store.Upload, size int64) {
	t.Helper()
	if _, err := u.WriteAt(make([]byte, size-3), 3); err != nil {
		t.Fatal(err)
	}
	f, err := store.CapabilitiesOf(d).OpenUpload(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size || strings.Trim(string(b[3:]), "\x00") != "" {
		t.Errorf("%d bytes of %d, %v", n, size, err)
	}
}

// Without NoSync an upload waits for the disk; with NoSync it does not.
func TestUploadNoSync(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		d := dirAt(t, t.TempDir())
		var calls []string
		d.Before(func(call string) error { calls = append(calls, call); return nil })
		u, err := d.Create(t.Context(), "f", store.Create{NoSync: noSync})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(); err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"sync", "syncdir"} {
			if slices.Contains(calls, call) == noSync {
				t.Errorf("NoSync %v: calls are %q", noSync, calls)
			}
		}
	}
}

// The part that was written for another source is discarded.
func TestResumeOfAnotherSource(t *testing.T) {
	data := source(10_000)
	for _, other := range []string{"", "that"} {
		dir := t.TempDir()
		d := dirAt(t, dir)
		d.SetCheckpoint(crashCheckpoint)
		begin := func(of string) resumer {
			u, err := d.Create(t.Context(), "f", store.Create{Resume: "me", Source: of})
			if err != nil {
				t.Fatal(err)
			}
			r, ok := u.(resumer)
			if !ok {
				t.Skip("no locks here")
			}
			return r
		}
		for i, test := range []struct {
			of   string
			want int64
		}{{"this", 0}, {"this", 5000}, {other, 0}, {other, 5000}, {"this", 0}} {
			u := begin(test.of)
			if u.Resumed() != test.want {
				t.Errorf("%d: of %q %d bytes are there, want %d", i, test.of, u.Resumed(), test.want)
			}
			writePiece(t, u, data, int(u.Resumed()), 5000)
			closeUpload(t, u)
		}
		u := begin("this")
		finish(t, dir, u, "f", data)
	}
}

// A part of a store is a separate store, even if its name is given to something else, and nothing
// leads out of it.
func TestSub(t *testing.T) {
	dir := t.TempDir()
	d := dirAt(t, dir)
	for _, name := range []string{"a/b", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, dir, "file", "file")
	for name, want := range map[string]error{"none": fs.ErrNotExist, "file": fs.ErrNotExist, "../x": fs.ErrInvalid} {
		if _, _, err := store.CapabilitiesOf(d).Sub(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("Sub(%q): %v", name, err)
		}
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := store.CapabilitiesOf(d).Sub(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Sub with a context that has ended: %v", err)
	}
	sub, end, err := store.CapabilitiesOf(d).Sub(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "moved")); err != nil {
		t.Skip(err) // on some systems, an open directory cannot be moved
	}
	if err := os.Symlink("other", filepath.Join(dir, "a")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("../other", filepath.Join(dir, "moved", "out")); err != nil {
		t.Fatal(err)
	}
	if err := sub.Mkdir(t.Context(), "b/c", 0); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "moved/b/c")); err != nil {
		t.Error(err)
	}
	if err := sub.Mkdir(t.Context(), "out/c", 0); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("through a link that leads out: %v", err)
	}
	if err := end.Close(); err != nil {
		t.Error(err)
	}
	if err := sub.Mkdir(t.Context(), "b/d", 0); err == nil {
		t.Error("it is used after its end")
	}
}

// A store with NoSync does not wait for the disk at any step of an upload. The same holds for a
// part of the store.
func TestNoSync(t *testing.T) {
	for _, c := range []store.Create{{}, {Exclusive: true}, {Parents: true}} {
		dir, d := tempDir(t)
		d.NoSync = true
		var calls []string
		d.Before(func(call string) error {
			calls = append(calls, call)
			return nil
		})
		name := "f"
		if c.Parents {
			name = "a/b/f"
		}
		if err := upload(t, d, name, "content", c); err != nil {
			t.Fatal(err)
		}
		sub, end, err := store.CapabilitiesOf(d).Sub(t.Context(), ".")
		if err != nil {
			t.Fatal(err)
		}
		if err := upload(t, sub, name+"2", "content", c); err != nil {
			t.Fatal(err)
		}
		_ = end.Close()
		for _, call := range calls {
			if strings.Contains(call, "sync") {
				t.Errorf("%+v: called %s", c, call)
			}
		}
		wantFile(t, dir, name, "content")
		wantFile(t, dir, name+"2", "content")
	}
}
