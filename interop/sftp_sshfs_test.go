//go:build unix

package interop

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sshfs mounts the home directory, so any program is a client; here it is this one.
func newSSHFSTool(t *testing.T, l login) *tool {
	p := find(t, "sshfs", "sshfs")
	// If something is missing, it is because of this machine, and not a peer's fault.
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("this machine lends nobody FUSE: %v", err)
	} else {
		f.Close()
	}
	mount := t.TempDir()
	fusermount := find(t, "sshfs", "fusermount3")
	p.env = append(p.env, "PATH="+filepath.Dir(fusermount.path)+":"+os.Getenv("PATH"))
	d := p.start(t, "-f", "-F", l.sshConfig(t), "-o", "ssh_command="+findOpenSSH(t, "ssh").path, "server:", mount)
	t.Cleanup(func() {
		// It unmounts when a signal ends it; this is in case that fails.
		_ = d.stop()
		_, _ = fusermount.run(t.Context(), "-u", "-z", mount)
	})
	for begin := time.Now(); !mounted(t, mount); time.Sleep(20 * time.Millisecond) {
		select {
		case <-d.done:
			if said := d.said(20); strings.Contains(said, "Operation not permitted") || strings.Contains(said, "Permission denied") && strings.Contains(said, "mount") {
				t.Skipf("this machine does not let us mount: %s", said)
			}
			t.Fatalf("sshfs ended at once: %v", d.err)
		default:
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal("sshfs did not mount within 30 s")
		}
	}
	in := func(name string) string { return filepath.Join(mount, name) }
	return &tool{
		name:    "sshfs",
		times:   true,
		get:     func(t *testing.T, remote, local string) { mustCopy(t, in(remote), local) },
		put:     func(t *testing.T, remote, local string) { mustCopy(t, local, in(remote)) },
		getTree: func(t *testing.T, remote, local string) { mustCopyTree(t, in(remote), local) },
		putTree: func(t *testing.T, remote, local string) { mustCopyTree(t, local, in(remote)) },
		list: func(t *testing.T, remote string) []string {
			var names []string
			for _, e := range readDir(t, in(remote)) {
				names = append(names, e.Name())
			}
			return names
		},
		fails: func(t *testing.T, remote, local string) error { return copyFile(in(remote), local) },
	}
}

// mounted reports whether a directory is on another file system than its parent.
func mounted(t *testing.T, dir string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	return err == nil && strings.Contains(string(b), " "+dir+" ")
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	if err := copyFile(from, to); err != nil {
		t.Fatal(err)
	}
}

// mustCopyTree copies the content of one directory to another, as cp -a does.
func mustCopyTree(t *testing.T, from, to string) {
	t.Helper()
	for _, e := range readDir(t, from) {
		a, b := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		fi, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.IsDir():
			if err := os.MkdirAll(b, 0o755); err != nil {
				t.Fatal(err)
			}
			mustCopyTree(t, a, b)
		case fi.Mode().Type() == os.ModeSymlink:
			target, err := os.Readlink(a)
			if err == nil {
				err = os.Symlink(target, b)
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		default:
			mustCopy(t, a, b)
		}
		if err := errors.Join(os.Chmod(b, fi.Mode().Perm()), os.Chtimes(b, fi.ModTime(), fi.ModTime())); err != nil {
			t.Fatal(err)
		}
	}
}
