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

// A group contains all processes of one server. Some servers fork for each transfer and do not wait
// for their children, so the CPU time of the server's first process lacks most of the CPU time that
// is used. Only a control group counts all of it.
type group interface {
	name() string

	// begin makes a command start in the group, if possible. The group then includes everything
	// that the command starts at once, such as a worker of nginx. Otherwise the command joins the
	// group soon after its start. Call the returned function after the start.
	begin(*exec.Cmd) (started func() error)
	pids() []int // returns the IDs of the living processes, in no particular order
	cpu() (time.Duration, error)
	remove()
}

// groupPrefix begins the name of each control group that this package makes. It is followed by the
// PID of the process that made the group, and a number.
const groupPrefix = "haul-bench-"

// removeTries is how many attempts are made to remove a control group, one every killPoll: for a
// moment after a process has exited, the kernel still counts it.
const removeTries = 50

var groups atomic.Int64

// newGroup makes a group: a control group if this machine permits that, otherwise a processTree.
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

// A hierarchy is a file system of control groups that counts CPU time. `base` is its directory, and
// `file` is the name of the file with the CPU time in each group's directory.
type hierarchy struct {
	kind, base, file string

	// parse returns the CPU time in the content of that file.
	parse func(string) (time.Duration, error)
}

const version2 = "cgroup v2"

// hierarchies lists the hierarchies to try. Version 2 comes first, because its hierarchies count
// CPU time even if the controllers are assigned to version 1.
var hierarchies = []hierarchy{
	{version2, "/sys/fs/cgroup", "cpu.stat", parseStat},
	{version2, "/sys/fs/cgroup/unified", "cpu.stat", parseStat},
	{"cgroup v1", "/sys/fs/cgroup/cpuacct", "cpuacct.usage", parseUsage},
}

// parseStat returns the CPU time in the content of cpu.stat, which has a line "usage_usec N".
func parseStat(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, errors.New("cpu.stat has no line usage_usec")
}

// parseUsage returns the CPU time in the content of cpuacct.usage, which is a number of
// nanoseconds.
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
			return nil // the command did not start
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
		// 0 stands for a process in another PID namespace, which this package did not start.
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

// Clean ends the servers that killed runs have left behind, and removes their control groups. It
// does not touch groups that a living process made, or groups with other names.
func Clean() {
	for _, h := range hierarchies {
		h.clean()
	}
}

// cleanGroups calls Clean at its first call only, so that no server of a killed run is left when
// the first server starts.
var cleanGroups = sync.OnceFunc(Clean)

func (h hierarchy) clean() {
	left, _ := filepath.Glob(filepath.Join(h.base, groupPrefix+"*-*")) // fails only if the pattern is malformed
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue // the group has another maker, or the process that made it is alive
		}
		c := controlGroup{hierarchy: h, dir: dir}
		for _, pid := range c.pids() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		c.remove()
	}
}
