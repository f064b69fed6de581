package peer

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ticks is the number of clock ticks per second in the files of /proc, on all Linux systems.
const ticks = 100

// A processTree is the kind of group that is used if control groups are not permitted. It consists
// of the process `root` and its descendants in the process table.
type processTree struct{ root int }

func (t *processTree) name() string { return "process table" }
func (t *processTree) remove()      {}

func (t *processTree) begin(cmd *exec.Cmd) func() error {
	return func() error {
		if cmd.Process != nil { // the command has started
			t.root = cmd.Process.Pid
		}
		return nil
	}
}

func (t *processTree) pids() []int {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc") // without /proc, no process counts as alive
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if s, err := readStat(pid); err == nil && s.state != "Z" {
				parents[pid] = s.parent
			}
		}
	}
	var pids []int
	for pid := range parents {
		for at := pid; at > 1; at = parents[at] {
			if at == t.root {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// cpu returns the CPU time of the living processes, and of exited processes that their parent
// waited for.
func (t *processTree) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range t.pids() {
		if s, err := readStat(pid); err == nil {
			sum += s.cpu
		}
	}
	if sum == 0 {
		if _, err := readStat(t.root); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// A stat holds the fields of /proc/PID/stat that this package needs.
type stat struct {
	state  string
	parent int
	cpu    time.Duration // includes the time of exited children that the process waited for
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The second field is the process's name in parentheses, which may contain any character.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields after the name, too few", pid, len(f))
	}
	s := stat{state: f[0]}
	if s.parent, err = strconv.Atoi(f[1]); err != nil {
		return stat{}, err
	}
	for _, field := range f[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(n) * time.Second / ticks
	}
	return s, nil
}

// resident returns the resident memory of a process in bytes, or 0 if the process has exited.
func resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64) // the result is 0 if the field is not a number
	return pages * int64(os.Getpagesize())
}

// proportional returns the proportional memory (PSS) of a process in bytes, from the line Pss of
// /proc/PID/smaps_rollup.
func proportional(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // "Pss:  1234 kB"
		if len(f) == 3 && f[0] == "Pss:" {
			kB, err := strconv.ParseInt(f[1], 10, 64)
			return kB << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/smaps_rollup has no line Pss", pid)
}
