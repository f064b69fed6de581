package localdir_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// machineDir returns a new directory, and its name in the store of the machine.
func machineDir(t *testing.T) (dir, name string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir, strings.TrimPrefix(dir, "/")
}

// The store of the machine follows each link in the same way as the system, and opens the files
// that the system opens for the user.
func TestMachine(t *testing.T) {
	dir, in := machineDir(t)
	m := localdir.Machine()
	if err := upload(t, m, in+"/file", "content", store.Create{}); err != nil {
		t.Fatal(err)
	}
	symlink(t, dir+"/file", dir, "absolute")
	symlink(t, "../"+filepath.Base(dir)+"/absolute", dir, "relative")
	for _, name := range []string{"file", "absolute", "relative"} {
		h, err := m.OpenFile(t.Context(), in+"/"+name, store.Access{Read: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b := make([]byte, 7)
		if _, err := h.ReadAt(b, 0); err != nil || string(b) != "content" {
			t.Errorf("%s has %q, %v", name, b, err)
		}
		_ = h.Close()
	}
	if err := upload(t, m, in+"/relative", "new", store.Create{}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(dir + "/file"); err != nil || string(b) != "new" {
		t.Errorf("the upload to a link makes %q, %v", b, err)
	}
	if err := m.Rename(t.Context(), in+"/file", in+"/moved", false); err != nil {
		t.Error(err)
	}
	if err := errors.Join(m.Mkdir(t.Context(), in+"/dir", 0o755), m.Link(t.Context(), in+"/moved", in+"/dir/second"),
		m.Symlink(t.Context(), "second", in+"/dir/link"), m.Remove(t.Context(), in+"/dir/second"), m.Remove(t.Context(), in+"/dir/link"),
		m.RemoveDir(t.Context(), in+"/dir")); err != nil {
		t.Error(err)
	}
	if sp, err := m.Space(t.Context(), in); err != nil || sp.Total == 0 {
		t.Errorf("space: %+v, %v", sp, err)
	}
	if fi, err := m.Stat(t.Context(), "."); err != nil || !fi.IsDir() {
		t.Errorf("the root is %v, %v", fi, err)
	}
	if _, err := m.Create(t.Context(), in+"/missing/file", store.Create{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an upload to a directory that is missing: %v", err)
	}
	if _, err := m.Create(t.Context(), in+"/moved/file", store.Create{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an upload below a file: %v", err)
	}
}

// Devices are opened, and pipes are not, because opening a pipe could block forever.
func TestMachineDevices(t *testing.T) {
	dir, in := machineDir(t)
	m := localdir.Machine()
	if _, err := m.Create(t.Context(), "dev/null", store.Create{}); !errors.Is(err, store.ErrInPlace) {
		t.Errorf("an upload to a device: %v", err)
	}
	h, err := m.OpenFile(t.Context(), "dev/null", store.Access{Write: true, Create: true, Truncate: true})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := h.WriteAt([]byte("x"), 0); n != 1 || err != nil {
		t.Errorf("writing to a device: %d, %v", n, err)
	}
	_ = h.Close()
	if err := unix.Mkfifo(dir+"/pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	for _, a := range []store.Access{{Read: true}, {Write: true}} {
		if _, err := m.OpenFile(t.Context(), in+"/pipe", a); !errors.Is(err, store.ErrNotRegular) {
			t.Errorf("opening a pipe: %v", err)
		}
	}
}

// New files get the requested permissions as far as the umask allows.
func TestMachineUmask(t *testing.T) {
	dir, in := machineDir(t)
	m := localdir.Machine()
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	up := begin(t, m, in+"/upload", store.Create{Perm: 0o666})
	if perm, ok := up.(store.AttrUpload).Perm(); !ok || perm != 0o640 {
		t.Errorf("before it is committed the upload will have other permissions than 640: %v", up)
	}
	h, err := m.OpenFile(t.Context(), in+"/placed", store.Access{Write: true, Create: true, Perm: 0o666})
	if err := errors.Join(err, up.Commit(), m.Mkdir(t.Context(), in+"/dir", 0o777)); err != nil {
		t.Fatal(err)
	}
	_ = h.Close()
	for name, want := range map[string]fs.FileMode{"upload": 0o640, "placed": 0o640, "dir": 0o750} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", name, fi.Mode(), err, want)
		}
	}
}

// In a directory with a default access list, the list replaces the umask, so that a group can share
// the files that its members upload.
func TestMachineDefaultACL(t *testing.T) {
	dir, in := machineDir(t)
	list := binary.LittleEndian.AppendUint32(nil, 2) // the version, followed by tag, permissions and ID (acl(5))
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, ^uint32(0)}, {0x04, 5, ^uint32(0)}, {0x08, 7, 12345}, {0x10, 7, ^uint32(0)}, {0x20, 5, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	err := unix.Setxattr(dir, "system.posix_acl_default", list, 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this file system has no access lists")
	} else if err != nil {
		t.Fatal(err)
	}
	m := localdir.Machine()
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	if err := errors.Join(upload(t, m, in+"/file", "x", store.Create{Perm: 0o666}), m.Mkdir(t.Context(), in+"/dir", 0o777)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"file": 0o664, "dir": 0o775} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode().Perm() != want { // the bits of the group are the mask of the list
			t.Errorf("%s: %v, %v; want %v", name, fi.Mode(), err, want)
		}
		if _, err := unix.Getxattr(filepath.Join(dir, name), "system.posix_acl_access", nil); err != nil {
			t.Errorf("%s has no access list: %v", name, err)
		}
	}
	// If a file is replaced, its access list is the same as the list of the new one.
	if err := upload(t, m, in+"/file", "new", store.Create{}); err != nil && !errors.Is(err, store.ErrInPlace) {
		t.Error(err)
	}
}

// An upload replaces a file only if nothing but the content changes, and if the user could have
// written to the file.
func TestNativeInPlace(t *testing.T) {
	for what, prepare := range map[string]func(file string) error{
		"another name": func(file string) error { return os.Link(file, file+"2") },
		"an attribute": func(file string) error { return unix.Setxattr(file, "user.haul", []byte("x"), 0) },
		"no directory to write to": func(file string) error {
			return errors.Join(os.Chmod(file, 0o666), os.Chmod(filepath.Dir(file), 0o555))
		},
		"a file that is read-only": func(file string) error { return os.Chmod(file, 0o444) },
		"another owner": func(file string) error {
			return errors.Join(os.Chown(file, 1, 1), os.Chmod(file, 0o666))
		},
		"another group": func(file string) error { return os.Chown(file, -1, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			dir, in := machineDir(t)
			writeFile(t, dir, "sub/file", "old")
			sub := filepath.Join(dir, "sub")
			if os.Getuid() == 0 {
				for _, p := range []string{sub, sub + "/file"} {
					if err := os.Chown(p, nobody, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
				_ = os.Chmod(d, 0o755)
			}
			err := prepare(filepath.Join(sub, "file"))
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
				t.Skip("this user or this file system cannot do that")
			} else if err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(sub + "/file")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Chmod(sub, 0o755) }()
			m := localdir.Machine()
			dropRoot(t, func() {
				if _, err = m.Create(t.Context(), in+"/sub/file", store.Create{}); !errors.Is(err, store.ErrInPlace) {
					t.Errorf("an upload: %v", err)
				}
			})
			after, err := os.Stat(sub + "/file")
			if err != nil || !os.SameFile(before, after) || after.Size() != 3 {
				t.Errorf("the file is now %v, %v", after, err)
			}
			if list, _ := os.ReadDir(sub); len(list) > 2 {
				t.Errorf("left behind are %v", list)
			}
		})
	}
}

// A directory that the user may search but not list can be on the path to a file. A file can be
// created and renamed in a directory that the user may not read.
func TestMachineSearchOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs directories of another user")
	}
	dir, in := machineDir(t)
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	drop := dir + "/drop"
	if err := errors.Join(os.Mkdir(drop, 0o733), os.Chmod(drop, 0o733)); err != nil {
		t.Fatal(err)
	}
	m := localdir.Machine()
	dropRoot(t, func() {
		for range 2 {
			if err := upload(t, m, in+"/drop/file", "content", store.Create{}); err != nil {
				t.Error(err)
			}
		}
		if err := m.Rename(t.Context(), in+"/drop/file", in+"/drop/new", false); err != nil {
			t.Error(err)
		}
		if err := m.Remove(t.Context(), in+"/drop/new"); err != nil {
			t.Error(err)
		}
		if _, err := m.OpenDir(t.Context(), in+"/drop"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("listing it: %v", err)
		}
	})
}

