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
	testscript.Main(testRun{m}, map[string]func(){"haul": scriptHaul})
}

// A testRun runs the tests in an environment that the user who runs them does not change.
type testRun struct{ *testing.M }

// Run implements [testscript.TestingM].
func (m testRun) Run() int {
	for _, v := range []string{"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY"} {
		_ = os.Unsetenv(v) // of the user who runs the tests
	}
	_ = os.Setenv("NETRC", filepath.Join(os.TempDir(), "haul-test-without", "netrc")) // nor the passwords of theirs
	state, err := os.MkdirTemp("", "haul-test-state-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(state)
	_ = os.Setenv("XDG_STATE_HOME", state)
	// A program with the race detector in it sleeps for a second when it ends, lest
	// a race of its last moment be missed. Children end when all is done.
	if _, ok := os.LookupEnv("GORACE"); !ok {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	setUmask()
	flag.Parse()
	setParallel()
	// In the background of a shell, SIGINT is ignored by tests, and would be by their
	// children. Asking for it gives the children the default.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	runServer = unconfined
	return m.M.Run()
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

// A transcript is what a process says, for those who wait for a word of it.
type transcript struct {
	mu    sync.Mutex
	text  strings.Builder
	over  bool
	grown chan struct{} // closed when there is more
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

// end says that nothing more will come.
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

// await returns the text as soon as enough says so; it is not ok if that takes
// longer than patience.
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
