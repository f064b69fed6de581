//go:build unix

package handover

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// IsSpawner reports whether this process is a spawner. If it is, run does the work of the spawner.
func IsSpawner() (run func() (exitCode int), is bool) {
	if os.Getenv(spawnerVar) == "" || len(os.Args) < 2 || os.Args[0] != spawnerTitle {
		return nil, false
	}
	return runSpawner, true
}

// A spawnState is the state of a spawner: mainly its children, and which of them currently serves.
type spawnState struct {
	exe   string
	noExe error
	init  bool // this process is process 1, as in a container
	over  chan struct{}

	mu       sync.Mutex
	children map[int]*spawned // by process ID; guarded by mu
	started  int              // number of children started so far; guarded by mu
	// current is the child that reported most recently that it serves, or nil before the first;
	// guarded by mu.
	current *spawned
	pending os.Signal // a signal that waits for the first child that serves; guarded by mu
	code    int       // the exit code of this process; guarded by mu
	served  bool      // a child has served; guarded by mu
	ending  bool      // a signal asked all children to exit; guarded by mu
}

// A spawned is a child of a spawner.
type spawned struct {
	pid    int
	number int           // counts the children in the order of their start, from 1
	serves bool          // the process has reported that it serves; guarded by spawnState.mu
	ended  chan struct{} // closed when the process has exited
	status syscall.WaitStatus
}

// runSpawner does the work of a spawner: it starts children for the server that started the
// spawner, and returns when that server exits. As process 1 it also starts the first server, and
// returns when the last server exits.
func runSpawner() int {
	if err := privilege.Hide(); err != nil { // hides the environment, which may contain passwords
		fmt.Fprintln(os.Stderr, "haul: start successors:", err)
		return 1
	}
	s := &spawnState{init: os.Getpid() == 1, over: make(chan struct{}), children: map[int]*spawned{}}
	s.exe, s.noExe = os.Executable()
	signals, ended := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	// A signal must not end this process before the server exits. Signals that are ignored already
	// stay ignored, because the children have to inherit that.
	for _, one := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGQUIT} {
		if !signal.Ignored(one) && (s.init || one != syscall.SIGQUIT) {
			signal.Notify(signals, one)
		}
	}
	if err := s.begin(); err != nil {
		fmt.Fprintln(os.Stderr, "haul: start successors:", err)
		return 1
	}
	s.reap() // for children that this process had before it executed this program
	for {
		select {
		case one := <-signals:
			s.pass(one)
		case <-ended:
			s.reap()
		case <-s.over:
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.code
		}
	}
}

// begin prepares the spawner: as process 1 it starts the first server; otherwise it handles the
// requests of the server that started it.
func (s *spawnState) begin() error {
	if err := os.Unsetenv(spawnerVar); err != nil {
		return err
	}
	if s.init {
		// The first server inherits systemd's sockets, and all environment variables.
		_, err := s.start(os.Environ(), activated())
		return err
	}
	f := os.NewFile(3, "line")
	line, err := fdline.Of(f)
	if err != nil {
		return err
	}
	_ = f.Close()
	go func() {
		s.serve(line, nil)
		close(s.over) // the line is closed, so the server has exited
	}()
	return nil
}

// activated returns the sockets that systemd passed to process 1.
func activated() (files []*os.File) {
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || os.Getenv("LISTEN_PID") != "1" {
		return nil
	}
	for fd := 3; fd < 3+min(n, maxPassed); fd++ {
		files = append(files, os.NewFile(uintptr(fd), "activated"))
	}
	return files
}

// An attacker who has taken over a server can make it send any request, and the children of a
// spawner begin with the spawner's rights. So a request can choose neither the program nor its
// arguments. In the environment it can set only the names of the sockets. These constants bound the
// processes that requests can start:
const (
	// restTime is the minimum time between the starts of two children for the same server. The
	// second one is started only if the first one has ended, usually because it failed.
	restTime = 500 * time.Millisecond

	// maxChildren is the largest number of servers that run at a time below process 1: the current
	// one, and those that still have transfers after a restart.
	maxChildren = 128
)

// serve handles the requests of a server until the server closes the line. `as` is the server's
// entry in children, or nil if this process did not start the server. A server can have one child
// at a time.
func (s *spawnState) serve(line *net.UnixConn, as *spawned) {
	defer line.Close()
	var last *spawned  // the child that was started most recently for this server
	var rest time.Time // no other child is started before this time
	for {
		texts, files, err := fdline.Receive(line)
		if err != nil {
			return
		}
		for text := range strings.SplitSeq(texts, "\n") {
			answer := ""
			switch word, names, _ := strings.Cut(text, " "); {
			case word == wordStart && last.runs():
				answer = wordFailed + " process " + strconv.Itoa(last.pid) + " still runs, and a server may start only one at a time; wait until it has ended"
			case word == wordStart:
				time.Sleep(time.Until(rest))
				rest = time.Now().Add(restTime)
				next, err := s.start(append(spawnerEnv(os.Environ()), handedVar+"="+names), files)
				if err != nil {
					answer = wordFailed + " " + oneLine(err.Error())
				} else {
					last, answer = next, wordStarted+" "+strconv.Itoa(next.pid)
				}
			case text == wordServing:
				s.serving(as)
			case text == wordHandedOver:
				s.serving(last)
				answer = "signals go there"
			case last == nil:
				answer = "no successor was started"
			default: // "kill", or a word that this version does not know
				answer = "it has ended: " + s.kill(last)
			}
			if answer != "" {
				_ = say(line, answer)
			}
		}
		for _, f := range files {
			_ = f.Close()
		}
	}
}

