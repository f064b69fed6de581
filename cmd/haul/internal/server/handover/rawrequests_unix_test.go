//go:build unix

package handover

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
)

// These are roles of children: one writes to its line how it was started, and one runs until it is
// killed. Neither looks at what its predecessor hands over.
const (
	reports = "reports"
	waits   = "waits"
)

// A startedAs says how a child was started.
type startedAs struct {
	Exe       string
	Args, Env []string
}

func howStarted() (s startedAs) {
	s.Exe, _ = os.Executable()
	s.Args, s.Env = os.Args, os.Environ()
	return s
}

func report() int {
	if json.NewEncoder(os.NewFile(3, "line")).Encode(howStarted()) != nil {
		return 1
	}
	return 0
}

// A raw is a server that somebody has taken over, and that sends its spawner any request.
type raw struct {
	t *testing.T
	*Spawner
}

func startRaw(t *testing.T, role string) raw {
	t.Helper()
	t.Setenv(childVar, role)
	s, err := StartSpawner(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.line.SetDeadline(time.Now().Add(patience))
	return raw{t, s}
}

// ask sends a request with a line for a child, and returns this end of that line. The answer has to
// begin with a text.
func (r raw) ask(request, answer string) (child *os.File) {
	r.t.Helper()
	ours, theirs, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	defer theirs.Close()
	r.t.Cleanup(func() { ours.Close() })
	if err := fdline.Send(r.line, request+"\n", []*os.File{theirs}); err != nil {
		r.t.Fatal(err)
	}
	r.hear(answer)
	return ours
}

func (r raw) hear(answer string) {
	r.t.Helper()
	if said, err := r.answers.ReadString('\n'); err != nil || !strings.HasPrefix(said, answer) {
		r.t.Fatalf("the spawner says %q, %v, want %q", said, err, answer)
	}
}

// A spawner starts one child at a time, however the requests arrive.
func TestOneChild(t *testing.T) {
	r := startRaw(t, waits)
	r.ask("start ", "started ")
	r.ask("start ", "failed process ")
	r.ask("start x\nstart y", "failed process ")
	r.hear("failed process ")
	r.ask("kill", "it has ended: ")
	r.ask("start \nstart ", "started ")
	r.hear("failed process ")
	r.ask("kill", "it has ended: ")
}

// Between the starts of children that fail there is a pause.
func TestPauseBetweenChildren(t *testing.T) {
	r := startRaw(t, "dies at once")
	const children = 5
	begin := time.Now()
	for range children {
		r.ask("start ", "started ")
		r.ask("kill", "it has ended: ")
	}
	if took := time.Since(begin); took < (children-1)*restTime {
		t.Errorf("%d children were started in %v", children, took)
	}
}

// A request decides neither which program is started nor how: the program, its arguments and its
// environment are those of the server, apart from the variable with the names of the sockets.
func TestRequestChoosesNothing(t *testing.T) {
	r := startRaw(t, reports)
	want := howStarted()
	slices.Sort(want.Env)
	for _, names := range []string{"", "/bin/sh -c id", "x PATH=/evil LD_PRELOAD=/evil " + spawnerVar + "=1", "x," + lineVar + "=3"} {
		var got startedAs
		if err := json.NewDecoder(r.ask("start "+names, "started ")).Decode(&got); err != nil {
			t.Fatal(err)
		}
		r.ask("kill", "it has ended: exit status 0")
		if i := slices.Index(got.Env, handedVar+"="+names); i < 0 {
			t.Errorf("%q: the child has no names", names)
		} else {
			got.Env = slices.Delete(got.Env, i, i+1)
		}
		slices.Sort(got.Env)
		if got.Exe != want.Exe || !slices.Equal(got.Args, want.Args) || !slices.Equal(got.Env, want.Env) {
			t.Errorf("%q: the child was started as %q, want %q", names, got, want)
		}
	}
	r.ask("start x\x00LD_PRELOAD=/evil", "failed ")
	for _, request := range []string{"exec /bin/sh", "starts ", "START ", " start ", "start\tx"} {
		r.ask(request, "it has ended: ") // as of an unknown word
	}
}

// Process 1 has a bound on the servers that run at a time.
func TestMostChildren(t *testing.T) {
	s := &spawnState{exe: "/bin/true", children: map[int]*spawned{}}
	for i := range maxChildren {
		s.children[-1-i] = &spawned{}
	}
	if _, err := s.start(nil, nil); err == nil || !strings.Contains(err.Error(), "run already") {
		t.Errorf("one more than %d was started: %v", maxChildren, err)
	}
	delete(s.children, -1)
	if _, err := s.start(nil, nil); err != nil {
		t.Error(err)
	}
}
