package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
)

func testMkdir(t *testing.T, tr store.Tree) {
	for _, name := range []string{"d", "d/e", "d/e/f"} {
		wantNil(t, "Mkdir", tr.Mkdir(t.Context(), name, 0))
		if fi, err := tr.Stat(t.Context(), name); err != nil || !fi.IsDir() {
			t.Errorf("Stat of a new directory = %v, %v", fi, err)
		}
	}
	Put(t, tr, "d/e/f/g", "content")
	before := Snapshot(t, tr)
	for name, want := range map[string]error{
		"d": fs.ErrExist, "d/e/f/g": fs.ErrExist, ".": fs.ErrExist,
		"missing/x": fs.ErrNotExist, "d/missing/x": fs.ErrNotExist, "d/e/f/g/x": fs.ErrNotExist,
	} {
		wantError(t, "Mkdir of "+name, tr.Mkdir(t.Context(), name, 0), want)
	}
	wantUnchanged(t, tr, "Mkdir", before)
	if runtime.GOOS == "windows" {
		return
	}
	for _, perm := range []fs.FileMode{0o755, 0o700, 0o777, 0o500} {
		name := fmt.Sprintf("p%o", perm)
		wantNil(t, "Mkdir", tr.Mkdir(t.Context(), name, perm|fs.ModeSticky))
		wantMode(t, tr, name, fs.ModeDir|perm)
	}
	wantMode(t, tr, "d", fs.ModeDir|0o755)
}

func testRemove(t *testing.T, tr store.Tree) {
	Put(t, tr, "f", "content")
	Put(t, tr, "g", "other")
	mkdir(t, tr, "d")
	Put(t, tr, "d/h", "in d")
	before := Snapshot(t, tr)
	for name, want := range map[string]error{
		"d": store.ErrNotRegular, ".": store.ErrNotRegular,
		"missing": fs.ErrNotExist, "missing/x": fs.ErrNotExist, "f/x": fs.ErrNotExist,
	} {
		wantError(t, "Remove of "+name, tr.Remove(t.Context(), name), want)
	}
	wantUnchanged(t, tr, "Remove", before)
	wantNil(t, "Remove", tr.Remove(t.Context(), "f"))
	wantMissing(t, tr, "f")
	wantError(t, "Remove again", tr.Remove(t.Context(), "f"), fs.ErrNotExist)
	wantContent(t, tr, "g", []byte("other"))
	Put(t, tr, "f", "again")
	wantContent(t, tr, "f", []byte("again"))
}

func testRemoveDir(t *testing.T, tr store.Tree) {
	mkdir(t, tr, "d")
	mkdir(t, tr, "d/e")
	Put(t, tr, "f", "content")
	before := Snapshot(t, tr)
	for name, want := range map[string]error{
		"d": fs.ErrExist, "f": fs.ErrNotExist, "missing": fs.ErrNotExist, "f/x": fs.ErrNotExist,
	} {
		wantError(t, "RemoveDir of "+name, tr.RemoveDir(t.Context(), name), want)
	}
	wantUnchanged(t, tr, "RemoveDir", before)
	wantNil(t, "RemoveDir", tr.RemoveDir(t.Context(), "d/e"))
	wantNil(t, "RemoveDir", tr.RemoveDir(t.Context(), "d"))
	wantMissing(t, tr, "d")
	wantError(t, "RemoveDir again", tr.RemoveDir(t.Context(), "d"), fs.ErrNotExist)
}

// testRoot checks that the root cannot be removed, renamed or replaced.
func testRoot(t *testing.T, tr store.Tree) {
	before := Snapshot(t, tr)
	wantError(t, "RemoveDir", tr.RemoveDir(t.Context(), "."), fs.ErrPermission)
	mkdir(t, tr, "d")
	for _, replace := range []bool{true, false} {
		wantError(t, "Rename", tr.Rename(t.Context(), ".", "x", replace), fs.ErrPermission)
		wantError(t, "Rename", tr.Rename(t.Context(), "d", ".", replace), fs.ErrPermission)
	}
	for _, follow := range []bool{true, false} {
		wantError(t, "SetAttr", tr.SetAttr(t.Context(), ".", store.Attr{Mode: new(fs.FileMode)}, follow), fs.ErrPermission)
	}
	wantNil(t, "RemoveDir", tr.RemoveDir(t.Context(), "d"))
	wantUnchanged(t, tr, "all that", before)
}

