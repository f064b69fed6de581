//go:build unix

package localdir_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// TestTreeNotRegular opens in place files that would block until a peer opens them, or devices that
// would start. Their names and attributes can be changed nevertheless.
func TestTreeNotRegular(t *testing.T) {
	dir, err := os.MkdirTemp("", "haul") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	symlink(t, "fifo", dir, "link")
	d, dev := dirAt(t, dir), dirAt(t, "/dev")
	for name, tree := range map[string]*localdir.Dir{
		"fifo": d, "socket": d, "link": d, "null": dev, "zero": dev, "tty": dev,
	} {
		for _, a := range []store.Access{
			{Read: true}, {Write: true}, {Read: true, Write: true}, {Append: true}, {Write: true, Create: true, Truncate: true},
		} {
			_, err := tree.OpenFile(t.Context(), name, a)
			wantError(t, "OpenFile of "+name, err, store.ErrNotRegular)
		}
		_, err := tree.OpenFile(t.Context(), name, store.Access{Write: true, Create: true, Exclusive: true})
		wantError(t, "exclusive OpenFile of "+name, err, fs.ErrExist)
		size := int64(0)
		err = tree.SetAttr(t.Context(), name, store.Attr{Size: &size}, true)
		wantError(t, "SetAttr of the size of "+name, err, store.ErrNotRegular)
		_, err = tree.OpenDir(t.Context(), name)
		wantError(t, "OpenDir of "+name, err, fs.ErrNotExist)
		wantError(t, "RemoveDir of "+name, tree.RemoveDir(t.Context(), name), fs.ErrNotExist)
		wantError(t, "Mkdir below "+name, tree.Mkdir(t.Context(), name+"/d", 0), fs.ErrNotExist)
		wantError(t, "Rename below "+name, tree.Rename(t.Context(), name+"/d", name+"/e", true), fs.ErrNotExist)
		if _, err := tree.Space(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if err := d.SetAttr(t.Context(), "link", store.Attr{Mode: new(fs.FileMode(0o600))}, true); err != nil {
		t.Error(err)
	}
	if fi, err := d.Lstat(t.Context(), "fifo"); err != nil || fi.Mode() != fs.ModeNamedPipe|0o600 {
		t.Errorf("Lstat = %v, %v", fi, err)
	}
	if err := d.Rename(t.Context(), "fifo", "pipe", false); err != nil {
		t.Error(err)
	}
	if err := d.Remove(t.Context(), "pipe"); err != nil {
		t.Error(err)
	}
}

// TestOpenFileBecomesPipe replaces a file by a pipe, or by a link to one, just before it is opened
// in place.
func TestOpenFileBecomesPipe(t *testing.T) {
	for _, a := range []store.Access{{Read: true}, {Write: true}, {Read: true, Append: true}, {Write: true, Create: true}} {
		for _, link := range []bool{false, true} {
			dir, d := tempDir(t)
			writeFile(t, dir, "f", "x")
			d.Before(func(call string) error {
				if call == "open" {
					os.Remove(filepath.Join(dir, "f"))
					name := "f"
					if link {
						symlink(t, "pipe", dir, "f")
						name = "pipe"
					}
					if err := syscall.Mkfifo(filepath.Join(dir, name), 0o666); err != nil {
						t.Error(err)
					}
				}
				return nil
			})
			_, err := d.OpenFile(t.Context(), "f", a)
			wantError(t, "OpenFile", err, store.ErrNotRegular)
		}
	}
}

// TestOpenFileBecomesLinkOutside replaces a file by a link to the outside just before it is opened,
// or created, in place.
func TestOpenFileBecomesLinkOutside(t *testing.T) {
	for _, at := range []string{"open", "create"} {
		outer := t.TempDir()
		dir := filepath.Join(outer, "root")
		writeFile(t, outer, "secret", secret)
		writeFile(t, dir, "other", "x")
		if at == "open" {
			writeFile(t, dir, "f", "x")
		}
		d := dirAt(t, dir)
		d.Before(func(call string) error {
			if call == at {
				os.Remove(filepath.Join(dir, "f"))
				symlink(t, "../secret", dir, "f")
			}
			return nil
		})
		if _, err := d.OpenFile(t.Context(), "f", store.Access{Write: true, Create: true, Truncate: true}); err == nil {
			t.Errorf("at %s: opened", at)
		}
		wantFile(t, outer, "secret", secret)
	}
}

// mode returns the mode of a file below dir.
func mode(t *testing.T, dir, name string) fs.FileMode {
	t.Helper()
	fi, err := os.Lstat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode()
}

// TestSpecialBits checks when the setuid, setgid and sticky bits may be set and cleared.
func TestSpecialBits(t *testing.T) {
	const all = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	dir, d := tempDir(t)
	set := func(name string, m fs.FileMode) {
		t.Helper()
		if err := d.SetAttr(t.Context(), name, store.Attr{Mode: &m}, true); err != nil {
			t.Error(err)
		}
	}
	want := func(name string, m fs.FileMode) {
		t.Helper()
		if got := mode(t, dir, name); got != m {
			t.Errorf("%s has mode %v, want %v", name, got, m)
		}
	}
	reset := func() {
		t.Helper()
		writeFile(t, dir, "f", "x")
		for name, m := range map[string]fs.FileMode{"f": 0o755, "shared": fs.ModeSetgid | fs.ModeSticky | 0o770} {
			if err := os.MkdirAll(filepath.Join(dir, "shared"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, name), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	reset()
	set("f", all|0o700)
	want("f", 0o700)
	set("shared", 0o777)
	want("shared", fs.ModeDir|fs.ModeSetgid|fs.ModeSticky|0o777)
	set("shared", fs.ModeSetuid|0o700)
	want("shared", fs.ModeDir|fs.ModeSetgid|fs.ModeSticky|0o700)
	if err := d.Mkdir(t.Context(), "shared/d", 0o777); err != nil {
		t.Error(err)
	}
	want("shared/d", fs.ModeDir|fs.ModeSetgid|0o777) // the kernel passes the bit on

	d.SpecialBits = true
	reset()
	set("f", all|0o700)
	want("f", all|0o700)
	set("f", 0o711)
	want("f", 0o711)
	set("shared", 0o777)
	want("shared", fs.ModeDir|0o777)
	set("shared", fs.ModeDir|fs.ModeSetgid|0o777)
	want("shared", fs.ModeDir|fs.ModeSetgid|0o777)
}

// TestWriteTakesSpecialBits opens setuid files.
func TestWriteTakesSpecialBits(t *testing.T) {
	for _, special := range []bool{false, true} {
		for _, a := range []store.Access{{Write: true}, {Append: true}, {Read: true, Write: true}, {Write: true, Truncate: true}} {
			dir, d := tempDir(t)
			d.SpecialBits = special
			writeFile(t, dir, "f", "x")
			if err := os.Chmod(filepath.Join(dir, "f"), fs.ModeSetuid|fs.ModeSetgid|0o755); err != nil {
				t.Fatal(err)
			}
			h, err := d.OpenFile(t.Context(), "f", store.Access{Read: true})
			if err != nil {
				t.Fatal(err)
			}
			h.Close()
			if got := mode(t, dir, "f"); got != fs.ModeSetuid|fs.ModeSetgid|0o755 {
				t.Errorf("opened to be read, it has mode %v", got)
			}
			d.Before(failAt("chmod", syscall.EPERM))
			_, err = d.OpenFile(t.Context(), "f", a)
			wantError(t, "OpenFile of what cannot be made safe", err, fs.ErrPermission)
			wantFile(t, dir, "f", "x")
			d.Before(nil)
			if h, err = d.OpenFile(t.Context(), "f", a); err != nil {
				t.Fatal(err)
			}
			h.Close()
			if got := mode(t, dir, "f"); got != 0o755 {
				t.Errorf("opened to be written, it has mode %v", got)
			}
		}
	}
}

// TestTreeUmask makes files and directories with a umask that forbids everything, and without the
// right to correct their permissions.
func TestTreeUmask(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		// The umask applies to the whole process.
		if out, err := child(t, "umask").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir, d := tempDir(t)
	syscall.Umask(0o777)
	for perm, want := range map[fs.FileMode]fs.FileMode{0: 0o755, 0o777: 0o777, 0o500: 0o500} {
		if err := d.Mkdir(t.Context(), "d", perm); err != nil {
			t.Fatal(err)
		}
		if got := mode(t, dir, "d"); got != fs.ModeDir|want {
			t.Errorf("Mkdir with %v gave %v, want %v", perm, got, want)
		}
		if err := d.RemoveDir(t.Context(), "d"); err != nil {
			t.Error(err)
		}
	}
	for perm, want := range map[fs.FileMode]fs.FileMode{0: 0o644, 0o666: 0o666, 0o400: 0o400} {
		h, err := d.OpenFile(t.Context(), "f", store.Access{Write: true, Create: true, Perm: perm})
		if err != nil {
			t.Fatal(err)
		}
		h.Close()
		if got := mode(t, dir, "f"); got != want {
			t.Errorf("OpenFile with %v gave %v, want %v", perm, got, want)
		}
		if err := d.Remove(t.Context(), "f"); err != nil {
			t.Error(err)
		}
	}
	d.Before(failAt("chmod", syscall.EIO))
	wantError(t, "Mkdir", d.Mkdir(t.Context(), "d", 0), syscall.EIO)
	_, err := d.OpenFile(t.Context(), "f", store.Access{Write: true, Create: true})
	wantError(t, "OpenFile", err, syscall.EIO)
	wantNames(t, d, ".")
}

// TestTreeNoPermission makes calls that the file system forbids.
func TestTreeNoPermission(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "f", "x")
	writeFile(t, dir, "fixed/f", "x")
	writeFile(t, dir, "open/mine", "x")
	writeFile(t, dir, "listed/f", "content")
	for name, mode := range map[string]fs.FileMode{"f": 0o644, "fixed": 0o555, "open": 0o777, ".": 0o755, "listed": 0o744} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	d := dirAt(t, dir)
	dropRoot(t, func() {
		if fi, err := os.Stat(filepath.Join(dir, "f")); err != nil || os.Getuid() != 0 {
			t.Skipf("only root can give files away: %v, %v", fi, err)
		}
		ctx := t.Context()
		mode := fs.FileMode(0o600)
		err := func(_ any, err error) error { return err }
		for op, err := range map[string]error{
			"openfile":    err(d.OpenFile(ctx, "f", store.Access{Write: true})),
			"create":      err(d.OpenFile(ctx, "fixed/g", store.Access{Write: true, Create: true})),
			"mkdir":       d.Mkdir(ctx, "fixed/d", 0),
			"remove":      d.Remove(ctx, "fixed/f"),
			"rename from": d.Rename(ctx, "fixed/f", "open/f", false),
			"rename to":   d.Rename(ctx, "open/mine", "fixed/g", true),
			"symlink":     d.Symlink(ctx, "f", "fixed/l"),
			"setattr":     d.SetAttr(ctx, "f", store.Attr{Mode: &mode}, true),
			"chown":       d.SetAttr(ctx, "open/mine", store.Attr{UID: new(uint32(65534))}, true),
		} {
			wantError(t, op, err, fs.ErrPermission)
		}
		// There, only names can be read.
		e, openErr := d.OpenDir(ctx, "listed")
		if openErr != nil {
			wantError(t, "opendir", openErr, fs.ErrPermission)
			return
		}
		defer e.Close()
		into := make([]fs.FileInfo, 10)
		if n, err := e.Next(into); n != 1 || err != nil || into[0].Name() != "f" || into[0].Mode() != fs.ModeIrregular {
			t.Errorf("Next = %d, %v, %v", n, err, into[:n])
		}
	})
}

// TestSetOwner gives files to other users, which requires privileges.
func TestSetOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir, d := tempDir(t)
	writeFile(t, dir, "f", "x")
	symlink(t, "f", dir, "l")
	owner := func(name string) (uid, gid uint32) {
		t.Helper()
		fi, err := d.Lstat(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		details, ok := store.DetailsOf(fi)
		if !ok {
			t.Fatal("no details")
		}
		return details.UID, details.GID
	}
	want := func(name string, uid, gid uint32) {
		t.Helper()
		if u, g := owner(name); u != uid || g != gid {
			t.Errorf("%s belongs to %d, %d, want %d, %d", name, u, g, uid, gid)
		}
	}
	_, gid := owner("f")
	set := func(a store.Attr, follow bool) {
		t.Helper()
		if err := d.SetAttr(t.Context(), "l", a, follow); err != nil {
			t.Error(err)
		}
	}
	set(store.Attr{UID: new(uint32(1234))}, true)
	want("f", 1234, gid)
	want("l", 0, gid)
	set(store.Attr{GID: new(uint32(4321))}, true)
	want("f", 1234, 4321)
	set(store.Attr{UID: new(uint32(77)), GID: new(uint32(78))}, false)
	want("l", 77, 78)
	want("f", 1234, 4321)
	h, err := d.OpenFile(t.Context(), "f", store.Access{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.SetAttr(store.Attr{UID: new(uint32(5)), Mode: new(fs.FileMode(0o640))}); err != nil {
		t.Error(err)
	}
	want("f", 5, 4321)
	wantError(t, "SetAttr of the root", d.SetAttr(t.Context(), ".", store.Attr{UID: new(uint32(5))}, true), fs.ErrPermission)
}

// TestRootByOtherNames changes the root's mode through links to the root.
func TestRootByOtherNames(t *testing.T) {
	dir, d := tempDir(t)
	writeFile(t, dir, "d/f", "x")
	symlink(t, ".", dir, "here")
	symlink(t, "..", dir, "d/up")
	before := mode(t, dir, ".")
	for _, name := range []string{"here", "d/up", "here/d/up"} {
		err := d.SetAttr(t.Context(), name, store.Attr{Mode: new(fs.FileMode(0))}, true)
		wantError(t, "SetAttr of "+name, err, fs.ErrPermission)
	}
	if got := mode(t, dir, "."); got != before {
		t.Errorf("the root's mode became %v", got)
	}
}