// The next upload of a file removes the temporary file of an upload whose process was killed. It
// leaves alone the temporary file of an upload under way, and anything else that has such a name.
func TestMachineLeftover(t *testing.T) {
	dir, in := machineDir(t)
	m := localdir.Machine()
	hidden := func(want int) []string {
		t.Helper()
		names, err := filepath.Glob(dir + "/.haul-*")
		if err != nil || len(names) != want {
			t.Fatalf("hidden are %q, %v; want %d", names, err, want)
		}
		return names
	}
	begin := func() store.Upload {
		t.Helper()
		u, err := m.Create(t.Context(), in+"/file", store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	commit := func(u store.Upload, content string) {
		t.Helper()
		_, err := u.WriteAt([]byte(content), 0)
		if err = errors.Join(err, u.Commit()); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(dir + "/file"); err != nil || string(b) != content {
			t.Errorf("the file has %q, %v; want %q", b, err, content)
		}
	}
	first := begin()
	name := hidden(1)[0]
	second := begin()
	hidden(2)
	commit(second, "second")
	commit(first, "first")
	hidden(0)

	if err := os.WriteFile(name, []byte("left behind"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := begin()
	if hidden(1)[0] != name {
		t.Errorf("hidden is %q, want %s again", hidden(1), name)
	}
	commit(next, "next")
	hidden(0)

	symlink(t, "file", dir, filepath.Base(name))
	commit(begin(), "beside a link")
	if err := os.Remove(name); err != nil {
		t.Errorf("the link is gone: %v", err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	commit(begin(), "beside a directory")
	hidden(1)
}

// An upload that will replace a file is never accessible to more users than that file, whatever
// permissions the client requests.
func TestMachineReplacesPrivately(t *testing.T) {
	dir, in := machineDir(t)
	if err := os.WriteFile(dir+"/key", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := localdir.Machine().Create(t.Context(), in+"/key", store.Create{Perm: 0o666})
	if err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(dir + "/.haul-*")
	if len(names) != 1 {
		t.Fatalf("hidden are %q", names)
	}
	if fi, err := os.Lstat(names[0]); err != nil || fi.Mode() != 0o600 {
		t.Errorf("on its way it is %v, %v", fi.Mode(), err)
	}
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
	if fi, err := os.Lstat(dir + "/key"); err != nil || fi.Mode() != 0o600 {
		t.Errorf("then it is %v, %v", fi.Mode(), err)
	}
}
