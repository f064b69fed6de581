package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// childEnv is set where a test runs in a process of its own.
const childEnv = "HAUL_TFTP_TEST_CHILD"

// alone reports true in a process of the test's own, which may mount file
// systems. In the parent it runs the test in such a process.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=100s")
	// A race detector would sleep a second before it exits.
	cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, fs.ErrPermission):
		cannotMount(t, err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		cannotMount(t, fmt.Errorf("%s", out))
	}
	return false
}

// cannotMount ends the test: a failure where machines are ours to set up.
func cannotMount(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("this test mounts file systems, and may not: %v", err)
	}
	t.Skipf("this test mounts file systems, and may not: %v", err)
}

// tiny mounts a file system of a megabyte below the root, until the test ends.
func (tb *testbed) tiny() (dir string) {
	tb.Helper()
	dir = filepath.Join(tb.dir, "tiny")
	tb.must(os.Mkdir(dir, 0o755))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		cannotMount(tb.T, err)
	}
	tb.Cleanup(func() { tb.must(unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// The system has no more to give, or takes away what it gave.
func TestSystemLimits(t *testing.T) {
	watchHeap(t)
	if !alone(t) {
		return
	}
	const name = "tiny/new"
	runCase(t, "disk is full before", nil, func(tb *testbed) {
		hog := fill(tb, tb.tiny())
		fault := tb.put(tb.askAgain(), name, tftptest.Content(name, 200_000), tb.stepBy)
		tb.wantFault(fault, transfer.DiskFull)
		tftptest.WantNoFile(tb, tb.store, name)
		tb.must(os.Remove(hog))
		tb.goesWell(name)
	})
	runCase(t, "disk fills up", nil, func(tb *testbed) {
		dir, hog := tb.tiny(), ""
		writeFile(tb, dir, "new", "old")
		fault := tb.put(tb.askAgain(), name, tftptest.Content(name, 200_000), func() { hog = fill(tb, dir) })
		tb.wantFault(fault, transfer.DiskFull)
		tftptest.WantFile(tb, tb.store, name, []byte("old"))
		tb.must(os.Remove(hog))
		tb.goesWell(name)
	})
	runCase(t, "file is larger than the disk", nil, func(tb *testbed) {
		dir := tb.tiny()
		fault := tb.put(tb.askAgain(), name, tftptest.Content(name, 2<<20), tb.stepBy)
		tb.wantFault(fault, transfer.DiskFull)
		wantNoTemps(tb, dir) // and its space is free again
		tb.goesWell(name)
	})
	runCase(t, "disk is read-only", nil, func(tb *testbed) {
		dir := tb.tiny()
		writeFile(tb, dir, "new", "old")
		tb.must(unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		for _, name := range []string{name, "tiny/newer", "tiny/missing/new"} {
			code := map[bool]transfer.ErrorCode{true: transfer.FileNotFound}[strings.Contains(name, "missing")]
			if code == 0 {
				code = transfer.AccessViolation
			}
			tb.wantFault(tb.put(tb.askAgain(), name, []byte("new"), nil), code)
		}
		if got, fault := tb.fetch(tb.askAgain(), name, "octet", nil); string(got) != "old" {
			tb.Errorf("a read: %q, %q", got, fault)
		}
	})
	runCase(t, "disk goes away", nil, func(tb *testbed) {
		dir := tb.tiny()
		want := tftptest.Content(name, changedSize)
		writeFile(tb, dir, "new", string(want))
		got, fault := tb.fetch(tb.askAgain(), name, "octet", func() {
			tb.must(unix.Unmount(dir, unix.MNT_DETACH))
			tb.must(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")) // another
		})
		if fault != nil || !bytes.Equal(got, want) {
			tb.Errorf("a read: %d bytes, %q", len(got), fault)
		}
		tb.wantFault(tb.put(tb.askAgain(), "tiny/missing/new", nil, nil), transfer.FileNotFound)
	})
	runCase(t, "no descriptors left", nil, func(tb *testbed) {
		writeFile(tb, tb.dir, "d/image", "image")
		release := takeDescriptors(tb)
		for _, request := range [][]byte{tftptest.RRQ("d/image"), tftptest.RRQ(goodFile), tftptest.WRQ("new"), tftptest.WRQ("d/new")} {
			p := tb.askAgain()
			p.Send(request)
			tb.wantAnswer(p, fmt.Sprintf("%q", request), says(0))
			if !strings.Contains(string(p.Last), "busy") {
				tb.Errorf("%q: %q", request, p.Last)
			}
		}
		tb.good.step()
		release()
		tb.wantServed("the descriptors are there again")
		tb.goesWell("d/new")
	})
	runCase(t, "no descriptors left to publish", nil, func(tb *testbed) {
		var release func()
		fault := tb.put(tb.askAgain(), "new", tftptest.Content("new", 3000), func() { release = takeDescriptors(tb) })
		release()
		if fault != nil { // it could not be made durable, so it may be there or not
			tb.wantFault(fault, transfer.NotDefined)
		}
		if _, err := os.Stat(filepath.Join(tb.dir, "new")); err == nil || fault == nil {
			tftptest.WantFile(tb, tb.store, "new", tftptest.Content("new", 3000))
		}
		tb.goesWell("new")
	})
}

// wantFault checks an ERROR.
func (tb *testbed) wantFault(fault []byte, code transfer.ErrorCode) {
	tb.Helper()
	if !bytes.HasPrefix(fault, says(code)) {
		tb.Errorf("ended by %q, want ERROR %d", fault, code)
	}
}

// goesWell checks that an upload does, once all but the good peer's are over.
func (tb *testbed) goesWell(name string) {
	tb.Helper()
	tb.wantNoTransfersBut(2)
	want := tftptest.Content(name, 50_000)
	if fault := tb.put(tb.another(), name, want, nil); fault != nil {
		tb.Errorf("afterwards: %q", fault)
	}
	tftptest.WantFile(tb, tb.store, name, want)
}

// fill takes all space that is left, by a file.
func fill(t *testbed, dir string) (hog string) {
	t.Helper()
	hog = filepath.Join(dir, "hog")
	f, err := os.Create(hog)
	t.must(err)
	defer f.Close()
	for buf := make([]byte, 4096); err == nil; {
		_, err = f.Write(buf)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return hog
}

// takeDescriptors leaves the process none, until release is called.
func takeDescriptors(t *testbed) (release func()) {
	t.Helper()
	var was unix.Rlimit
	t.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	t.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: was.Max}))
	var taken []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			if !errors.Is(err, syscall.EMFILE) {
				t.Fatal(err)
			}
			break
		}
		taken = append(taken, fd)
	}
	return func() {
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		t.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	}
}

// Device nodes are neither read nor written, nor even opened.
func TestDeviceNodes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make device nodes")
	}
	for name, dev := range map[string]struct {
		kind         uint32
		major, minor uint32
	}{
		"null":    {unix.S_IFCHR, 1, 3},
		"zero":    {unix.S_IFCHR, 1, 5},
		"tty":     {unix.S_IFCHR, 5, 0},
		"nothing": {unix.S_IFCHR, 250, 250}, // no driver
		"disk":    {unix.S_IFBLK, 7, 250},
	} {
		runCase(t, name, nil, func(tb *testbed) {
			p := filepath.Join(tb.dir, name)
			tb.must(unix.Mknod(p, dev.kind|0o666, int(unix.Mkdev(dev.major, dev.minor))))
			link(tb.T, name, tb.dir, "link")
			for _, name := range []string{name, "link"} {
				_, fault := tb.fetch(tb.askAgain(), name, "octet", nil)
				tb.wantFault(fault, transfer.AccessViolation)
				tb.wantFault(tb.put(tb.askAgain(), name, []byte("x"), nil), transfer.AccessViolation)
			}
			if fi, err := os.Lstat(p); err != nil || fi.Mode()&fs.ModeDevice == 0 {
				tb.Errorf("the node is now %v, %v", fi, err)
			}
		})
	}
	runCase(t, "files in /dev by a link", nil, func(tb *testbed) {
		link(tb.T, "/dev", tb.dir, "dev")
		_, fault := tb.fetch(tb.askAgain(), "dev/zero", "octet", nil)
		tb.wantFault(fault, transfer.AccessViolation)
	})
}