// kinds lists what may exist under a name, for arrange. "nothing" means that the name is not in use.
var kinds = []string{"nothing", "file", "directory", "full directory", "link"}

// arrange creates a file, directory or link of the given kind under that name; see kinds.
func arrange(t *testing.T, tr store.Tree, kind, name string) {
	t.Helper()
	switch kind {
	case "file":
		Put(t, tr, name, "content of "+name)
	case "directory":
		mkdir(t, tr, name)
	case "full directory":
		mkdir(t, tr, name)
		Put(t, tr, name+"/entry", "entry of "+name)
	case "link":
		symlink(t, tr, "nowhere", name)
	}
}

// testRename renames something of each kind to a name that belongs to something of each kind.
func testRename(t *testing.T, tr store.Tree) {
	for i, from := range kinds {
		for k, to := range kinds {
			for _, replace := range []bool{false, true} {
				dir := fmt.Sprintf("%d-%d-%v", i, k, replace)
				t.Run(fmt.Sprintf("%s to %s, %v", from, to, replace), func(t *testing.T) {
					mkdir(t, tr, dir)
					arrange(t, tr, from, dir+"/from")
					arrange(t, tr, to, dir+"/to")
					renameKinds(t, tr, dir, from, to, replace)
				})
			}
		}
	}
}

func renameKinds(t *testing.T, tr store.Tree, dir, from, to string, replace bool) {
	before := Snapshot(t, tr)
	err := tr.Rename(t.Context(), dir+"/from", dir+"/to", replace)
	isDir := func(kind string) bool { return strings.HasSuffix(kind, "directory") }
	switch {
	case from == "nothing":
		wantError(t, "Rename", err, fs.ErrNotExist)
	case to == "nothing":
		wantNil(t, "Rename", err)
	case !replace, isDir(from) != isDir(to), to == "full directory":
		wantError(t, "Rename", err, fs.ErrExist)
	case isDir(to): // some systems cannot replace a directory
		if err != nil {
			wantError(t, "Rename", err, fs.ErrExist)
		}
	default:
		wantNil(t, "Rename", err)
	}
	if err != nil {
		wantUnchanged(t, tr, "Rename", before)
		return
	}
	// Every name that was "from" or below it must now be "to" or below it, and there must be no
	// other names.
	var want []string
	for line := range strings.Lines(before) {
		if !strings.HasPrefix(line, dir+"/to") {
			want = append(want, strings.Replace(line, dir+"/from", dir+"/to", 1))
		}
	}
	if after := Snapshot(t, tr); after != strings.Join(want, "") {
		t.Errorf("Rename made of\n%sthis:\n%s", before, after)
	}
}

func testRenameDirectory(t *testing.T, tr store.Tree) {
	mkdir(t, tr, "a")
	mkdir(t, tr, "a/b")
	Put(t, tr, "a/b/f", "content")
	Put(t, tr, "f", "other")
	before := Snapshot(t, tr)
	for _, to := range []string{"a/x", "a/b/x"} {
		err := tr.Rename(t.Context(), "a", to, false)
		if runtime.GOOS != "windows" {
			wantError(t, "Rename below itself", err, fs.ErrInvalid)
		} else if err == nil {
			t.Error("a directory was moved below itself")
		}
	}
	for _, replace := range []bool{true, false} {
		wantError(t, "Rename to its parent", tr.Rename(t.Context(), "a/b", "a", replace), fs.ErrExist)
		wantError(t, "Rename below nothing", tr.Rename(t.Context(), "a", "missing/a", replace), fs.ErrNotExist)
		wantError(t, "Rename below a file", tr.Rename(t.Context(), "a", "f/a", replace), fs.ErrNotExist)
		wantError(t, "Rename from below a file", tr.Rename(t.Context(), "f/a", "x", replace), fs.ErrNotExist)
	}
	wantUnchanged(t, tr, "Rename", before)
	mkdir(t, tr, "c")
	wantNil(t, "Rename", tr.Rename(t.Context(), "a/b", "c/d", false))
	wantContent(t, tr, "c/d/f", []byte("content"))
	wantMissing(t, tr, "a/b")
	wantNil(t, "Rename", tr.Rename(t.Context(), "c", "a/c", false))
	wantContent(t, tr, "a/c/d/f", []byte("content"))
	wantNil(t, "Rename to its own name", tr.Rename(t.Context(), "f", "f", true))
	wantError(t, "Rename to its own name", tr.Rename(t.Context(), "f", "f", false), fs.ErrExist)
	wantContent(t, tr, "f", []byte("other"))
}

