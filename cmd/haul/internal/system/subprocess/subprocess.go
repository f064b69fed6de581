// Package subprocess runs a program as a connection: data written to the connection is the
// program's input, and data read from it is the program's output. The program never outlives its
// connection.
package subprocess

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// endTime is how long a program may take to exit after its connection was closed and SIGHUP was
	// sent to it. After that it is killed.
	endTime = 2 * time.Second

	// statusTime is how long Read waits for the program to exit, once the program has closed its
	// output.
	statusTime = endTime / 8
)

// A Process is a running program that is used as a connection. Several goroutines may call its
// methods at the same time.
type Process struct {
	in    *os.File // the pipe from the program's standard output
	out   *os.File // the pipe to the program's standard input
	cmd   *exec.Cmd
	group bool // the program has its own process group

	// Explain, if set before the first Read, returns the error that Read and Write return after the
	// program has exited by itself. how is the result of [exec.Cmd.Wait].
	Explain func(how error) error

	grace atomic.Int64 // how long Close waits before it sends SIGHUP, in nanoseconds: see SetGrace
	done  chan struct{}
	err   error // the result of exec.Cmd.Wait; valid once done is closed
	once  sync.Once
	ended atomic.Bool // haul has stopped the program, so the program did not exit by itself
}

// Start starts a program. Standard input and output of cmd must not be set.
func Start(cmd *exec.Cmd) (*Process, error) { return start(cmd, false) }

// StartGroup does the same as Start, but gives the program its own process group, if the system
// supports that. Then signals from the terminal do not reach the program, and stopping it also
// stops the processes that it has started. The program must not prompt on the terminal, because the
// system would suspend it.
func StartGroup(cmd *exec.Cmd) (*Process, error) { return start(cmd, ownGroup(cmd)) }

func start(cmd *exec.Cmd, group bool) (*Process, error) {
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, cannotStart(cmd, err)
	}
	in, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(cannotStart(cmd, err), theirIn.Close(), out.Close())
	}
	widen(in)
	widen(out)
	p := &Process{in: in, out: out, cmd: cmd, group: group, done: make(chan struct{})}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	cmd.WaitDelay = endTime // other processes may still have the program's standard error open
	err = cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return nil, errors.Join(cannotStart(cmd, err), in.Close(), out.Close())
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// cannotStart returns an error that says which program cannot be started, and what the user can do
// about it.
func cannotStart(cmd *exec.Cmd, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // leave out the path, which is the path of the program
	}
	advice := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "; it has to be an executable file (chmod +x)"
	case errors.Is(err, syscall.ENOEXEC):
		advice = "; a script has to begin with a line such as #!/bin/sh"
	case errors.Is(err, syscall.EMFILE):
		advice = "; raise the limit of open files (ulimit -n)"
	}
	return fmt.Errorf("start %s: %w%s", cmd.Path, err, advice)
}

// SetGrace sets how long Close waits for the program to exit by itself after its input was closed.
// Only then does Close send SIGHUP. The default is 0.
func (p *Process) SetGrace(d time.Duration) { p.grace.Store(int64(d)) }

// Read reads data that the program has written to its standard output.
func (p *Process) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if errors.Is(err, io.EOF) {
		err = p.explain(err)
	}
	return n, err
}

// Write writes data to the program's standard input.
func (p *Process) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = p.explain(err)
	}
	return n, err
}

// explain returns the error for a program that has closed its end of a pipe. It waits briefly for
// the program to exit, because the exit status makes the error more useful.
func (p *Process) explain(err error) error {
	select {
	case <-p.done:
	case <-time.After(statusTime):
	}
	if how, ok := p.Status(); ok && p.Explain != nil {
		return p.Explain(how)
	}
	return err
}

// Close closes the pipes, and sends SIGHUP to the program, as ssh does. If the program does not
// exit, Close kills it. Close returns when the program has exited.
func (p *Process) Close() error {
	p.once.Do(func() {
		_, _ = p.in.Close(), p.out.Close()
		if p.awaitEnd(time.Duration(p.grace.Load())) || p.signal(syscall.SIGHUP) || p.awaitEnd(endTime) {
			return
		}
		_ = p.send(syscall.SIGKILL)
		<-p.done
	})
	return nil
}

// awaitEnd waits until the program exits, but at most for the time `limit`. It reports whether the
// program has exited.
func (p *Process) awaitEnd(limit time.Duration) bool {
	if limit <= 0 {
		return false
	}
	p.ended.Store(true)
	select {
	case <-p.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// signal sends a signal to the program and its group. If the program has exited, it sends nothing,
// because another process may have the ID of the program by now, and returns true.
func (p *Process) signal(sig syscall.Signal) (ended bool) {
	select {
	case <-p.done:
		return true
	default:
	}
	p.ended.Store(true)
	if p.send(sig) != nil {
		_ = p.cmd.Process.Kill() // for systems that have no signals
	}
	return false
}

func (p *Process) send(sig syscall.Signal) error {
	if p.group {
		return signalGroup(p.cmd.Process.Pid, sig)
	}
	return p.cmd.Process.Signal(sig)
}

// Cut kills the program at once, and interrupts all pending calls.
func (p *Process) Cut() {
	p.signal(syscall.SIGKILL)
	_, _ = p.in.Close(), p.out.Close()
}

// Status returns how the program has exited. ok is true if it exited by itself.
func (p *Process) Status() (how error, ok bool) {
	if p.ended.Load() {
		return nil, false
	}
	select {
	case <-p.done:
		return p.err, true
	default:
		return nil, false
	}
}

// Done returns a channel that is closed when the program has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// SetDeadline sets the deadlines of Read and Write, as with a [net.Conn].
func (p *Process) SetDeadline(t time.Time) error {
	return errors.Join(p.in.SetDeadline(t), p.out.SetDeadline(t))
}

// SetReadDeadline sets the deadline of Read.
func (p *Process) SetReadDeadline(t time.Time) error { return p.in.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of Write.
func (p *Process) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }
