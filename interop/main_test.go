//go:build unix

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// temp is a directory for all tests, with haul's binary.
var temp string

func TestMain(m *testing.M) {
	var err error
	if temp, err = os.MkdirTemp("", "haul-interop-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Setenv("XDG_STATE_HOME", filepath.Join(temp, "state"))
	// Under nohup the tests ignore SIGHUP, and haul would inherit that.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	code := m.Run()
	_ = os.RemoveAll(temp)
	os.Exit(code)
}

// buildHaul builds the binary as it is released, with the tags of this test.
var buildHaul = sync.OnceValues(func() (program, error) {
	p := program{path: filepath.Join(temp, "haul")}
	cmd := exec.Command("go", "build", "-trimpath", "-tags", tags, "-o", p.path, "../cmd/haul")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return p, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return p, nil
})

// haul returns our own program.
func haul(t *testing.T) program {
	t.Helper()
	p, err := buildHaul()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
