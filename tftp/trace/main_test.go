package trace

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what should happen at once. Only a
// failing test ever waits that long.
const patience = 20 * time.Second

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of tracers' goroutines, after giving them time to
// end.
func leaked() string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for s := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(s, "trace.(*Tracer).run") {
				left = append(left, s)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}
