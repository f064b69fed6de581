package localdir_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

func TestDirStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		_, d := tempDir(t)
		return d
	})
}

// secret is the content of files outside the directory, in the tests of links.
const secret = "outside"

// linkedDir returns a directory inside another one, which contains "secret". The inner directory is
// full of links.
func linkedDir(t testing.TB) (outer, inner string) {
	t.Helper()
	outer = t.TempDir()
	return outer, fillLinked(t, outer)
}

// fillLinked fills outer, and returns the directory in it.
func fillLinked(t testing.TB, outer string) (inner string) {
	t.Helper()
	inner = filepath.Join(outer, "inner")
	writeFile(t, outer, "secret", secret)
	writeFile(t, outer, "outdir/secret", secret)
	writeFile(t, outer, "inner2/secret", secret) // a directory whose name begins with the name of the root
	writeFile(t, inner, "f", "inside")
	writeFile(t, inner, "d/f", "inside")
	writeFile(t, inner, "d/e/f", "inside")
	symlink(t, "f", inner, "to-f")
	symlink(t, "d/e/../../to-f", inner, "to-to-f")
	symlink(t, "d/e", inner, "to-e")
	symlink(t, "../f", inner, "to-e/up-f") // it must lead to d/f, not to f
	symlink(t, "d/new", inner, "to-new")
	symlink(t, "to-self", inner, "to-self")
	symlink(t, "..", inner, "out")
	symlink(t, "../secret", inner, "out-file")
	symlink(t, "../nothing", inner, "out-nothing")
	symlink(t, "../outdir", inner, "out-dir")
	symlink(t, "../inner2", inner, "out-prefix")
	symlink(t, filepath.Join(outer, "secret"), inner, "out-abs")
	symlink(t, filepath.Join(inner, "f"), inner, "abs-inside")
	symlink(t, "d/../../secret", inner, "out-through-d")
	symlink(t, "../../../../../../../../../../../../etc/passwd", inner, "out-far")
	return inner
}

// outsideNames lead out of linkedDir, to names that exist and to names that do not.
var outsideNames = []string{
	"out", "out-file", "out-nothing", "out-dir", "out-abs", "abs-inside", "out-through-d", "out-far", "out-prefix",
	"out/secret", "out/nothing", "out/inner/f", "out-dir/secret", "out-dir/nothing", "out-dir/no/thing",
	"out-prefix/secret",
}

func TestDirLinksOutside(t *testing.T) {
	outer, inner := linkedDir(t)
	before := listing(t, outer)
	d := dirAt(t, inner)
	for _, name := range outsideNames {
		_, openErr := d.Open(t.Context(), name)
		_, statErr := d.Stat(t.Context(), name)
		_, createErr := d.Create(t.Context(), name, store.Create{})
		for op, err := range map[string]error{"open": openErr, "stat": statErr, "create": createErr} {
			wantError(t, op+" "+name, err, fs.ErrPermission)
			// The error must not reveal what exists outside.
			if name == "out" && op == "create" {
				continue // a link to "..": refused because it is a directory
			}
			want := op + " " + name + ": permission denied: leads outside the root"
			if err == nil || err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		}
		if strings.Contains(name, "/") {
			_, err := d.Create(t.Context(), name, store.Create{Exclusive: true})
			wantError(t, "exclusive create of "+name, err, fs.ErrPermission)
		}
	}
	if after := listing(t, outer); !slices.Equal(after, before) {
		t.Errorf("files changed from\n%q\nto\n%q", before, after)
	}
}

func TestDirLinksInside(t *testing.T) {
	_, inner := linkedDir(t)
	d := dirAt(t, inner)
	tests := []struct{ name, target string }{
		{"to-f", "f"},
		{"to-to-f", "f"},
		{"to-e/f", "d/e/f"},
		{"to-e/up-f", "d/f"},
		{"d/e/up-f", "d/f"},
		{"to-new", "d/new"},
	}
	for _, tt := range tests {
		content := "through " + tt.name
		if err := upload(t, d, tt.name, content, store.Create{Size: 5}); err != nil {
			t.Error(err)
			continue
		}
		wantFile(t, inner, tt.target, content)
		f, err := d.Open(t.Context(), tt.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if b, err := io.ReadAll(io.NewSectionReader(f, 0, 1000)); string(b) != content {
			t.Errorf("%s reads %q, %v", tt.name, b, err)
		}
		f.Close()
	}
	if fi, err := os.Lstat(filepath.Join(inner, "to-f")); err != nil || fi.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link itself was replaced: %v, %v", fi, err)
	}
	_, err := d.Create(t.Context(), "to-f", store.Create{Exclusive: true})
	wantError(t, "exclusive create of a link", err, fs.ErrExist)
	for _, name := range []string{"to-e", "d"} {
		_, err = d.Create(t.Context(), name, store.Create{})
		wantError(t, "create of a directory", err, store.ErrNotRegular)
	}
	if _, err = d.Create(t.Context(), "to-self", store.Create{}); err == nil {
		t.Error("create of a link to itself succeeded")
	}
	wantNoTemps(t, inner)
}

