// Package leak is for tests. It finds goroutines and open files that a package's tests leave behind:
//
//	func TestMain(m *testing.M) { leak.Main(m, "haul/udp.") }
package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines may take to exit, and descriptors to be closed, after the tests.
// It is long because machines may be slow. Only a failing test waits that long.
const patience = 20 * time.Second

// Main runs a package's tests and exits. The exit code is 1 if the tests pass but leave a descriptor
// open, or a goroutine whose stack contains one of the words. A word that begins with "!" is an
// exception: goroutines whose stacks contain the rest of that word are ignored.
func Main(m *testing.M, words ...string) {
	before := Descriptors()
	code := m.Run()
	if left := Goroutines(words...); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	if left := before.Left(); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "descriptors left behind: %v\n", left)
		code = 1
	}
	os.Exit(code)
}

// Goroutines returns the stacks that contain one of the words, except the stack of TestMain. It first
// waits for up to 20 s until those goroutines have exited. The words have the same meaning as in
// [Main].
func Goroutines(words ...string) string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for s := range strings.SplitSeq(string(stacks), "\n\n") {
			if hasAny(s, words) && !strings.Contains(s, ".TestMain(") {
				left = append(left, s)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

func hasAny(s string, words []string) (has bool) {
	for _, w := range words {
		if excused, ok := strings.CutPrefix(w, "!"); ok && strings.Contains(s, excused) {
			return false
		}
		has = has || strings.Contains(s, w)
	}
	return has
}

// Open lists the sockets and temporary files that a process has open, by descriptor number. It is
// empty on systems without /proc/self/fd.
type Open map[string]string

// Descriptors returns the sockets and temporary files that this process has open. It ignores other
// files, because the Go runtime and the testing package open some themselves, such as pollers and
// profiles.
func Descriptors() Open {
	open := Open{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return open
	}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.Contains(to, "go-build") || strings.Contains(to, "fuzz") {
			continue
		}
		if strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, os.TempDir()) {
			open[e.Name()] = to
		}
	}
	return open
}

// Left returns the files that are open now but are not in o. It first waits for up to 20 s until they
// are closed.
func (o Open) Left() Open {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left := Descriptors()
		for fd, to := range left {
			if o[fd] == to {
				delete(left, fd)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
