package localdir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
)

func TestDirTree(t *testing.T) {
	storetest.RunTree(t, func(t *testing.T) store.Tree {
		_, d := tempDir(t)
		return d
	})
}

// TestTreeHidesUploads makes each call with the name of the temporary file of an upload, which no
// client can know.
func TestTreeHidesUploads(t *testing.T) {
	dir, d := tempDir(t)
	writeFile(t, dir, "f", "content")
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	u := begin(t, d, "d/f", store.Create{})
	left := temps(t, dir)
	if len(left) != 1 {
		t.Fatalf("temporary files %q, want one", left)
	}
	base := filepath.Base(left[0])
	ctx := t.Context()
	before := storetest.Snapshot(t, d)
	for _, base := range []string{base, strings.ToLower(base), strings.ToUpper(base), base + ".", base + " ."} {
		name := "d/" + base
		err := func(_ any, err error) error { return err }
		mode := fs.FileMode(0o777)
		for op, err := range map[string]error{
			"lstat":       err(d.Lstat(ctx, name)),
			"readlink":    err(d.Readlink(ctx, name)),
			"opendir":     err(d.OpenDir(ctx, name)),
			"openfile":    err(d.OpenFile(ctx, name, store.Access{Read: true})),
			"remove":      d.Remove(ctx, name),
			"rmdir":       d.RemoveDir(ctx, name),
			"rename from": d.Rename(ctx, name, "x", true),
			"link from":   d.Link(ctx, name, "x"),
			"setattr":     d.SetAttr(ctx, name, store.Attr{Mode: &mode}, true),
			"lsetattr":    d.SetAttr(ctx, name, store.Attr{Mode: &mode}, false),
			"statvfs":     err(d.Space(ctx, name)),
		} {
			wantError(t, op+" of "+name, err, fs.ErrNotExist)
		}
		for op, err := range map[string]error{
			"openfile":  err(d.OpenFile(ctx, name, store.Access{Write: true, Create: true})),
			"exclusive": err(d.OpenFile(ctx, name, store.Access{Write: true, Create: true, Exclusive: true})),
			"mkdir":     d.Mkdir(ctx, name, 0),
			"rename to": d.Rename(ctx, "f", name, true),
			"link to":   d.Link(ctx, "f", name),
			"symlink":   d.Symlink(ctx, "f", name),
			"to it":     d.Symlink(ctx, name, "x"),
			"in there":  d.Symlink(ctx, base, "d/x"),
		} {
			wantError(t, op+" "+name, err, fs.ErrPermission)
		}
	}
	if after := storetest.Snapshot(t, d); after != before {
		t.Errorf("the tree changed from\n%sto\n%s", before, after)
	}
	wantError(t, "RemoveDir", d.RemoveDir(ctx, "d"), fs.ErrExist)
	if err := d.Rename(ctx, "d", "moved", false); err != nil && runtime.GOOS != "windows" {
		t.Error(err)
	}
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
	wantNoTemps(t, dir)
}

// TestTreeHiddenThroughLinks follows links to a temporary file. Such links are made by a program
// with access to the disk.
func TestTreeHiddenThroughLinks(t *testing.T) {
	dir, d := tempDir(t)
	u := begin(t, d, "f", store.Create{})
	symlink(t, filepath.Base(temps(t, dir)[0]), dir, "l")
	_, err := d.OpenFile(t.Context(), "l", store.Access{Read: true})
	wantError(t, "OpenFile", err, fs.ErrNotExist)
	_, err = d.OpenFile(t.Context(), "l", store.Access{Write: true, Create: true})
	wantError(t, "OpenFile to create", err, fs.ErrPermission)
	_, err = d.Create(t.Context(), "l", store.Create{})
	wantError(t, "Create", err, fs.ErrPermission)
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
}

// TestRemoveDirSweeps removes a directory in which an upload has died.
func TestRemoveDirSweeps(t *testing.T) {
	dir, d := tempDir(t)
	dead := ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part"
	writeFile(t, dir, "d/"+dead, "x")
	writeFile(t, dir, "e/"+dead, "x")
	writeFile(t, dir, "e/f", "content")
	if err := d.RemoveDir(t.Context(), "d"); err != nil {
		t.Error(err)
	}
	wantError(t, "RemoveDir", d.RemoveDir(t.Context(), "e"), fs.ErrExist)
	wantFile(t, dir, "e/"+dead, "x") // the directory is not empty, so nothing is removed
	if err := os.Remove(filepath.Join(dir, "e", "f")); err != nil {
		t.Fatal(err)
	}
	u := begin(t, d, "e/f", store.Create{})
	wantError(t, "RemoveDir", d.RemoveDir(t.Context(), "e"), fs.ErrExist)
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
}