// partly is a store that lets the good peer alone do what root may.
type partly struct{ store.Store }

func (p partly) Open(ctx context.Context, name string) (store.File, error) {
	if strings.HasPrefix(name, goodFile) {
		return p.Store.Open(ctx, name)
	}
	return unprivileged(p).Open(ctx, name)
}

func (p partly) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if strings.HasPrefix(name, goodFile) {
		return p.Store.Create(ctx, name, c)
	}
	return unprivileged(p).Create(ctx, name, c)
}

// Files that may not be read or written are refused, and the answer does not
// reveal whether a file is behind a closed directory.
func TestFilePermissions(t *testing.T) {
	runCase(t, "closed", func(s *Config) { s.Store = partly{s.Store} }, func(tb *testbed) {
		writeFile(tb, tb.dir, "file", "secret")
		writeFile(tb, tb.dir, "dir/file", "secret")
		writeFile(tb, tb.dir, "read-only/file", "open")
		for name, mode := range map[string]os.FileMode{"file": 0, "dir": 0, "read-only": 0o555, "read-only/file": 0o444} {
			tb.must(os.Chmod(filepath.Join(tb.dir, name), mode))
		}
		tb.Cleanup(func() {
			for _, name := range []string{"dir", "read-only"} {
				tb.must(os.Chmod(filepath.Join(tb.dir, name), 0o755))
			}
		})
		for _, name := range []string{"file", "dir/file", "dir/missing"} {
			_, fault := tb.fetch(tb.askAgain(), name, "octet", nil)
			tb.wantFault(fault, transfer.AccessViolation)
		}
		for _, name := range []string{"dir/file", "dir/new", "read-only/new", "read-only/file"} {
			tb.wantFault(tb.put(tb.askAgain(), name, []byte("x"), nil), transfer.AccessViolation)
		}
		if got, fault := tb.fetch(tb.askAgain(), "read-only/file", "octet", nil); string(got) != "open" {
			tb.Errorf("%q, %q", got, fault)
		}
	})
}
