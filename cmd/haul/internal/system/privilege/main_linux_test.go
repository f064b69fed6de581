package privilege

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// The effects of this package cannot be undone, so each test runs in a process of its own: this
// binary again, with an order in its environment.

const orderVar = "HAUL_PRIVILEGE_TEST"

// An order names one of the children, and has its parameters.
type order struct {
	Child string
	User  string `json:",omitempty"`
	Dir   string `json:",omitempty"`
}

// children are the functions that an order can run. A function that returns nil has passed.
var children = map[string]func(order) error{
	"drop":         dropChild,
	"refused":      refusedChild,
	"capabilities": capabilitiesChild,
	"confine":      confineChild,
	"both":         bothChild,
	"unavailable":  unavailableChild,
	"connect":      connectChild,
}

func TestMain(m *testing.M) {
	text := os.Getenv(orderVar)
	if text == "" {
		os.Exit(m.Run())
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	crowd()
	if err := children[o.Child](o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run carries out an order in a new process.
func run(t *testing.T, o order, attr *syscall.SysProcAttr) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Under this name, a user who may not enter the binary's directory can run it.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	// A child that succeeds need not wait for the race detector at its exit.
	cmd.Env = append(os.Environ(), orderVar+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("child %+v: %v\n%s", o, err, out)
	}
}

// crowd starts several threads, each of which must change.
func crowd() {
	const threads = 4
	ready := make(chan bool)
	for range threads {
		go func() {
			runtime.LockOSThread()
			ready <- true
			select {} // until the process ends
		}()
	}
	for range threads {
		<-ready
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give up being root")
	}
}