// TestRenameFallsBack renames on a file system that can neither rename in one step without
// replacing, nor make hard links.
func TestRenameFallsBack(t *testing.T) {
	var first string
	_, d := tempDir(t)
	d.Before(func(call string) error {
		if first == "" {
			first = call
		}
		return nil
	})
	wantError(t, "Rename of nothing", d.Rename(t.Context(), "a", "b", false), fs.ErrNotExist)
	refused := []string{"link"}
	if first == "rename" {
		refused = []string{"rename", "link"}
	}
	for n := range len(refused) + 1 {
		dir, d := tempDir(t)
		writeFile(t, dir, "f", "content")
		writeFile(t, dir, "d/f", "in d")
		writeFile(t, dir, "taken", "mine")
		for _, from := range []string{"f", "d"} {
			d.Before(failOnce(syscall.EINVAL, refused[:n]...))
			wantError(t, "Rename", d.Rename(t.Context(), from, "taken", false), fs.ErrExist)
			d.Before(failOnce(syscall.EINVAL, refused[:n]...))
			if err := d.Rename(t.Context(), from, "new-"+from, false); err != nil {
				t.Error(err)
			}
		}
		wantFile(t, dir, "new-f", "content")
		wantFile(t, dir, "new-d/f", "in d")
		wantFile(t, dir, "taken", "mine")
		wantNames(t, d, ".", "new-d", "new-f", "taken")
	}
	dir, d := tempDir(t)
	writeFile(t, dir, "f", "content")
	d.Before(func(call string) error {
		return map[string]error{"rename": syscall.EINVAL, "remove": syscall.EIO}[call]
	})
	wantError(t, "Rename whose last step fails", d.Rename(t.Context(), "f", "g", false), syscall.EIO)
	wantNames(t, d, ".", "f")
}

// failOnce returns a hook that makes the first of each of these calls fail.
func failOnce(err error, calls ...string) func(string) error {
	failed := map[string]bool{}
	return func(call string) error {
		if slices.Contains(calls, call) && !failed[call] {
			failed[call] = true
			return err
		}
		return nil
	}
}

// TestTreeFailures makes each system call of each operation fail in turn. The error must give the
// reason, and nothing must have changed.
func TestTreeFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS} {
		for _, op := range storetest.Operations() {
			for k := 1; failTreeOp(t, op, k, errno); k++ {
				if k > 50 {
					t.Fatalf("%s has no end", op.Name)
				}
			}
		}
	}
}

// failTreeOp makes the kth system call of op fail. It returns false if there are fewer calls.
func failTreeOp(t *testing.T, op storetest.Operation, k int, errno syscall.Errno) bool {
	dir, d := tempDir(t)
	storetest.Fill(t, d)
	before := storetest.Snapshot(t, d)
	calls, failed := 0, ""
	d.Before(func(call string) error {
		if calls++; calls == k {
			failed = call
			return errno
		}
		return nil
	})
	err := op.Do(t.Context(), d)
	d.Before(nil)
	what := fmt.Sprintf("%s, with %s failing by %v", op.Name, failed, errno)
	after := storetest.Snapshot(t, d)
	exclusive := op.Name == "create, exclusive"
	switch {
	case failed == "":
		if err != nil || op.Changes == (after == before) {
			t.Errorf("%s: %v, and the tree changed: %v", op.Name, err, after != before)
		}
	case exclusive && (failed == "link" || failed == "remove"): // see TestDirFailures
		return true
	case failed == "link" && strings.HasPrefix(op.Name, "rename"):
		// The portable implementation uses another call then.
		return true
	default:
		wantError(t, what, err, errno)
		if errno == syscall.ENOSPC {
			wantError(t, what, err, store.ErrNoSpace)
		}
		if err != nil && strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %q reveals where the root is", what, err)
		}
		inPlace := strings.HasPrefix(op.Name, "openfile") && failed != "create" && failed != "chmod"
		if after != before && failed != "syncdir" && !inPlace {
			t.Errorf("%s changed the tree from\n%sto\n%s", what, before, after)
		}
	}
	if _, err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	wantNoTemps(t, dir)
	return failed != ""
}

