package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// asProcessOne makes a child process 1, as in a container.
func asProcessOne(t *testing.T, o childOptions) childOptions {
	t.Helper()
	o.attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		o.attr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		o.attr.Unshareflags = 0
		o.attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		o.attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	o.first = "mount -t proc proc /proc && "
	try := exec.Command("/bin/sh", "-c", o.first+"true")
	try.SysProcAttr = o.attr
	if said, err := try.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a namespace of processes: %v, %s", err, said)
		}
		t.Skipf("a namespace of processes: %v, %s", err, said)
	}
	return o
}

// children returns the running children of process 1, the newest last.
func (c *child) children() (pids []int) {
	c.t.Helper()
	// Each thread lists its own children.
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		c.t.Fatal("process 1 has ended", err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				c.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// Process 1 starts the servers, forwards signals to the last one, and ends with it.
func TestProcessOne(t *testing.T) {
	content := strings.Repeat("x", 3*512+1)
	for _, end := range []struct {
		how  string
		code int
	}{{"signal", 0}, {"killed", 128 + int(syscall.SIGKILL)}} {
		t.Run(end.how, func(t *testing.T) {
			o, set := newReloads(t)
			c := startChild(t, asProcessOne(t, o), bigDir(t), "--grace", "1h")
			transfer := c.halfway("kernel")
			says := []string{}
			for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGHUP} {
				c.signal(s)
				says = append(says, "a successor serves from now on")
				c.await(says...)
				c.wantGet("kernel", content)
			}
			set("nonsense")
			c.signal(syscall.SIGHUP)
			c.await("there is no successor", "invalid character")
			// The first server has a transfer, and those in between have ended.
			eventually(t, "two servers are left", func() bool { return len(c.children()) == 2 })
			if end.code != 0 {
				if err := syscall.Kill(c.children()[1], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				// The first server must end too, once its transfer has.
				c.await("signal received")
			} else {
				c.signal(syscall.SIGTERM)
				c.await("signal received", "signal received")
			}
			transfer.end()
			c.wantExit(end.code)
		})
	}
}

// A server that cannot start ends process 1 with its exit code.
func TestProcessOneFails(t *testing.T) {
	o, set := newReloads(t)
	set(`{"TFTP": {"Listen": ["127.0.0.1:nonsense"]}}`)
	c := runChild(t, asProcessOne(t, o), "serve", t.TempDir())
	if said := c.wantExit(exitUsage); !strings.Contains(said, "nonsense") {
		t.Errorf("said %s", said)
	}
}

// Orphans of process 1 do not remain as zombies.
func TestProcessOneReaps(t *testing.T) {
	o, _ := newReloads(t)
	// The shell's child becomes an orphan when haul replaces the shell. Then it belongs to process
	// 1.
	o = asProcessOne(t, o)
	o.first += "(sleep 0.1 &) && "
	c := startChild(t, o, bigDir(t))
	eventually(t, "one process is left", func() bool { return len(c.children()) == 1 })
	c.stop()
}
