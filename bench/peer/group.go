package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A group has all processes that come from one server. Some fork for each
// transfer and do not wait for their children, so that a process's own account
// leaves most of it out: only a control group has it all.
type group interface {
	name() string

	// begin has a command start in the group, where that can be had: then not even what
	// it starts at once escapes, as a worker of nginx. Otherwise the command joins it soon
	// after. Call the function that it returns after the start.
	begin(*exec.Cmd) (started func() error)
	pids() []int // those that live, in no order
	cpu() (time.Duration, error)
	remove()
}

// groupPrefix begins the name of each control group made here; then come the
// number of the process that made it, and a count.
const groupPrefix = "haul-bench-"

// removeTries bounds how often the removal of a control group is tried, every
// killPoll: the kernel still counts a process for a moment after its end.
const removeTries = 50

var groups atomic.Int64

// newGroup returns a group by the best means that this machine grants.
func newGroup() (group, error) {
	cleanGroups()
	name := fmt.Sprintf("%s%d-%d", groupPrefix, os.Getpid(), groups.Add(1))
	for _, h := range hierarchies {
		c := controlGroup{hierarchy: h, dir: filepath.Join(h.base, name)}
		if os.Mkdir(c.dir, 0o755) != nil {
			continue
		}
		if _, err := c.cpu(); err == nil {
			return c, nil
		}
		_ = os.Remove(c.dir)
	}
	return &processTree{}, nil
}

// A hierarchy is a file system of control groups that counts CPU time.
type hierarchy struct {
	kind, base, file string

	// parse returns the CPU time that the file has.
	parse func(string) (time.Duration, error)
}

const version2 = "cgroup v2"

// Version 2 counts CPU time even where version 1 has the controllers.
var hierarchies = []hierarchy{
	{version2, "/sys/fs/cgroup", "cpu.stat", parseStat},
	{version2, "/sys/fs/cgroup/unified", "cpu.stat", parseStat},
	{"cgroup v1", "/sys/fs/cgroup/cpuacct", "cpuacct.usage", parseUsage},
}

// parseStat reads the line "usage_usec N" of cpu.stat.
func parseStat(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, errors.New("cpu.stat has no line usage_usec")
}

// parseUsage reads cpuacct.usage, a number of nanoseconds.
func parseUsage(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return time.Duration(n), err
}

type controlGroup struct {
	hierarchy
	dir string
}

func (c controlGroup) name() string { return c.kind }

func (c controlGroup) join(pid int) error {
	if err := os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("put process %d into a control group to meter it: %w", pid, err)
	}
	return nil
}

func (c controlGroup) begin(cmd *exec.Cmd) func() error {
	joined := func() error {
		if cmd.Process == nil {
			return nil // it did not start
		}
		return c.join(cmd.Process.Pid)
	}
	if c.kind != version2 {
		return joined
	}
	dir, err := os.Open(c.dir)
	if err != nil {
		return joined
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return dir.Close
}

func (c controlGroup) pids() []int {
	b, err := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for field := range bytes.FieldsSeq(b) {
		// 0 stands for a process of another namespace, which is none of ours.
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c controlGroup) cpu() (time.Duration, error) {
	b, err := os.ReadFile(filepath.Join(c.dir, c.file))
	if err != nil {
		return 0, err
	}
	return c.parse(string(b))
}

func (c controlGroup) remove() {
	for range removeTries {
		if err := os.Remove(c.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(killPoll)
	}
}

// Clean ends the servers that killed runs have left behind, and removes their
// control groups. Those of a process that lives are not touched, nor what is
// called otherwise.
func Clean() {
	for _, h := range hierarchies {
		h.clean()
	}
}

// cleanGroups is Clean, once: the first server that is started finds none of a
// killed run beside it.
var cleanGroups = sync.OnceFunc(Clean)

func (h hierarchy) clean() {
	left, _ := filepath.Glob(filepath.Join(h.base, groupPrefix+"*-*")) // the pattern is well formed
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue // not ours, or its maker lives
		}
		c := controlGroup{hierarchy: h, dir: dir}
		for _, pid := range c.pids() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		c.remove()
	}
}
