package storetest

import (
	"errors"
	"io/fs"
	"runtime"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

func setAttr(t *testing.T, tr store.Tree, name string, a store.Attr, follow bool) {
	t.Helper()
	if err := tr.SetAttr(t.Context(), name, a, follow); err != nil {
		t.Error(err)
	}
}

func testSetMode(t *testing.T, tr store.Tree) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	Put(t, tr, "f", "content")
	mkdir(t, tr, "d")
	const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	for _, mode := range []fs.FileMode{0, 0o444, 0o600, 0o777, 0o755 | special} {
		for _, follow := range []bool{true, false} {
			setAttr(t, tr, "f", store.Attr{Mode: &mode}, follow)
			wantMode(t, tr, "f", mode.Perm())
			setAttr(t, tr, "d", store.Attr{Mode: &mode}, follow)
			wantMode(t, tr, "d", fs.ModeDir|mode.Perm())
		}
		reset := fs.FileMode(0o644)
		setAttr(t, tr, "f", store.Attr{Mode: &reset}, true)
		h := openFile(t, tr, "f", store.Access{Write: true})
		wantNil(t, "SetAttr of the handle", h.SetAttr(store.Attr{Mode: &mode}))
		closeAll(t, h)
		wantMode(t, tr, "f", mode.Perm())
		setAttr(t, tr, "f", store.Attr{Mode: &reset}, true)
	}
	for _, name := range []string{"missing", "f/x", "missing/x"} {
		for _, follow := range []bool{true, false} {
			wantError(t, "SetAttr", tr.SetAttr(t.Context(), name, store.Attr{Mode: new(fs.FileMode(0o600))}, follow), fs.ErrNotExist)
		}
	}
	wantContent(t, tr, "f", []byte("content"))
}

// wantTimes compares times only to the second, because file systems differ in the fractions that
// they store.
func wantTimes(t *testing.T, tr store.Tree, name string, atime, mtime time.Time) {
	t.Helper()
	fi, err := tr.Lstat(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	if got := fi.ModTime(); got.Unix() != mtime.Unix() {
		t.Errorf("%s was modified %v, want %v", name, got, mtime)
	}
	if d, ok := store.DetailsOf(fi); ok && d.AccessTime.Unix() != atime.Unix() {
		t.Errorf("%s was read %v, want %v", name, d.AccessTime, atime)
	}
}

func testSetTimes(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	mkdir(t, tr, "d")
	// late, in seconds since 1970, does not fit in 31 bits.
	early, late := time.Unix(1_000_000_000, 0), time.Unix(3_000_000_000, 0)
	for _, name := range []string{"f", "d"} {
		setAttr(t, tr, name, store.Attr{AccessTime: early, ModTime: late}, true)
		wantTimes(t, tr, name, early, late)
		setAttr(t, tr, name, store.Attr{ModTime: early}, true)
		wantTimes(t, tr, name, early, early)
		setAttr(t, tr, name, store.Attr{AccessTime: late}, false)
		wantTimes(t, tr, name, late, early)
	}
	setAttr(t, tr, ".", store.Attr{ModTime: early, AccessTime: late}, true)
	wantTimes(t, tr, ".", late, early)
	h := openFile(t, tr, "f", store.Access{Write: true})
	write(t, h, "C", 0)
	if fi, err := h.Stat(); err != nil || fi.ModTime().Unix() == early.Unix() {
		t.Errorf("a write leaves the time %v, %v", fi.ModTime(), err)
	}
	wantNil(t, "SetAttr of the handle", h.SetAttr(store.Attr{AccessTime: early, ModTime: late}))
	wantTimes(t, tr, "f", early, late)
	wantNil(t, "SetAttr of the handle", h.SetAttr(store.Attr{ModTime: early}))
	closeAll(t, h)
	wantTimes(t, tr, "f", early, early)
	h = openFile(t, tr, "f", store.Access{Read: true})
	wantNil(t, "SetAttr of a handle to read", h.SetAttr(store.Attr{AccessTime: early, ModTime: late}))
	wantError(t, "SetAttr of its size", h.SetAttr(store.Attr{Size: new(int64)}), fs.ErrPermission)
	closeAll(t, h)
	wantTimes(t, tr, "f", early, late)
	// Set all attributes in one call. SetAttr sets the size first, and the times after that, so the
	// size must not affect the times.
	setAttr(t, tr, "f", store.Attr{Size: new(int64(3)), AccessTime: late, ModTime: late}, true)
	wantTimes(t, tr, "f", late, late)
	wantContent(t, tr, "f", []byte("Con"))
}

func testSetSize(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	mkdir(t, tr, "d")
	for _, tt := range []struct {
		size int64
		want string
	}{{3, "con"}, {5, "con\x00\x00"}, {0, ""}} {
		setAttr(t, tr, "f", store.Attr{Size: &tt.size}, true)
		wantContent(t, tr, "f", []byte(tt.want))
	}
	before := Snapshot(t, tr)
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), "d", store.Attr{Size: new(int64(4))}, true), store.ErrNotRegular)
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), ".", store.Attr{Size: new(int64(4))}, true), store.ErrNotRegular)
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), "missing", store.Attr{Size: new(int64(4))}, true), fs.ErrNotExist)
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), "f", store.Attr{Size: new(int64(-1))}, true), fs.ErrInvalid)
	wantUnchanged(t, tr, "SetAttr", before)
	if runtime.GOOS == "windows" {
		return
	}
	// A file that becomes read-only can still be cut in the same call.
	setAttr(t, tr, "f", store.Attr{Size: new(int64(7)), Mode: new(fs.FileMode(0o400))}, true)
	wantContent(t, tr, "f", make([]byte, 7))
	wantMode(t, tr, "f", 0o400)
}

