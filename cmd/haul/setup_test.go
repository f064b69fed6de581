package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/haul-project/haul/cmd/haul/internal/server/hooks"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// TestMain keeps "haul serve" from confining this process, which has other tests to run.
// privilege_linux_test.go and serve_linux_test.go confine processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv(asHaul) != "" {
		main()
	}
	if _, is := hooks.IsHelper(); is { // the helper has no asHaul
		main()
	}
	if addr := os.Getenv(asProxy); addr != "" && len(os.Args) == 1 {
		runProxy(addr)
	}
	testscript.Main(testRun{m}, map[string]func(){"haul": scriptHaul})
}

// A testRun runs the tests in an environment that does not depend on the user.
type testRun struct{ *testing.M }

// Run implements [testscript.TestingM].
func (m testRun) Run() int {
	for _, v := range []string{"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY"} {
		_ = os.Unsetenv(v) // do not use the user's settings
	}
	_ = os.Setenv("NETRC", filepath.Join(os.TempDir(), "haul-test-without", "netrc")) // or the user's passwords
	state, err := os.MkdirTemp("", "haul-test-state-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(state)
	_ = os.Setenv("XDG_STATE_HOME", state)
	// A program with the race detector sleeps for a second at its end, so that no late race is
	// missed. Children end only when everything is done.
	if _, ok := os.LookupEnv("GORACE"); !ok {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	setUmask()
	flag.Parse()
	setParallel()
	// In the background of a shell, SIGINT is ignored by the tests, and their children would
	// inherit that. Notify restores the default for the children.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	runServer = unconfined
	return m.M.Run()
}

// patience is how long a test waits for an event.
const patience = servetest.Patience

type lockedBuffer = servetest.Buffer

var (
	eventually   = servetest.Eventually
	awaitRefused = servetest.AwaitRefused
	writeFile    = servetest.WriteFile
	wantFile     = servetest.WantFile
	writeProgram = servetest.WriteProgram
)

// waiters is how many parallel tests run at once unless -parallel is given. They wait most of the
// time, so it does not depend on the number of cores.
const waiters = 20

func setParallel() {
	const name = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		_ = flag.Set(name, strconv.Itoa(waiters)) // the flag exists, and accepts a number
	}
}

// asHaul makes this test binary behave as haul.
const asHaul = "HAUL_TEST_AS_HAUL"

// A transcript collects the output of a process, and lets tests wait for a part of it.
type transcript struct {
	mu    sync.Mutex
	text  strings.Builder
	over  bool
	grown chan struct{} // closed when more output has arrived
}

func newTranscript() *transcript { return &transcript{grown: make(chan struct{})} }

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	s.wake()
	return len(p), nil
}

func (s *transcript) wake() {
	close(s.grown)
	s.grown = make(chan struct{})
}

// end marks the output as complete.
func (s *transcript) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.wake()
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await returns the text as soon as enough returns true. ok is false if that takes longer than
// patience.
func (s *transcript) await(enough func(text string, ended bool) bool) (text string, ok bool) {
	late := time.After(patience)
	for {
		s.mu.Lock()
		text, over, grown := s.text.String(), s.over, s.grown
		s.mu.Unlock()
		if enough(text, over) {
			return text, true
		}
		select {
		case <-grown:
		case <-late:
			return text, false
		}
	}
}