// TestTreeLinkRace makes a name alternate between a directory inside and a link to the outside,
// while all calls are made below that name.
func TestTreeLinkRace(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	outer, inner := linkedDir(t)
	d := dirAt(t, inner)
	writeFile(t, inner, "real/secret", "inside")
	symlink(t, "../outdir", inner, "trap")
	outside := outsideListing(t, outer)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		swing, in := filepath.Join(inner, "swing"), true
		for {
			from := filepath.Join(inner, map[bool]string{true: "real", false: "trap"}[in])
			if os.Rename(from, swing) == nil {
				_ = os.Rename(swing, from)
			}
			in = !in
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range rounds {
		for _, name := range []string{"swing/secret", "swing/new"} {
			useEverything(t, d, name)
		}
	}
	close(stop)
	<-stopped
	if now := outsideListing(t, outer); strings.Join(now, "\n") != strings.Join(outside, "\n") {
		t.Errorf("what is outside changed from %q to %q", outside, now)
	}
	wantFile(t, outer, "outdir/secret", secret)
}

// useEverything makes all calls on name, whether they succeed or not, and checks that none returns
// anything from the outside.
func useEverything(t testing.TB, d *localdir.Dir, name string) {
	ctx := t.Context()
	if f, err := d.Open(ctx, name); err == nil {
		wantNotSecret(t, name, f)
	}
	if h, err := d.OpenFile(ctx, name, store.Access{Read: true, Write: true, Create: true}); err == nil {
		_, _ = h.WriteAt([]byte("inside"), 0)
		wantNotSecret(t, name, h)
	}
	mode, size := fs.FileMode(0o640), int64(6)
	_ = d.SetAttr(ctx, name, store.Attr{Mode: &mode}, true)
	_ = d.SetAttr(ctx, name, store.Attr{Size: &size, Mode: &mode}, true)
	_ = d.SetAttr(ctx, name, store.Attr{Mode: &mode}, false)
	_ = upload(t, d, name, "inside", store.Create{})
	_ = d.Link(ctx, name, name+"2")
	_ = d.Rename(ctx, name, name+"3", false)
	_ = d.Rename(ctx, name+"3", name, true)
	_ = d.Symlink(ctx, "../../outdir/secret", name+"4")
	_ = d.Mkdir(ctx, name+"5", 0)
	_ = d.RemoveDir(ctx, name+"5")
	for _, s := range []string{"2", "3", "4"} {
		_ = d.Remove(ctx, name+s)
	}
	if e, err := d.OpenDir(ctx, path.Dir(name)); err == nil {
		into := make([]fs.FileInfo, 10)
		n, _ := e.Next(into)
		for _, fi := range into[:n] {
			if fi.Mode().IsRegular() && fi.Size() == int64(len(secret)) {
				t.Errorf("%s is listed, and is %d bytes long like what is outside", fi.Name(), fi.Size())
			}
		}
		_ = e.Close()
	}
}

// wantNotSecret checks that f does not contain the secret, and closes it.
func wantNotSecret(t testing.TB, name string, f store.File) {
	t.Helper()
	defer f.Close()
	p := make([]byte, 100)
	n, _ := f.ReadAt(p, 0)
	if strings.Contains(string(p[:n]), secret) {
		t.Errorf("%q reads %q, which is outside", name, p[:n])
	}
}

// TestTreeErrorsTellNames checks that errors contain the name that the caller gave.
func TestTreeErrorsTellNames(t *testing.T) {
	_, d := tempDir(t)
	for _, tree := range []store.Tree{d, store.Mem(0)} {
		for want, err := range map[string]error{
			"rename a b: ": tree.Rename(context.Background(), "a", "b", false),
			"link a b: ":   tree.Link(context.Background(), "a", "b"),
			"mkdir a/b: ":  tree.Mkdir(context.Background(), "a/b", 0),
			"rmdir a: ":    tree.RemoveDir(context.Background(), "a"),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q, want %q...", err, want)
			}
			if errors.Is(err, fs.ErrPermission) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %q is of the wrong kind", err)
			}
		}
	}
}
