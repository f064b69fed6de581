package tftp

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what should happen at once. Machines
// may be slow, so only a failing test ever waits that long.
const patience = 20 * time.Second

// TestMain fails if a test leaves a goroutine or a descriptor behind.
func TestMain(m *testing.M) {
	before := descriptors()
	code := m.Run()
	if left := leakedGoroutines(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	if left := leakedDescriptors(before); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "descriptors left behind: %v\n", left)
		code = 1
	}
	os.Exit(code)
}

// leakedGoroutines returns the stacks of this package's goroutines, after
// giving them time to end.
func leakedGoroutines() string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for s := range strings.SplitSeq(string(stacks), "\n\n") {
			ours := strings.Contains(s, "haul/tftp.") || strings.Contains(s, "internal/sim.")
			if ours && !strings.Contains(s, "tftp.TestMain") {
				left = append(left, s)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// descriptors returns what this process has open, where the system tells.
func descriptors() map[string]string {
	open := map[string]string{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return open
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && isOurs(to) {
			open[e.Name()] = to
		}
	}
	return open
}

// isOurs leaves out what the runtime and the testing package open for
// themselves: pollers, profiles, the directory just read.
func isOurs(to string) bool {
	return strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, os.TempDir())
}

func leakedDescriptors(before map[string]string) map[string]string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left := descriptors()
		for fd, to := range left {
			if before[fd] == to || strings.Contains(to, "go-build") || strings.Contains(to, "fuzz") {
				delete(left, fd)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
