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

// IsSpawner reports whether this process is a spawner, and returns what it then runs.
func IsSpawner() (run func() (exitCode int), is bool) {
	if os.Getenv(spawnerVar) == "" || len(os.Args) < 2 || os.Args[0] != spawnerTitle {
		return nil, false
	}
	return runSpawner, true
}

// A spawnState is what a spawner knows of its children.
type spawnState struct {
	exe   string
	noExe error
	init  bool // this is process 1
	over  chan struct{}

	mu       sync.Mutex
	children map[int]*spawned // mu: by process number
	started  int              // mu: how many
	current  *spawned         // mu: the server that is the last to serve; nil if there is none
	pending  os.Signal        // mu: for the current server, once there is one
	code     int              // mu: to exit with
	served   bool             // mu: there was a current server
	ending   bool             // mu: all servers are to end
}

// A spawned process is a child of a spawner.
type spawned struct {
	pid    int
	number int           // larger than those of the processes that were started before
	serves bool          // mu of the spawner: it has said so
	ended  chan struct{} // closed when it has
	status syscall.WaitStatus
}

// runSpawner starts children for the server that has started it, until that ends. As
// process 1 it starts the first server as well, and ends with the last.
func runSpawner() int {
	if err := privilege.Hide(); err != nil { // the environment may have passwords in it
		fmt.Fprintln(os.Stderr, "haul: start successors:", err)
		return 1
	}
	s := &spawnState{init: os.Getpid() == 1, over: make(chan struct{}), children: map[int]*spawned{}}
	s.exe, s.noExe = os.Executable()
	signals, ended := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	// A signal that ends the server ends this process through the server. Signals that are
	// ignored stay so, for the children.
	for _, one := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGQUIT} {
		if !signal.Ignored(one) && (s.init || one != syscall.SIGQUIT) {
			signal.Notify(signals, one)
		}
	}
	if err := s.begin(); err != nil {
		fmt.Fprintln(os.Stderr, "haul: start successors:", err)
		return 1
	}
	s.reap() // orphans of the program before this one
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

// begin starts the first server, or serves the one that started this process.
func (s *spawnState) begin() error {
	if err := os.Unsetenv(spawnerVar); err != nil {
		return err
	}
	if s.init {
		// It gets systemd's sockets, and all variables.
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

// serve handles what a server says, until that ends. as is nil if this process did not start
// the server.
func (s *spawnState) serve(line *net.UnixConn, as *spawned) {
	defer line.Close()
	var last *spawned // that it had started
	for {
		texts, files, err := fdline.Receive(line)
		if err != nil {
			return
		}
		for text := range strings.SplitSeq(texts, "\n") {
			answer := ""
			switch names, isStart := strings.CutPrefix(text, "start "); {
			case isStart:
				next, err := s.start(append(spawnerEnv(os.Environ()), handedVar+"="+names), files)
				if err != nil {
					answer = "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
				} else {
					last, answer = next, "started "+strconv.Itoa(next.pid)
				}
			case text == "serving":
				s.serving(as)
			case text == "handed over":
				s.serving(last)
				answer = "signals go there"
			case last == nil:
				answer = "there is none"
			default: // "kill"
				answer = "it has ended: " + s.kill(last)
			}
			if answer != "" {
				_, _ = line.Write([]byte(answer + "\n"))
			}
		}
		for _, f := range files {
			_ = f.Close()
		}
	}
}

// start starts a child, which has the files from descriptor 3 on. As process 1 it adds the
// child's line to this process.
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
	s.mu.Lock() // reap does not miss it
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
		if s.children[c.pid] == c { // otherwise the number may be that of another
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

// reap waits for processes that have ended. Those of process 1 include orphans.
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

// pass passes a signal to process 1 on: one that ends haul to all servers, others to the
// current one. If none serves yet, they wait for the first that does.
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

// signalAll signals all servers. s.mu is held.
func (s *spawnState) signalAll(one syscall.Signal) {
	s.ending = true
	for pid := range s.children {
		_ = syscall.Kill(pid, one)
	}
}

// serving is called when a child of process 1 serves: it says so, and its predecessor may
// have done so before.
func (s *spawnState) serving(c *spawned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c == nil || s.children[c.pid] != c {
		return
	}
	c.serves, s.served = true, true
	if s.current != nil && s.current.number > c.number {
		return // it has a successor already
	}
	s.current = c
	if s.pending != nil {
		_ = syscall.Kill(c.pid, s.pending.(syscall.Signal))
		s.pending = nil
	}
}

// afterEnd is called when a child of process 1 has ended. If that was the current server,
// and no successor could take its place, those that have retired end too. s.mu is held.
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
