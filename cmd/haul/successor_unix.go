//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
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
)

// restartSignals gives out the signals that ask for a restart. One that comes
// while another is seen to is the same.
func restartSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	return c, func() { signal.Stop(c) }
}

// newLine makes a line between this process and one that it starts.
func newLine() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	near := os.NewFile(uintptr(fds[0]), "line")
	defer near.Close()
	theirs = os.NewFile(uintptr(fds[1]), "line")
	if ours, err = lineOf(near); err != nil {
		_ = theirs.Close()
	}
	return ours, theirs, err
}

// lineOf is the line of which f is an end.
func lineOf(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	line, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("%s is a socket of network %q", f.Name(), c.LocalAddr().Network())
	}
	return line, nil
}

// maxLine is how long a line may be, in bytes.
const maxLine = 8 << 10

// A starter is the process that starts successors, as the server sees it.
type starter struct {
	line    *net.UnixConn
	answers *bufio.Reader
	lost    error // it has left a question open, and its next answer would be to that
}

// startStarter starts it, with the environment that its successors get. It
// runs with all the rights that this process has now, and ends with it.
func startStarter(env []string) (*starter, error) {
	if os.Getpid() == 1 {
		return nil, usagef("--restartable: this is process 1, and a container or a system ends with that, whoever comes after; restart the container, or run haul below an init such as tini")
	}
	ours, theirs, err := newLine()
	if err != nil {
		return nil, fmt.Errorf("--restartable: %w", err)
	}
	defer theirs.Close()
	exe, err := os.Executable()
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("--restartable: %w", err)
	}
	cmd := exec.Command(exe)
	// What it is shows in a list of processes; what follows are the arguments of
	// its successors, with the name that this one was called by.
	cmd.Args = append([]string{starterTitle}, os.Args...)
	cmd.Env = append(starterEnv(env), starterVar+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // for the successors
	if err := cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("--restartable: %w", err)
	}
	go func() { _ = cmd.Wait() }() // that it has ended shows when it is needed
	return &starter{line: ours, answers: bufio.NewReaderSize(ours, maxLine)}, nil
}

const (
	// starterVar tells a process that it is a starter.
	starterVar = "HAUL_STARTER"

	starterTitle = "haul: starts successors of"
)

// starterEnv leaves out what was for this process alone: systemd's sockets, and
// whose watchdog it is.
func starterEnv(env []string) (kept []string) {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "WATCHDOG_PID", handedVar, starterVar:
		default:
			kept = append(kept, v)
		}
	}
	return kept
}

// Close ends the starter. Whom it has started lives on.
func (s *starter) Close() error {
	if s == nil {
		return nil
	}
	return s.line.Close()
}

// start has a successor started with the sockets, and waits until it is ready.
// If it does not come to that before ctx ends, it is killed.
func (s *starter) start(ctx context.Context, sockets []handed) (_ *successor, err error) {
	if s.lost != nil {
		return nil, fmt.Errorf("the starter is of no use any more: %w", s.lost)
	}
	ours, theirs, err := newLine()
	if err != nil {
		return nil, err
	}
	// Whatever is waited for ends when ctx does.
	stop := context.AfterFunc(ctx, func() {
		ours.SetDeadline(time.Unix(1, 0))
		s.line.SetDeadline(time.Unix(1, 0))
	})
	n := &successor{line: ours}
	defer func() {
		stop()
		s.line.SetDeadline(time.Time{})
		if err != nil {
			_ = n.Close()
			if cause := context.Cause(ctx); cause != nil {
				err = fmt.Errorf("%w: %w", cause, err)
			}
		}
	}()
	err = s.request(theirs, sockets)
	_ = theirs.Close()
	if err != nil {
		s.lost = err
		return nil, fmt.Errorf("ask the starter: %w", err)
	}
	if n.pid, err = s.started(); err != nil {
		_ = n.tell("stop\n") // in case it is started yet
		return nil, err
	}
	said, err := bufio.NewReaderSize(ours, 16).ReadString('\n')
	switch {
	case err != nil:
		err = fmt.Errorf("wait for the successor, process %d: %w", n.pid, err)
	case said != "ready\n":
		err = fmt.Errorf("the successor, process %d, said %q", n.pid, said)
	case !stop(): // ctx has ended
		err = fmt.Errorf("the successor, process %d, was ready too late", n.pid)
	default:
		return n, nil
	}
	// It is told as well as killed: left alone, it would take the end of its line
	// for our death, and serve.
	_ = n.tell("stop\n")
	return nil, fmt.Errorf("%w; %w", err, s.kill())
}

