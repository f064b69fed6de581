package doctor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails if a test leaves a goroutine or a socket behind.
func TestMain(m *testing.M) {
	before := openSockets()
	code := m.Run()
	if left := goroutines(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	for deadline := time.Now().Add(patience); code == 0 && openSockets() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "%d sockets left behind\n", openSockets()-before)
			code = 1
		}
	}
	os.Exit(code)
}

// goroutines returns the stacks of this module's goroutines but this one,
// after giving them time to end.
func goroutines() string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for s := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(s, "haul/tftp") && !strings.Contains(s, "doctor.TestMain") {
				left = append(left, s)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// openSockets counts what this process has open, where the system tells.
func openSockets() int {
	n := 0
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