func testSetNothing(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	early := time.Unix(1_000_000_000, 0)
	setAttr(t, tr, "f", store.Attr{AccessTime: early, ModTime: early}, true)
	setAttr(t, tr, "f", store.Attr{}, true)
	setAttr(t, tr, "f", store.Attr{}, false)
	h := openFile(t, tr, "f", store.Access{Write: true})
	wantNil(t, "SetAttr of the handle", h.SetAttr(store.Attr{}))
	closeAll(t, h)
	wantTimes(t, tr, "f", early, early)
	setAttr(t, tr, ".", store.Attr{}, true)
	wantError(t, "SetAttr of nothing", tr.SetAttr(t.Context(), "missing", store.Attr{}, true), fs.ErrNotExist)
}

func testSetLinkAttr(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	symlink(t, tr, "f", "l")
	symlink(t, tr, "nowhere", "dangling")
	early, late := time.Unix(1_000_000_000, 0), time.Unix(1_500_000_000, 0)
	setAttr(t, tr, "f", store.Attr{AccessTime: early, ModTime: early}, true)
	setAttr(t, tr, "l", store.Attr{AccessTime: late, ModTime: late}, true)
	wantTimes(t, tr, "f", late, late)
	settable := true // the times of links can be set
	for _, name := range []string{"l", "dangling"} {
		err := tr.SetAttr(t.Context(), name, store.Attr{AccessTime: early, ModTime: early}, false)
		if err != nil {
			wantError(t, "SetAttr of a link", err, errors.ErrUnsupported)
			settable = false
			continue
		}
		// Lstat may have read the link, which changes its access time.
		if fi, err := tr.Lstat(t.Context(), name); err != nil || fi.ModTime().Unix() != early.Unix() {
			t.Errorf("Lstat = %v, %v, want the time set", fi, err)
		}
	}
	wantTimes(t, tr, "f", late, late)
	size, mode := int64(1), fs.FileMode(0o600)
	// A link has no mode, so setting it is an error. The times must be set nevertheless.
	both := store.Attr{Mode: &mode, AccessTime: late, ModTime: late}
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), "l", both, false), errors.ErrUnsupported)
	if fi, err := tr.Lstat(t.Context(), "l"); settable && (err != nil || fi.ModTime().Unix() != late.Unix()) {
		t.Errorf("Lstat = %v, %v, want the time set", fi, err)
	}
	before := Snapshot(t, tr)
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), "l", store.Attr{Size: &size}, false), errors.ErrUnsupported)
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), "l", store.Attr{Mode: &mode}, false), errors.ErrUnsupported)
	wantError(t, "SetAttr", tr.SetAttr(t.Context(), "dangling", store.Attr{Size: &size}, true), fs.ErrNotExist)
	wantUnchanged(t, tr, "SetAttr", before)
	setAttr(t, tr, "l", store.Attr{Size: &size}, true)
	wantContent(t, tr, "f", []byte("c"))
}