// request sends the sockets to the starter, the line to the successor first.
func (s *starter) request(line *os.File, sockets []handed) error {
	names := make([]string, len(sockets))
	files := []*os.File{line}
	for i, h := range sockets {
		names[i] = h.name
		files = append(files, h.file)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		// Fd would have reads of the socket block, those of this process as well:
		// its duplicates share that.
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds[i] = int(fd) })
		}
		if err != nil {
			return err
		}
	}
	text := []byte("start " + strings.Join(names, ",") + "\n")
	n, _, err := s.line.WriteMsgUnix(text, syscall.UnixRights(fds...), nil)
	if err == nil && n < len(text) {
		_, err = s.line.Write(text[n:])
	}
	return err
}

// started returns the number of the process that was started.
func (s *starter) started() (pid int, err error) {
	said, err := s.answers.ReadString('\n')
	if err != nil {
		s.lost = err
		return 0, fmt.Errorf("wait for the starter: %w", err)
	}
	word, rest, _ := strings.Cut(strings.TrimSuffix(said, "\n"), " ")
	if word == "failed" {
		return 0, fmt.Errorf("start a successor: %s", rest)
	}
	if pid, err = strconv.Atoi(rest); word != "started" || err != nil {
		return 0, fmt.Errorf("the starter said %q", said)
	}
	return pid, nil
}

// killTime is how long a process may take to die that is killed: one that waits
// for a disk does not before it is back.
const killTime = 5 * time.Second

// stopTime is how long it may take to end by itself, as it is told to, or does
// anyhow: then it shows why.
const stopTime = time.Second

// kill ends a successor that is not to be, and returns what became of it.
func (s *starter) kill() error {
	s.line.SetDeadline(time.Now().Add(killTime))
	var said string
	_, err := s.line.Write([]byte("kill\n"))
	if err == nil {
		said, err = s.answers.ReadString('\n')
	}
	if err != nil {
		s.lost = err
		return fmt.Errorf("have the starter end it: %w", err)
	}
	return errors.New(strings.TrimSpace(said)) // "it has ended: exit status 2"
}

// A successor is the process that takes over, as its predecessor sees it.
type successor struct {
	pid int

	mu   sync.Mutex
	line *net.UnixConn // mu
}

// begin has it serve.
func (n *successor) begin() error { return n.tell("go\n") }

// over tells it that one of our services has come to its end.
func (n *successor) over(service string) error { return n.tell("over " + service + "\n") }

// tellTime is how long the other side may take to read a line.
const tellTime = 5 * time.Second

func (n *successor) tell(text string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.line.SetWriteDeadline(time.Now().Add(tellTime))
	_, err := n.line.Write([]byte(text))
	return err
}

// Close ends the line, which the successor takes for our end.
func (n *successor) Close() error { return n.line.Close() }

// isStarter reports whether this process is a starter, and how to be one.
func isStarter() (run func() (exitCode int), is bool) {
	if os.Getenv(starterVar) == "" || len(os.Args) < 2 || os.Args[0] != starterTitle {
		return nil, false
	}
	return runStarter, true
}

// runStarter starts successors for the server that has started it, until that
// ends.
func runStarter() int {
	// What ends the server is not for us: it is that which ends us. What was to be
	// ignored is left so, for the successors.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	f := os.NewFile(3, "line")
	line, err := lineOf(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, "haul: starter of successors:", err)
		return exitFailed
	}
	_ = f.Close()
	if err := os.Unsetenv(starterVar); err != nil {
		return exitFailed
	}
	exe, err := os.Executable()
	s := &starting{line: line, exe: exe, noExe: err}
	for {
		text, files, err := receiveLine(line)
		if err != nil {
			return 0 // the server has ended
		}
		s.see(text, files)
		for _, f := range files {
			_ = f.Close()
		}
	}
}

// A starting is what a starter knows: of one successor, at most.
type starting struct {
	line  *net.UnixConn
	exe   string
	noExe error

	cmd   *exec.Cmd     // nil if none was started
	ended chan struct{} // closed when it has
}

// see does what a line asks for.
func (s *starting) see(text string, files []*os.File) {
	if names, ok := strings.CutPrefix(text, "start "); ok {
		if pid, err := s.start(names, files); err != nil {
			s.say("failed " + strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			s.say("started " + strconv.Itoa(pid))
		}
		return
	}
	if s.cmd == nil {
		s.say("there is none")
		return
	}
	select {
	case <-s.ended:
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill() // it may have ended just now
		<-s.ended
	}
	s.say("it has ended: " + s.cmd.ProcessState.String())
}

func (s *starting) say(text string) { _, _ = s.line.Write([]byte(text + "\n")) }

func (s *starting) start(names string, files []*os.File) (pid int, err error) {
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
		_ = cmd.Wait() // its state says more
		close(ended)
	}()
	return cmd.Process.Pid, nil
}

