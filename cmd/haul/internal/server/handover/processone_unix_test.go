//go:build unix

package handover

import (
	"bufio"
	"net"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
)

// pair returns both ends of a line.
func pair(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	ours, file, err := fdline.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if theirs, err = fdline.Of(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// A server hands over once process 1 sends signals to the successor. A signal that reached the
// exiting server after that would be lost. The successor's own report, which may be late, changes
// nothing.
func TestProcessOneKnowsTheSuccessor(t *testing.T) {
	server, processOne := pair(t)
	toChild, successor := pair(t)
	first, second := &spawned{pid: 1, number: 1}, &spawned{pid: 2, number: 2}
	state := &spawnState{init: true, children: map[int]*spawned{1: first, 2: second}}
	state.serving(first)
	go func() {
		defer successor.Close()
		if line, _ := bufio.NewReader(successor).ReadString('\n'); line == "go\n" {
			_, _ = successor.Write([]byte("serving\n"))
		}
	}()
	current := func() *spawned {
		state.mu.Lock()
		defer state.mu.Unlock()
		return state.current
	}
	asked := make(chan string, 1)
	go func() {
		text, _, _ := fdline.Receive(processOne)
		asked <- text
		state.serving(second)
		_, _ = processOne.Write([]byte("signals go there\n"))
	}()

	s := newSpawner(server, true)
	if err := s.begin(t.Context(), &child{pid: 2, line: toChild, lines: bufio.NewReader(toChild)}); err != nil {
		t.Fatal(err)
	}
	if current() != second {
		t.Error("begin has returned, and process 1 sends signals to the predecessor")
	}
	_ = server.Close()
	if text := <-asked; text != "handed over" {
		t.Errorf("process 1 was sent %q", text)
	}
	if state.serving(first); current() != second {
		t.Error("a late report of the predecessor made it the current server again")
	}
}

// When a server hands over, process 1 answers it once signals go to the child that was started
// last.
func TestProcessOneAnswers(t *testing.T) {
	server, processOne := pair(t)
	state := &spawnState{init: true, exe: "/bin/true", children: map[int]*spawned{}}
	go state.serve(processOne, nil)
	answers := bufio.NewReader(server)
	for _, said := range []string{"start \n", "handed over\n"} {
		if _, err := server.Write([]byte(said)); err != nil {
			t.Fatal(err)
		}
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.current == nil || state.current != state.children[state.current.pid] {
		t.Error("process 1 has answered, and signals do not go to the child")
	}
}
