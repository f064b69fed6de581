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
	"syscall"
	"time"
)

// IsSpawner reports whether this process is a spawner, and returns what it then runs.
func IsSpawner() (run func() (exitCode int), is bool) {
	if os.Getenv(spawnerVar) == "" || len(os.Args) < 2 || os.Args[0] != spawnerTitle {
		return nil, false
	}
	return runSpawner, true
}

// runSpawner starts children for the server that has started it, until that ends.
func runSpawner() int {
	// A signal that ends the server ends this process through the server. Signals that are
	// ignored stay so, for the children.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	f := os.NewFile(3, "line")
	line, err := lineOf(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, "haul: start successors:", err)
		return 1
	}
	_ = f.Close()
	if err := os.Unsetenv(spawnerVar); err != nil {
		return 1
	}
	exe, err := os.Executable()
	s := &spawnState{line: line, exe: exe, noExe: err}
	for {
		text, files, err := receiveLine(line)
		if err != nil {
			return 0 // the server has ended
		}
		s.handle(text, files)
		for _, f := range files {
			_ = f.Close()
		}
	}
}

// A spawnState is what a spawner knows of its last child.
type spawnState struct {
	line  *net.UnixConn
	exe   string
	noExe error

	cmd   *exec.Cmd     // nil if none was started
	ended chan struct{} // closed when it has
}

// handle answers a line.
func (s *spawnState) handle(text string, files []*os.File) {
	if names, ok := strings.CutPrefix(text, "start "); ok {
		if pid, err := s.start(names, files); err != nil {
			s.answer("failed " + strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			s.answer("started " + strconv.Itoa(pid))
		}
		return
	}
	if s.cmd == nil {
		s.answer("there is none")
		return
	}
	select {
	case <-s.ended:
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill() // it may have ended just now
		<-s.ended
	}
	s.answer("it has ended: " + s.cmd.ProcessState.String())
}

func (s *spawnState) answer(text string) { _, _ = s.line.Write([]byte(text + "\n")) }

func (s *spawnState) start(names string, files []*os.File) (pid int, err error) {
	if s.noExe != nil {
		return 0, s.noExe
	}
	cmd := exec.Command(s.exe)
	cmd.Args = os.Args[1:]
	cmd.Env = append(os.Environ(), handedVar+"="+names)
	cmd.ExtraFiles = files
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // ProcessState says more
		close(ended)
	}()
	return cmd.Process.Pid, nil
}