// receiveLine returns the next line, without its end, and the files that came
// with it.
func receiveLine(line *net.UnixConn) (text string, files []*os.File, err error) {
	var all []byte
	b := make([]byte, maxLine)
	oob := make([]byte, syscall.CmsgSpace(4*(maxHanded+1)))
	for {
		n, m, _, _, err := line.ReadMsgUnix(b, oob)
		if err == nil && n == 0 {
			err = net.ErrClosed
		}
		if err != nil {
			return "", files, err
		}
		files = append(files, filesBeside(oob[:m])...)
		if all = append(all, b[:n]...); len(all) > maxLine {
			return "", files, errors.New("a line is too long")
		}
		if text, whole := strings.CutSuffix(string(all), "\n"); whole {
			return text, files, nil
		}
	}
}

// filesBeside returns the files in what came beside a line.
func filesBeside(oob []byte) (files []*os.File) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "handed"))
		}
	}
	return files
}

// A predecessor is the process that hands its sockets to this one, as this one
// sees it. Nil is none, and every method of it does nothing.
type predecessor struct {
	line    *net.UnixConn
	heard   *bufio.Scanner
	sockets []handed

	mu    sync.Mutex
	ended map[string]chan struct{} // mu: services by name; closed when they have
	gone  bool                     // mu: so has the whole process
}

// findPredecessor returns the predecessor, if this process was started to
// succeed one. Call it once: it removes from the environment what says so.
func findPredecessor() (*predecessor, error) {
	names, ok := os.LookupEnv(handedVar)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(handedVar); err != nil {
		return nil, err
	}
	// The line first: if that is none, the descriptors behind it are somebody
	// else's.
	f := os.NewFile(firstHanded-1, "line to the predecessor")
	line, err := lineOf(f)
	if err != nil {
		return nil, fmt.Errorf("%s is set, and haul sets it for nobody but its own successor: %w", handedVar, err)
	}
	_ = f.Close()
	p := &predecessor{line: line, heard: bufio.NewScanner(line), ended: map[string]chan struct{}{}}
	for i, name := range strings.Split(names, ",") {
		switch {
		case i == maxHanded:
			_ = p.Close()
			return nil, fmt.Errorf("%s names more than %d sockets", handedVar, maxHanded)
		case name == "":
			continue
		}
		syscall.CloseOnExec(firstHanded + i)
		p.sockets = append(p.sockets, handed{name, os.NewFile(uintptr(firstHanded+i), name+" of the predecessor")})
	}
	return p, nil
}

// take returns the sockets. The caller closes them.
func (p *predecessor) take() []handed {
	if p == nil {
		return nil
	}
	all := p.sockets
	p.sockets = nil
	return all
}

// ready says that this process could serve, and waits until it is to.
func (p *predecessor) ready(ctx context.Context) error {
	if p == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { p.line.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := p.line.Write([]byte("ready\n")); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the predecessor does not wait for us: %w", err)
	}
	// If it has died meanwhile, there is nobody to serve but us.
	if p.heard.Scan() && p.heard.Text() != "go" && ctx.Err() == nil {
		return errors.New("the predecessor serves on")
	}
	go p.listen()
	return nil
}

// listen hears which services of the predecessor have ended, until it has
// itself.
func (p *predecessor) listen() {
	for p.heard.Scan() {
		if service, ok := strings.CutPrefix(p.heard.Text(), "over "); ok {
			p.mu.Lock()
			closeOnce(p.service(service))
			p.mu.Unlock()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for _, c := range p.ended {
		closeOnce(c)
	}
}

// service returns what is closed when a service has ended. The caller holds mu.
func (p *predecessor) service(name string) chan struct{} {
	c := p.ended[name]
	if c == nil {
		c = make(chan struct{})
		p.ended[name] = c
	}
	return c
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// wait waits until a service of the predecessor has ended, or ctx has.
func (p *predecessor) wait(ctx context.Context, name string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	c := p.service(name)
	if p.gone {
		closeOnce(c)
	}
	p.mu.Unlock()
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// Close ends the line, and closes the sockets that nobody has taken.
func (p *predecessor) Close() error {
	if p == nil {
		return nil
	}
	closeHanded(p.sockets)
	return p.line.Close()
}