// testOneRenameWins renames many files to the same name at the same time, without replace.
func testOneRenameWins(t *testing.T, tr store.Tree) {
	const files = 16
	for i := range files {
		Put(t, tr, fmt.Sprint("f", i), fmt.Sprint("content ", i))
	}
	var wg sync.WaitGroup
	var errs [files]error
	for i := range files {
		wg.Go(func() { errs[i] = tr.Rename(t.Context(), fmt.Sprint("f", i), "to", false) })
	}
	wg.Wait()
	won := wantOneWinner(t, errs[:])
	for i := range files {
		if name := fmt.Sprint("f", i); i == won {
			wantMissing(t, tr, name)
		} else {
			wantContent(t, tr, name, fmt.Appendf(nil, "content %d", i))
		}
	}
	wantContent(t, tr, "to", fmt.Appendf(nil, "content %d", won))
}

// testAtOnce makes calls of all kinds at the same time, on few names. It checks only that the
// errors are of the documented kinds, and that the tree can be listed.
func testAtOnce(t *testing.T, tr store.Tree) {
	const workers, rounds = 4, 60
	names := []string{"a", "b", "a/b", "b/a", "a/b/c"}
	// In a store that renames by copying, another call may replace the file meanwhile. The server of
	// a store may fail if another call makes a directory of the name at that moment.
	known := []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, errors.ErrUnsupported, store.ErrChanged, store.ErrUnavailable}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				from, to := names[(i*7+w)%len(names)], names[(i*3+2*w+1)%len(names)]
				for op, err := range atOnce(t, tr, (i+w)%7, from, to) {
					if err == nil || runtime.GOOS == "windows" { // Windows does not allow changes of names in use
						continue
					}
					kind := slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) })
					busy := strings.Contains(err.Error(), "too many") || strings.Contains(err.Error(), "came and went")
					if !kind && !busy {
						t.Errorf("%s: %v, which is none of the kinds known", op, err)
					}
				}
			}
		})
	}
	wg.Wait()
	Snapshot(t, tr)
}

// atOnce makes one or two calls, which the number `what` selects. It returns their errors by the
// names of the calls.
func atOnce(t *testing.T, tr store.Tree, what int, from, to string) map[string]error {
	ctx := t.Context()
	switch what {
	case 0:
		return map[string]error{"mkdir": tr.Mkdir(ctx, to, 0)}
	case 1:
		return map[string]error{"rename": tr.Rename(ctx, from, to, len(from) > 1)}
	case 2:
		return map[string]error{"remove": tr.Remove(ctx, from), "rmdir": tr.RemoveDir(ctx, to)}
	case 3:
		return map[string]error{"link": tr.Link(ctx, from, to), "symlink": tr.Symlink(ctx, "../a", to)}
	case 4:
		h, err := tr.OpenFile(ctx, to, store.Access{Read: true, Write: true, Create: true})
		if err == nil {
			_, err = h.WriteAt(pattern(1000, 1), 50)
			_ = h.Close()
		}
		return map[string]error{"open": err}
	case 5:
		u, err := tr.Create(ctx, from, store.Create{})
		if err == nil {
			_, _ = u.WriteAt([]byte("uploaded"), 0)
			err = u.Commit()
			_ = u.Close()
		}
		return map[string]error{"create": err}
	}
	_, err := tr.ReadDir(ctx, from)
	return map[string]error{"readdir": err, "setattr": tr.SetAttr(ctx, to, store.Attr{Size: new(int64(10))}, true)}
}
