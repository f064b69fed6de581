package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/hooks"
	"github.com/haul-project/haul/cmd/haul/internal/server/serve"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// TestMain keeps "haul serve" from confining this process, which has other
// tests to run; privilege_linux_test.go and serve_linux_test.go do it in
// processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv(asHaul) != "" {
		main()
	}
	if _, is := hooks.IsHelper(); is { // it has no asHaul
		main()
	}
	if addr := os.Getenv(asProxy); addr != "" && len(os.Args) == 1 {
		runProxy(addr)
	}
	for _, v := range []string{"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY"} {
		_ = os.Unsetenv(v) // of the user who runs the tests
	}
	_ = os.Setenv("NETRC", filepath.Join(os.TempDir(), "haul-test-without", "netrc")) // nor the passwords of theirs
	state, err := os.MkdirTemp("", "haul-test-state-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Setenv("XDG_STATE_HOME", state)
	// A program with the race detector in it sleeps for a second when it ends, lest
	// a race of its last moment be missed. Children end when all is done.
	if _, ok := os.LookupEnv("GORACE"); !ok {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	flag.Parse()
	setParallel()
	// In the background of a shell, SIGINT is ignored by tests, and would be by their
	// children. Asking for it gives the children the default.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	runServer = func(ctx context.Context, cfg serve.Config, out io.Writer) error {
		cfg.Unconfined = true
		return serve.Run(ctx, cfg, out)
	}
	code := m.Run()
	_ = os.RemoveAll(state)
	os.Exit(code)
}

// The tests of internal/serve use these as well.
const patience = servetest.Patience

type lockedBuffer = servetest.Buffer

var (
	eventually   = servetest.Eventually
	awaitRefused = servetest.AwaitRefused
	writeFile    = servetest.WriteFile
	wantFile     = servetest.WantFile
	writeProgram = servetest.WriteProgram
	makePipe     = servetest.MakePipe
)

// waiters is how many parallel tests run at once, unless -parallel says. They
// wait most of the time, so it does not go by the number of cores.
const waiters = 20

func setParallel() {
	const name = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		_ = flag.Set(name, strconv.Itoa(waiters)) // there is such a flag, and it takes a number
	}
}

// asHaul has this test binary behave as haul.
const asHaul = "HAUL_TEST_AS_HAUL"
