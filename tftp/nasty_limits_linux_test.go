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
func (sc *scene) tiny() (dir string) {
	sc.Helper()
	dir = filepath.Join(sc.dir, "tiny")
	sc.must(os.Mkdir(dir, 0o755))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		cannotMount(sc.T, err)
	}
	sc.Cleanup(func() { sc.must(unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// The system has no more to give, or takes away what it gave.
func TestNastyLimits(t *testing.T) {
	watchHeap(t)
	if !alone(t) {
		return
	}
	const name = "tiny/new"
	play(t, "disk is full before", nil, func(sc *scene) {
		hog := fill(sc, sc.tiny())
		fault := sc.put(sc.asking(), name, content(name, 200_000), sc.stepBy)
		sc.wantFault(fault, transfer.DiskFull)
		wantNoFile(sc, sc.store, name)
		sc.must(os.Remove(hog))
		sc.goesWell(name)
	})
	play(t, "disk fills up", nil, func(sc *scene) {
		dir, hog := sc.tiny(), ""
		writeFile(sc, dir, "new", "old")
		fault := sc.put(sc.asking(), name, content(name, 200_000), func() { hog = fill(sc, dir) })
		sc.wantFault(fault, transfer.DiskFull)
		wantFile(sc, sc.store, name, []byte("old"))
		sc.must(os.Remove(hog))
		sc.goesWell(name)
	})
	play(t, "file is larger than the disk", nil, func(sc *scene) {
		dir := sc.tiny()
		fault := sc.put(sc.asking(), name, content(name, 2<<20), sc.stepBy)
		sc.wantFault(fault, transfer.DiskFull)
		wantNoTemps(sc, dir) // and its space is free again
		sc.goesWell(name)
	})
	play(t, "disk is read-only", nil, func(sc *scene) {
		dir := sc.tiny()
		writeFile(sc, dir, "new", "old")
		sc.must(unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		for _, name := range []string{name, "tiny/newer", "tiny/missing/new"} {
			code := map[bool]transfer.ErrorCode{true: transfer.FileNotFound}[strings.Contains(name, "missing")]
			if code == 0 {
				code = transfer.AccessViolation
			}
			sc.wantFault(sc.put(sc.asking(), name, []byte("new"), nil), code)
		}
		if got, fault := sc.fetch(sc.asking(), name, "octet", nil); string(got) != "old" {
			sc.Errorf("a read: %q, %q", got, fault)
		}
	})
	play(t, "disk goes away", nil, func(sc *scene) {
		dir := sc.tiny()
		want := content(name, changedSize)
		writeFile(sc, dir, "new", string(want))
		got, fault := sc.fetch(sc.asking(), name, "octet", func() {
			sc.must(unix.Unmount(dir, unix.MNT_DETACH))
			sc.must(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")) // another
		})
		if fault != nil || !bytes.Equal(got, want) {
			sc.Errorf("a read: %d bytes, %q", len(got), fault)
		}
		sc.wantFault(sc.put(sc.asking(), "tiny/missing/new", nil, nil), transfer.FileNotFound)
	})
	play(t, "no descriptors left", nil, func(sc *scene) {
		writeFile(sc, sc.dir, "d/image", "image")
		release := takeDescriptors(sc)
		for _, request := range [][]byte{rrq("d/image"), rrq(bystanderFile), wrq("new"), wrq("d/new")} {
			p := sc.asking()
			p.send(request)
			sc.wantAnswer(p, fmt.Sprintf("%q", request), says(0))
			if !strings.Contains(string(p.last), "busy") {
				sc.Errorf("%q: %q", request, p.last)
			}
		}
		sc.by.step()
		release()
		sc.wantServed("the descriptors are there again")
		sc.goesWell("d/new")
	})
	play(t, "no descriptors left to publish", nil, func(sc *scene) {
		var release func()
		fault := sc.put(sc.asking(), "new", content("new", 3000), func() { release = takeDescriptors(sc) })
		release()
		if fault != nil { // it could not be made durable, so it may be there or not
			sc.wantFault(fault, transfer.NotDefined)
		}
		if _, err := os.Stat(filepath.Join(sc.dir, "new")); err == nil || fault == nil {
			wantFile(sc, sc.store, "new", content("new", 3000))
		}
		sc.goesWell("new")
	})
}

// wantFault checks an ERROR.
func (sc *scene) wantFault(fault []byte, code transfer.ErrorCode) {
	sc.Helper()
	if !bytes.HasPrefix(fault, says(code)) {
		sc.Errorf("ended by %q, want ERROR %d", fault, code)
	}
}

// goesWell checks that an upload does, once all but the bystander's are over.
func (sc *scene) goesWell(name string) {
	sc.Helper()
	sc.wantNoTransfersBut(2)
	want := content(name, 50_000)
	if fault := sc.put(sc.another(), name, want, nil); fault != nil {
		sc.Errorf("afterwards: %q", fault)
	}
	wantFile(sc, sc.store, name, want)
}

// fill takes all space that is left, by a file.
func fill(t *scene, dir string) (hog string) {
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
func takeDescriptors(t *scene) (release func()) {
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
func TestNastyDevices(t *testing.T) {
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
		play(t, name, nil, func(sc *scene) {
			p := filepath.Join(sc.dir, name)
			sc.must(unix.Mknod(p, dev.kind|0o666, int(unix.Mkdev(dev.major, dev.minor))))
			link(sc.T, name, sc.dir, "link")
			for _, name := range []string{name, "link"} {
				_, fault := sc.fetch(sc.asking(), name, "octet", nil)
				sc.wantFault(fault, transfer.AccessViolation)
				sc.wantFault(sc.put(sc.asking(), name, []byte("x"), nil), transfer.AccessViolation)
			}
			if fi, err := os.Lstat(p); err != nil || fi.Mode()&fs.ModeDevice == 0 {
				sc.Errorf("the node is now %v, %v", fi, err)
			}
		})
	}
	play(t, "files in /dev by a link", nil, func(sc *scene) {
		link(sc.T, "/dev", sc.dir, "dev")
		_, fault := sc.fetch(sc.asking(), "dev/zero", "octet", nil)
		sc.wantFault(fault, transfer.AccessViolation)
	})
}

// partly is a store that lets the bystander alone do what root may.
type partly struct{ store.Store }

func (p partly) Open(ctx context.Context, name string) (store.File, error) {
	if strings.HasPrefix(name, bystanderFile) {
		return p.Store.Open(ctx, name)
	}
	return unprivileged(p).Open(ctx, name)
}

func (p partly) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if strings.HasPrefix(name, bystanderFile) {
		return p.Store.Create(ctx, name, c)
	}
	return unprivileged(p).Create(ctx, name, c)
}

// Files that may not be read or written are refused, and the answer does not
// reveal whether a file is behind a closed directory.
func TestNastyPermissions(t *testing.T) {
	play(t, "closed", func(s *Server) { s.Store = partly{s.Store} }, func(sc *scene) {
		writeFile(sc, sc.dir, "file", "secret")
		writeFile(sc, sc.dir, "dir/file", "secret")
		writeFile(sc, sc.dir, "read-only/file", "open")
		for name, mode := range map[string]os.FileMode{"file": 0, "dir": 0, "read-only": 0o555, "read-only/file": 0o444} {
			sc.must(os.Chmod(filepath.Join(sc.dir, name), mode))
		}
		sc.Cleanup(func() {
			for _, name := range []string{"dir", "read-only"} {
				sc.must(os.Chmod(filepath.Join(sc.dir, name), 0o755))
			}
		})
		for _, name := range []string{"file", "dir/file", "dir/missing"} {
			_, fault := sc.fetch(sc.asking(), name, "octet", nil)
			sc.wantFault(fault, transfer.AccessViolation)
		}
		for _, name := range []string{"dir/file", "dir/new", "read-only/new", "read-only/file"} {
			sc.wantFault(sc.put(sc.asking(), name, []byte("x"), nil), transfer.AccessViolation)
		}
		if got, fault := sc.fetch(sc.asking(), "read-only/file", "octet", nil); string(got) != "open" {
			sc.Errorf("%q, %q", got, fault)
		}
	})
}
