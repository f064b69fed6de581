package localdir_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
)

// inNamespace returns true in a process that may mount file systems. In the parent process it runs
// the test in such a process, and returns false.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		return true
	}
	cmd := child(t, "namespace")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	} else {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		cannotMount(t, err)
	}
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skipf("%s", out)
	}
	return false
}

// cannotMount ends the test. On machines that we set up ourselves, it fails the test.
func cannotMount(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("this test mounts file systems, and may not: %v", err)
	}
	t.Skipf("this test mounts file systems, and may not: %v", err)
}

// mount mounts a file system in a new directory, until the test ends.
func mount(t *testing.T, kind, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(kind, dir, kind, 0, options); err != nil {
		cannotMount(t, fmt.Errorf("%s: %w", kind, err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestDiskFull(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := mount(t, "tmpfs", "size=1m")
	d := dirAt(t, dir)
	writeFile(t, dir, "f", "old")
	for _, c := range []store.Create{{}, {Exclusive: true}} {
		name := "f"
		if c.Exclusive {
			name = "g"
		}
		u := begin(t, d, name, c)
		err := writeUntilError(u)
		wantError(t, "WriteAt on a full disk", err, syscall.ENOSPC)
		wantError(t, "WriteAt on a full disk", err, store.ErrNoSpace)
		_, err = d.Create(t.Context(), "h", store.Create{Size: 8192})
		wantError(t, "Create on a full disk", err, syscall.ENOSPC)
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, size := range []int64{2 << 20, 1 << 50, 1<<63 - 1} {
		_, err := d.Create(t.Context(), "f", store.Create{Size: size})
		wantError(t, fmt.Sprintf("Create of %d bytes", size), err, store.ErrNoSpace)
	}
	wantFile(t, dir, "f", "old")
	wantNoTemps(t, dir)
	if err := upload(t, d, "g", strings.Repeat("x", 900<<10), store.Create{Size: 900 << 10}); err != nil {
		t.Errorf("a file that fits, after all that: %v", err)
	}
	if err := upload(t, d, "g", "small", store.Create{Size: 50 << 10}); err != nil {
		t.Error(err)
	}
	// An announced size takes no space.
	for range 5 {
		defer begin(t, d, "idle", store.Create{Size: 900 << 10}).Close()
	}
	if err := upload(t, d, "h", strings.Repeat("x", 900<<10), store.Create{Size: 900 << 10}); err != nil {
		t.Error(err)
	}
}

func writeUntilError(u store.Upload) error {
	buf := bytes.Repeat([]byte{1}, 64<<10) // zeros would be a hole
	for off := int64(0); ; off += int64(len(buf)) {
		if _, err := u.WriteAt(buf, off); err != nil {
			return err
		}
	}
}

func TestReadOnlyDisk(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := mount(t, "tmpfs", "size=1m")
	writeFile(t, dir, "f", "old")
	d := dirAt(t, dir)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := d.Create(t.Context(), "f", store.Create{})
	wantError(t, "Create", err, syscall.EROFS)
	wantError(t, "Create", err, fs.ErrPermission)
}

// TestFileTooLarge limits the size of files, which needs no right to mount.
func TestFileTooLarge(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		if out, err := child(t, "limit").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	const limit = 200_000
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	dir, d := tempDir(t)
	u := begin(t, d, "f", store.Create{})
	err := writeUntilError(u)
	wantError(t, "WriteAt beyond the limit", err, syscall.EFBIG)
	u.Close()
	u = begin(t, d, "f", store.Create{})
	if _, err := u.WriteAt(make([]byte, 4096), limit); err != nil { // a hole
		t.Error(err)
	}
	err = u.Commit()
	wantError(t, "Commit of a hole beyond the limit", err, syscall.EFBIG)
	wantNoTemps(t, dir)
}

// TestFileSystems runs the contract on file systems that differ in the links that they support, and
// in what they know about cached data.
func TestFileSystems(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	t.Run("tmpfs", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return dirAt(t, mount(t, "tmpfs", "size=16m")) })
		d := dirAt(t, mount(t, "tmpfs", "size=1m"))
		if err := tryReadOne(t, d); err != nil {
			t.Errorf("TryReadAt of what is always in memory: %v", err)
		}
		tryReadMany(t, d)
	})
	t.Run("overlay", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return dirAt(t, overlay(t)) })
		if err := tryReadOne(t, dirAt(t, overlay(t))); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("TryReadAt: %v", err)
		}
	})
}

func overlay(t *testing.T) string {
	t.Helper()
	base := mount(t, "tmpfs", "size=16m")
	for _, dir := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return mount(t, "overlay", fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", base))
}

// tryReadOne reads one byte, twice. The second read uses the result of the first one.
func tryReadOne(t *testing.T, d *localdir.Dir) error {
	t.Helper()
	if err := upload(t, d, "f", "x", store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1)
	_, first := f.(store.TryReader).TryReadAt([][]byte{buf}, 0)
	_, second := f.(store.TryReader).TryReadAt([][]byte{buf}, 0)
	if !errors.Is(first, second) {
		t.Errorf("the first TryReadAt: %v; the second: %v", first, second)
	}
	return second
}

// tryReadMany reads into more buffers than one system call accepts, from a file that is certainly
// in memory.
func tryReadMany(t *testing.T, d *localdir.Dir) {
	t.Helper()
	const many = 5000
	if err := upload(t, d, "many", strings.Repeat("x", 3*many), store.Create{}); err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(t.Context(), "many")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bufs := make([][]byte, many)
	for i := range bufs {
		bufs[i] = make([]byte, 3)
	}
	if n, err := f.(store.TryReader).TryReadAt(bufs, 0); n != 3*many || err != nil {
		t.Errorf("TryReadAt of %d buffers of 3 bytes = %d, %v", many, n, err)
	}
}
