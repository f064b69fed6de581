package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A throttle limits the processes of a server by a control group.
type throttle struct {
	group string // directory of a group of version 1; empty with version 2, which uses the server's own group

	// These fields are for version 2.
	file, text string // name of the file with the limit in the server's group, and the text to write into it
}

// unified is the directory of the control groups of version 2, or of the controllers of version 1.
const unified = "/sys/fs/cgroup"

// controllers1 lists the controllers of version 1 that throttles use.
var controllers1 = []string{"blkio", "cpu"}

// throttleReads returns a throttle that limits reads from the disk of dir to coldRate.
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

// cpuPeriod is the period of a CPU limit, in microseconds. It is the kernel's default.
const cpuPeriod = 100_000

// throttleCPU returns a throttle that limits the CPU time to a share of one core.
func throttleCPU(share float64) (*throttle, error) {
	quota := int(share * cpuPeriod)
	t, err := newThrottle("cpu", "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod), "cpu", "cpu.cfs_quota_us", strconv.Itoa(quota))
	if err != nil {
		return nil, fmt.Errorf("a slow processor: %w", err)
	}
	return t, nil
}

// newThrottle returns a throttle that uses a controller of version 2 or, if that is not available,
// makes a group with controller1 of version 1. The limit is the text that is written into the file.
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

// join applies the limit to a process, and to processes that it starts later.
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

// close removes the group with the limit. All processes in the group must have exited.
func (t *throttle) close() error {
	if t.group == "" {
		return nil
	}
	return os.Remove(t.group)
}
