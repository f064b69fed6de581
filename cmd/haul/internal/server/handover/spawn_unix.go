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

// IsSpawner reports whether this process is a spawner, and returns the function that does its work.
func IsSpawner() (run func() (exitCode int), is bool) {
	if os.Getenv(spawnerVar) == "" || len(os.Args) < 2 || os.Args[0] != spawnerTitle {
		return nil, false
	}
	return runSpawner, true
}

// A spawnState is the state of a spawner: its children and their order.
type spawnState struct {
	exe   string
	noExe error
	init  bool // this is process 1
	over  chan struct{}

	mu       sync.Mutex
	children map[int]*spawned // mu: by process ID
	started  int              // mu: number of children started so far
	current  *spawned         // mu: the server that began to serve most recently; nil before the first
	pending  os.Signal        // mu: a signal for the current server, once there is one
	code     int              // mu: the exit code
	served   bool             // mu: there has been a current server
	ending   bool             // mu: all servers are to end
}

// A spawned process is a child of a spawner.
type spawned struct {
	pid    int
	number int           // larger than the numbers of all processes started earlier
	serves bool          // mu of the spawner: the process has reported that it serves
	ended  chan struct{} // closed when the process has ended
	status syscall.WaitStatus
}

// runSpawner starts children for the server that started it, until that server ends. As process 1
// it also starts the first server, and ends when the last one does.
func runSpawner() int {
	if err := privilege.Hide(); err != nil { // the environment may contain passwords
		fmt.Fprintln(os.Stderr, "haul: start successors:", err)
		return 1
	}
	s := &spawnState{init: os.Getpid() == 1, over: make(chan struct{}), children: map[int]*spawned{}}
	s.exe, s.noExe = os.Executable()
	signals, ended := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	// This process ends with the server, so a signal must not end it first. Ignored signals stay
	// ignored, for the children.
	for _, one := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGQUIT} {
		if !signal.Ignored(one) && (s.init || one != syscall.SIGQUIT) {
			signal.Notify(signals, one)
		}
	}
	if err := s.begin(); err != nil {
		fmt.Fprintln(os.Stderr, "haul: start successors:", err)
		return 1
	}
	s.reap() // children that this process had before it became this program
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

// begin starts the first server, or serves the server that started this process.
func (s *spawnState) begin() error {
	if err := os.Unsetenv(spawnerVar); err != nil {
		return err
	}
	if s.init {
		// The server gets systemd's sockets, and all variables.
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
		close(s.over) // the server has ended
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

// serve handles the requests of a server until the line ends. as is nil if the server was not
// started by this process.
func (s *spawnState) serve(line *net.UnixConn, as *spawned) {
	defer line.Close()
	var last *spawned // the latest child that the server started
	for {
		texts, files, err := fdline.Receive(line)
		if err != nil {
			return
		}
		for text := range strings.SplitSeq(texts, "\n") {
			answer := ""
			switch word, names, _ := strings.Cut(text, " "); {
			case word == wordStart:
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
			default: // kill, or a word that this version does not know
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

// start starts a child, which gets the files from descriptor 3 on. If this process is process 1,
// start adds the child's line to this process.
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
	s.mu.Lock() // so that reap does not miss the child
	defer s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		if line != nil {
			_ = line.Close()
		}
		return nil, err
	}
	s.started++
	c := &spawned{pid: cmd.Process.Pid, number: s.started, ended: make(chan struct{})}
	_ = cmd.Process.Release() // reap waits for it
	s.children[c.pid] = c
	if line != nil {
		go s.serve(line, c)
	}
	return c, nil
}

// kill ends a child, and returns its exit status.
func (s *spawnState) kill(c *spawned) string {
	select {
	case <-c.ended:
	case <-time.After(stopTime):
		s.mu.Lock()
		if s.children[c.pid] == c { // otherwise another process may have this ID
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

// reap waits for processes that have ended. For process 1 these include orphans.
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

// pass handles a signal that process 1 has received. It sends signals that end haul to all servers,
// and other signals to the current server. If no server serves yet, the signal waits for the first
// server that does.
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

// serving is called when a child of process 1 reports that it serves. Its predecessor may have
// reported this already.
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

// afterEnd is called when a child of process 1 has ended. If it was the current server, and it had
// no successor, the retired servers end too. The caller holds s.mu.
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