// listing returns the names, sizes and kinds of everything below dir.
func listing(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.Walk(dir, func(p string, fi fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if fi.IsDir() { // the size and the time of a directory may change
			all = append(all, p+"/")
		} else {
			all = append(all, p+" "+fs.FormatFileInfo(fi))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDirNoParent(t *testing.T) {
	dir, d := tempDir(t)
	for _, c := range []store.Create{{}, {Size: 10}, {Exclusive: true}} {
		_, err := d.Create(t.Context(), "no/such/f", c)
		wantError(t, "create without a parent", err, fs.ErrNotExist)
	}
	if all := listing(t, dir); len(all) != 1 {
		t.Errorf("it left %q", all)
	}
}

func TestDirHidesUploads(t *testing.T) {
	dir, d := tempDir(t)
	begin(t, d, "f", store.Create{})
	left := temps(t, dir)
	if len(left) != 1 {
		t.Fatalf("temporary files %q, want one", left)
	}
	temp := filepath.Base(left[0])
	for _, name := range []string{temp, strings.ToLower(temp), strings.ToUpper(temp), temp + ".", temp + " ."} {
		_, err := d.Open(t.Context(), name)
		wantError(t, "open "+name, err, fs.ErrNotExist)
		_, err = d.Stat(t.Context(), name)
		wantError(t, "stat "+name, err, fs.ErrNotExist)
		_, err = d.Create(t.Context(), name, store.Create{})
		wantError(t, "create "+name, err, fs.ErrPermission)
	}
	if fi, err := os.Stat(left[0]); err != nil || runtime.GOOS != "windows" && fi.Mode() != 0o600 {
		t.Errorf("the hidden file has mode %v, %v, want 0600", fi.Mode(), err)
	}
	for _, name := range []string{".haul-notes.part", ".haul-.part", "haul-" + temp[6:], temp[:len(temp)-1]} {
		if err := upload(t, d, name, "x", store.Create{}); err != nil {
			t.Errorf("a name that only looks temporary: %v", err)
		}
	}
}

func TestDirUploadFollowsMovedDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not move a directory with open files")
	}
	dir, d := tempDir(t)
	writeFile(t, dir, "a/f", "old")
	moved := begin(t, d, "a/f", store.Create{})
	discarded := begin(t, d, "a/g", store.Create{})
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := moved.WriteAt([]byte("new"), 0); err != nil {
		t.Error(err)
	}
	if err := moved.Commit(); err != nil {
		t.Error(err)
	}
	wantFile(t, dir, "b/f", "new")
	if err := discarded.Close(); err != nil {
		t.Error(err)
	}
	wantNoTemps(t, dir)
}

func TestDirTargetBecomesDirectory(t *testing.T) {
	dir, d := tempDir(t)
	u := begin(t, d, "f", store.Create{})
	if err := os.Mkdir(filepath.Join(dir, "f"), 0o755); err != nil {
		t.Fatal(err)
	}
	wantError(t, "commit onto a directory", u.Commit(), store.ErrNotRegular)
	wantNoTemps(t, dir)
}

// TestDirTargetBecomesDirectoryLate makes a directory under the name of the upload's target just
// before the rename, after the check that would refuse it.
func TestDirTargetBecomesDirectoryLate(t *testing.T) {
	dir, d := tempDir(t)
	u := begin(t, d, "f", store.Create{})
	d.Before(func(call string) error {
		if call == "rename" {
			return os.Mkdir(filepath.Join(dir, "f"), 0o755)
		}
		return nil
	})
	wantError(t, "commit onto a directory", u.Commit(), store.ErrNotRegular)
	wantNoTemps(t, dir)
}

// TestDirCalls checks the order of the system calls that makes a file durable before it is visible.
func TestDirCalls(t *testing.T) {
	_, d := tempDir(t)
	tests := []struct {
		c    store.Create
		want string
	}{
		{store.Create{Size: 9}, "create lock space write truncate chmod sync rename syncdir"},
		{store.Create{}, "create lock write truncate chmod sync rename syncdir"},
		{store.Create{Exclusive: true}, "create lock write truncate chmod sync link syncdir remove"},
	}
	for _, tt := range tests {
		var calls []string
		d.Before(func(call string) error {
			calls = append(calls, call)
			return nil
		})
		name := fmt.Sprint(len(tt.want))
		if err := upload(t, d, name, "x", tt.c); err != nil {
			t.Error(err)
		}
		if got := strings.Join(calls, " "); got != tt.want {
			t.Errorf("%+v: calls\n%s, want\n%s", tt.c, got, tt.want)
		}
	}
}

// TestDirExclusiveAtTheLastMoment creates the name after all checks.
func TestDirExclusiveAtTheLastMoment(t *testing.T) {
	dir, d := tempDir(t)
	u := begin(t, d, "f", store.Create{Exclusive: true})
	d.Before(func(call string) error {
		if call == "link" {
			writeFile(t, dir, "f", "theirs")
		}
		return nil
	})
	wantError(t, "commit", u.Commit(), fs.ErrExist)
	wantFile(t, dir, "f", "theirs")
	wantNoTemps(t, dir)
}

// TestDirNoHardLinks publishes a file on a file system that refuses hard links.
func TestDirNoHardLinks(t *testing.T) {
	dir, d := tempDir(t)
	d.Before(failAt("link", syscall.EPERM))
	if err := upload(t, d, "f", "first", store.Create{Exclusive: true}); err != nil {
		t.Error(err)
	}
	late := begin(t, d, "g", store.Create{Exclusive: true})
	writeFile(t, dir, "g", "theirs")
	wantError(t, "commit", late.Commit(), fs.ErrExist)
	wantFile(t, dir, "f", "first")
	wantFile(t, dir, "g", "theirs")
	wantNoTemps(t, dir)
}

// failAt returns a hook that makes one system call fail.
func failAt(name string, err error) func(string) error {
	return func(call string) error {
		if call == name {
			return err
		}
		return nil
	}
}

// TestDirFailures makes each system call of an upload fail in turn.
func TestDirFailures(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS, syscall.EACCES} {
		for _, c := range []store.Create{{Size: 10}, {Size: 10, Exclusive: true}} {
			for k := 1; ; k++ {
				if !failKth(t, k, errno, c) {
					break
				}
			}
		}
	}
}

// failKth makes the kth system call fail. It returns false if there are fewer calls.
func failKth(t *testing.T, k int, errno syscall.Errno, c store.Create) bool {
	dir, d := tempDir(t)
	old := ""
	if !c.Exclusive {
		old = "old content"
		writeFile(t, dir, "f", old)
	}
	calls, failed := 0, ""
	d.Before(func(call string) error {
		calls++
		if calls == k {
			failed = call
			return errno
		}
		return nil
	})
	err := upload(t, d, "f", "new", c)
	got, _ := os.ReadFile(filepath.Join(dir, "f"))
	switch failed {
	case "", "link", "remove":
		// If the link is refused, the file is renamed; a file that is not removed is swept later.
		if err != nil || string(got) != "new" {
			t.Errorf("with %q failing: %v, content %q", failed, err, got)
		}
	case "syncdir": // the file already has its name
		wantError(t, failed, err, errno)
	default:
		wantError(t, failed, err, errno)
		if string(got) != old {
			t.Errorf("with %s failing, the name holds %q, want %q", failed, got, old)
		}
	}
	if errno == syscall.ENOSPC && err != nil {
		wantError(t, failed, err, store.ErrNoSpace)
	}
	if errno == syscall.EROFS && err != nil {
		wantError(t, failed, err, fs.ErrPermission)
	}
	if err != nil && strings.Contains(err.Error(), dir) {
		t.Errorf("error %q reveals where the root is", err)
	}
	if _, err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	wantNoTemps(t, dir)
	return failed != ""
}

func TestDirFileHasMethodsForSendfile(t *testing.T) {
	_, d := tempDir(t)
	if err := upload(t, d, "f", "content", store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, ok := f.(syscall.Conn); !ok {
		t.Error("not a syscall.Conn")
	}
	rs, ok := f.(io.ReadSeeker)
	if !ok {
		t.Fatal("not an io.ReadSeeker")
	}
	if size, err := rs.Seek(0, io.SeekEnd); size != 7 || err != nil {
		t.Errorf("Seek = %d, %v", size, err)
	}
	if _, err := rs.(io.Writer).Write([]byte("x")); err == nil {
		t.Error("a file opened for reading can be written")
	}
}

// TestDirErrorsHideTheRoot checks that errors contain the name that the caller gave, and not the
// path of the root.
func TestDirErrorsHideTheRoot(t *testing.T) {
	dir, d := tempDir(t)
	u := begin(t, d, "f", store.Create{})
	u.Close()
	_, err := u.WriteAt([]byte("x"), 0)
	if want := "write f: file already closed"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if err := u.Truncate(0); err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("error %q reveals where the root is", err)
	}
	_, err = d.Open(t.Context(), "no/such")
	if err == nil || strings.Count(err.Error(), "no/such") != 1 {
		t.Errorf("error %q, want the name once", err)
	}
}

func TestDirClosedRoot(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := localdir.New(root)
	root.Close()
	_, err = d.Open(t.Context(), "f")
	wantError(t, "open", err, fs.ErrClosed)
	_, err = d.Create(t.Context(), "f", store.Create{})
	wantError(t, "create", err, fs.ErrClosed)
	if _, err := d.Sweep(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("sweep: %v", err)
	}
}
