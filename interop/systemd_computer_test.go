//go:build linux

package interop

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A computer is a separate machine for the programs on it: a namespace of each kind, and systemd
// as process 1. Its disk begins as a copy of the host's, and keeps changes until the test ends.
// Its only network is loopback. The scripts in testdata/machine make it.
type computer struct {
	*node         // for the current boot
	dir   string  // its disk; a file next to it contains the PID of process 1
	power *daemon // ends when the machine is powered off
	pid   int     // the host's PID of process 1
}

// newComputer makes a machine and boots it.
func newComputer(t *testing.T) *computer {
	t.Helper()
	needRoot(t, "a machine in namespaces")
	unshare := find(t, "util-linux", "unshare")
	if out, err := unshare.run(t.Context(), "--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "--cgroup", "true"); err != nil {
		absent(t, "no namespaces: %v, %s", err, out)
	}
	var unpacked []string
	if p, base := find(t, "systemd", "systemctl"), peerDir(t, "systemd"); strings.HasPrefix(p.path, base+"/") {
		unpacked = append(unpacked, base)
	}
	script, err := filepath.Abs("testdata/machine/power.sh")
	if err != nil {
		t.Fatal(err)
	}
	m := &computer{dir: filepath.Join(t.TempDir(), "machine")}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--mount", "--propagation", "private", "sh", script, m.dir, newCgroup(t)}, unpacked...)
	m.power = unshare.start(t, args...)
	m.boot(t)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try("journalctl --no-pager --lines 100")
			t.Logf("the machine's journal:\n%s", out)
		}
	})
	return m
}

// newCgroup makes a cgroup of version 2, which is removed when the test ends, with all processes
// in it.
func newCgroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	top := ""
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			top = fields[1]
		}
	}
	if top == "" {
		absent(t, "no cgroup of version 2 is mounted")
	}
	const prefix = "haul-interop-"
	left, _ := filepath.Glob(filepath.Join(top, prefix+"*")) // of tests that were killed
	for _, dir := range left {
		var pid int
		if n, _ := fmt.Sscanf(filepath.Base(dir), prefix+"%d-", &pid); n == 1 && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = removeCgroup(dir)
		}
	}
	dir := filepath.Join(top, fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), t.Name()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		absent(t, "no cgroup: %v", err)
	}
	t.Cleanup(func() {
		if err := removeCgroup(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// removeCgroup kills all processes in a cgroup, and removes it.
func removeCgroup(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		return err
	}
	var err error
	for began := time.Now(); time.Since(began) < endPatience; time.Sleep(10 * time.Millisecond) {
		var dirs []string // each before its children
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
			err = syscall.Rmdir(dirs[i])
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("remove the cgroup %s: %w", dir, err)
}

// await waits until a condition holds on the machine.
func (m *computer) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-m.power.done:
			t.Fatalf("the machine has ended: %v", m.power.err)
		default:
		}
		if time.Since(began) > waitMost {
			t.Fatalf("not within %v: %s", waitMost, what)
		}
	}
}

// boot waits until the machine has booted.
func (m *computer) boot(t *testing.T) {
	t.Helper()
	m.await(t, "a process 1", func() bool {
		b, err := os.ReadFile(m.dir + ".pid")
		if err == nil {
			m.pid = atoi(t, strings.TrimSpace(string(b)))
			err = os.Remove(m.dir + ".pid")
		}
		return err == nil
	})
	state := ""
	m.await(t, "systemd has booted", func() bool {
		out, _ := m.try("systemctl is-system-running --wait") // fails until systemd listens
		state = strings.TrimSpace(out)
		return state == "running" || state == "degraded"
	})
	if state != "running" {
		out, _ := m.try("systemctl --no-pager --failed")
		t.Errorf("the machine is up, but not all units are:\n%s", out)
	}
	var err error
	m.node, err = nodeIn(t, func() error {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reboot shuts the machine down, and boots it from the same disk.
func (m *computer) reboot(t *testing.T) {
	t.Helper()
	out, err := m.try("systemctl reboot") // it may end before it succeeds
	m.await(t, fmt.Sprintf("the machine goes down: %v, %s", err, out), func() bool {
		return syscall.Kill(m.pid, 0) == syscall.ESRCH
	})
	m.boot(t)
}

// path returns the host's path of a file on the machine.
func (m *computer) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.pid), "root", name)
}

const (
	// home is root's directory on the machine, as in the host's passwd file.
	home = "/root"

	// source is the directory on the machine with the result of "make build".
	source = home + "/haul"
)

// try runs a shell script on the machine, as root, in the source tree. It stops at the first
// command that fails.
func (m *computer) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitMost)
	defer cancel()
	nsenter := program{path: "/usr/bin/nsenter", args: []string{
		"--target", strconv.Itoa(m.pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup",
		"env", "-i", "HOME=" + home, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "sh", "-euc",
	}}
	return nsenter.run(ctx, "mkdir -p "+source+"; cd "+source+"\n"+script)
}

// run is like try for a script that must succeed.
func (m *computer) run(t *testing.T, script string) string {
	t.Helper()
	out, err := m.try(script)
	if err != nil {
		t.Fatalf("on the machine: %v\n%s\n%s", err, script, out)
	}
	return out
}