// start starts a child, which inherits the files as descriptors 3 and up. If this process is
// process 1, start also gives the child a line to this process.
func (s *spawnState) start(env []string, files []*os.File) (*spawned, error) {
	if s.noExe != nil {
		return nil, s.noExe
	}
	var line *net.UnixConn
	if s.init {
		ours, theirs, err := fdline.Pair()
		if err != nil {
			return nil, err
		}
		defer theirs.Close()
		env = append(env, lineVar+"="+strconv.Itoa(3+len(files)))
		line, files = ours, append(files, theirs)
	}
	cmd := exec.Command(s.exe)
	cmd.Args, cmd.Env, cmd.ExtraFiles = os.Args[1:], env, files
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	s.mu.Lock() // keep reap from running before the child is in s.children
	defer s.mu.Unlock()
	err := error(nil)
	if len(s.children) >= maxChildren {
		err = fmt.Errorf("%d servers run already; wait until old ones have finished their transfers", len(s.children))
	} else {
		err = cmd.Start()
	}
	if err != nil {
		if line != nil {
			_ = line.Close()
		}
		return nil, err
	}
	s.started++
	c := &spawned{pid: cmd.Process.Pid, number: s.started, ended: make(chan struct{})}
	_ = cmd.Process.Release() // the method reap waits for the process, instead of cmd.Wait
	s.children[c.pid] = c
	if line != nil {
		go s.serve(line, c)
	}
	return c, nil
}

// runs reports whether there is a child, and it has not exited yet.
func (c *spawned) runs() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// kill makes sure that a child exits, and describes how it exited. It kills the child if the child
// does not exit by itself within stopTime.
func (s *spawnState) kill(c *spawned) string {
	select {
	case <-c.ended:
	case <-time.After(stopTime):
		s.mu.Lock()
		if s.children[c.pid] == c { // if the child was reaped, another process may have its ID
			_ = syscall.Kill(c.pid, syscall.SIGKILL)
		}
		s.mu.Unlock()
		<-c.ended
	}
	if c.status.Signaled() {
		return "signal: " + c.status.Signal().String()
	}
	return "exit status " + strconv.Itoa(c.status.ExitStatus())
}

// reap waits for all processes that have exited. For process 1 these include orphans.
func (s *spawnState) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := s.children[pid]; c != nil {
			delete(s.children, pid)
			c.status = status
			close(c.ended)
			if s.init {
				s.afterEnd(c)
			}
		}
	}
}

// pass handles a signal that process 1 has received. A signal that stops haul is passed to all
// servers, and SIGHUP and SIGUSR2 to the current server. If no server serves yet, they are kept for
// the first server that does.
func (s *spawnState) pass(one os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.init:
	case one != syscall.SIGHUP && one != syscall.SIGUSR2:
		s.signalAll(one.(syscall.Signal))
	case s.current != nil:
		_ = syscall.Kill(s.current.pid, one.(syscall.Signal))
	default:
		s.pending = one
	}
}

// signalAll signals all servers. The caller holds s.mu.
func (s *spawnState) signalAll(one syscall.Signal) {
	s.ending = true
	for pid := range s.children {
		_ = syscall.Kill(pid, one)
	}
}

// serving records that a child of process 1 serves. It may be called twice, because both the child
// and the child's predecessor report that.
func (s *spawnState) serving(c *spawned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c == nil || s.children[c.pid] != c {
		return
	}
	c.serves, s.served = true, true
	if s.current != nil && s.current.number > c.number {
		return // the child already has a successor
	}
	s.current = c
	if s.pending != nil {
		_ = syscall.Kill(c.pid, s.pending.(syscall.Signal))
		s.pending = nil
	}
}

// afterEnd is called when a child of process 1 has exited. If the child was the current server and
// had no successor, afterEnd makes the retired servers exit too. The caller holds s.mu.
func (s *spawnState) afterEnd(c *spawned) {
	if c == s.current || !s.served {
		s.current = nil
		if s.code = c.status.ExitStatus(); c.status.Signaled() {
			s.code = 128 + int(c.status.Signal())
		}
	}
	if len(s.children) == 0 {
		close(s.over)
		return
	}
	for _, other := range s.children {
		if s.current != nil || s.ending || !other.serves {
			return
		}
	}
	s.signalAll(syscall.SIGTERM)
}
