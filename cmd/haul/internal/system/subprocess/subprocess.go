// Package subprocess runs a program as a connection: what it reads is written to it, and
// what it writes is read from it. No such program outlives its connection.
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
	// endTime is how long a program may take to end when its connection is closed, and it
	// was hung up, before it is killed.
	endTime = 2 * time.Second

	// statusTime is how long the end of what a program writes waits for that of the program.
	statusTime = endTime / 8
)

// A Process is a program that runs. Its methods may be called at once.
type Process struct {
	in    *os.File // its output
	out   *os.File // its input
	cmd   *exec.Cmd
	group bool // it has a process group of its own

	// Explain, if set before the first Read, makes the error of Read and Write when the
	// program has ended by itself. how is what [exec.Cmd.Wait] returned.
	Explain func(how error) error

	grace atomic.Int64 // see SetGrace
	done  chan struct{}
	err   error // how it ended, once done is closed
	once  sync.Once
	ended atomic.Bool // by us
}

// Start starts a program. Its standard input and output must not be set.
func Start(cmd *exec.Cmd) (*Process, error) { return start(cmd, false) }

// StartGroup is Start of a program with a process group of its own, where the system has
// such: signals of the terminal do not reach it, and what ends it ends what it has started
// too. Such a program must not ask on the terminal: the system would stop it.
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
	cmd.WaitDelay = endTime // for what it left behind with its standard error
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

// cannotStart says which program does not start, and what the user can do about it.
func cannotStart(cmd *exec.Cmd, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // its path is the program's
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

// SetGrace has Close wait so long for a program to end by itself, since its input has
// ended, before it is hung up. It begins with no time.
func (p *Process) SetGrace(d time.Duration) { p.grace.Store(int64(d)) }

// Read reads what the program writes.
func (p *Process) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if errors.Is(err, io.EOF) {
		err = p.explain(err)
	}
	return n, err
}

// Write writes what the program reads.
func (p *Process) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = p.explain(err)
	}
	return n, err
}

// explain gives a program that closed its end of a pipe a moment to end: how it
// does so is worth knowing.
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

// Close closes the pipes, hangs up the program, as ssh does, and kills it if it stays. It
// returns when the program has ended.
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

// awaitEnd waits for the end of the program, and reports whether it has come.
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

// signal sends a signal to the program, and to its group, unless the program has ended: then
// its number may be another's.
func (p *Process) signal(sig syscall.Signal) (ended bool) {
	select {
	case <-p.done:
		return true
	default:
	}
	p.ended.Store(true)
	if p.send(sig) != nil {
		_ = p.cmd.Process.Kill() // where there are no signals
	}
	return false
}

func (p *Process) send(sig syscall.Signal) error {
	if p.group {
		return signalGroup(p.cmd.Process.Pid, sig)
	}
	return p.cmd.Process.Signal(sig)
}

// Cut ends the program at once, so that all waiting on it ends.
func (p *Process) Cut() {
	p.signal(syscall.SIGKILL)
	_, _ = p.in.Close(), p.out.Close()
}

// Status returns how the program has ended, and whether it did so by itself.
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

// Done returns a channel that is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// SetDeadline sets both deadlines, as that of a [net.Conn].
func (p *Process) SetDeadline(t time.Time) error {
	return errors.Join(p.in.SetDeadline(t), p.out.SetDeadline(t))
}

// SetReadDeadline sets that of Read.
func (p *Process) SetReadDeadline(t time.Time) error { return p.in.SetReadDeadline(t) }

// SetWriteDeadline sets that of Write.
func (p *Process) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }
