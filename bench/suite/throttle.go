package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A throttle applies a limit of a control group to the processes of a server.
type throttle struct {
	group string // for version 1; empty with version 2, which uses the server's own group

	// These fields are for version 2:
	file, text string // file in that group, and what is written into it
}

// unified is the directory of control groups of version 2, and of the controllers of version 1.
const unified = "/sys/fs/cgroup"

// controllers1 are the controllers of version 1 that may limit a server.
var controllers1 = []string{"blkio", "cpu"}

// throttleReads prepares a limit of coldRate for reads from the disk of dir.
func throttleReads(dir string) (*throttle, error) {
	disk, err := diskOf(dir)
	if err != nil {
		return nil, err
	}
	t, err := newThrottle("io", "io.max", fmt.Sprintf("%s rbps=%d", disk, coldRate),
		"blkio", "blkio.throttle.read_bps_device", fmt.Sprintf("%s %d", disk, coldRate))
	if err != nil {
		return nil, fmt.Errorf("a slow disk: %w", err)
	}
	return t, nil
}

// cpuPeriod is the period of a CPU limit, in microseconds: the kernel's default.
const cpuPeriod = 100_000

// throttleCPU prepares a limit to a share of one core.
func throttleCPU(share float64) (*throttle, error) {
	quota := int(share * cpuPeriod)
	t, err := newThrottle("cpu", "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod), "cpu", "cpu.cfs_quota_us", strconv.Itoa(quota))
	if err != nil {
		return nil, fmt.Errorf("a slow processor: %w", err)
	}
	return t, nil
}

// newThrottle prepares a limit with a controller of version 2 and its file, or else with one of
// version 1.
func newThrottle(controller, file, text, controller1, file1, text1 string) (*throttle, error) {
	if strings.Contains(word(filepath.Join(unified, "cgroup.subtree_control")), controller) {
		return &throttle{file: file, text: text}, nil
	}
	t := &throttle{group: filepath.Join(unified, controller1, ownName())}
	if err := os.Mkdir(t.group, 0o755); err != nil {
		return nil, fmt.Errorf("it takes a control group with a limit, as root: %w", err)
	}
	if err := os.WriteFile(filepath.Join(t.group, file1), []byte(text1), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("it takes a kernel with this limit: %w", err), t.close())
	}
	return t, nil
}

// join applies the limit to a process and to processes that it starts later.
func (t *throttle) join(pid int) error {
	file, text := filepath.Join(t.group, "cgroup.procs"), strconv.Itoa(pid)
	if t.group == "" {
		_, path, ok := strings.Cut(word(fmt.Sprintf("/proc/%d/cgroup", pid)), "0::")
		if !ok {
			return fmt.Errorf("limit process %d: it is in no control group of version 2", pid)
		}
		file, text = filepath.Join(unified, path, t.file), t.text
	}
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		return fmt.Errorf("limit process %d: %w", pid, err)
	}
	return nil
}

// close removes the limit; its processes must have ended.
func (t *throttle) close() error {
	if t.group == "" {
		return nil
	}
	return os.Remove(t.group)
}
