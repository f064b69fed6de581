//go:build unix

package handover

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
)

// A Spawner is the server's connection to its spawner, the process that starts children.
type Spawner struct {
	line    *net.UnixConn
	answers *bufio.Reader
	init    bool          // the spawner is process 1
	ended   chan struct{} // closed when the spawner has exited; nil if it is process 1
	lost    error         // set once a request got no answer: a later answer could belong to it, so no more requests are sent
}

// FindSpawner returns the spawner that started this process, if that spawner is process 1, and nil
// otherwise. If wanted is set, and this process is process 1 itself, it becomes a spawner: it
// starts this program again, and does not return. Call FindSpawner once, before anything is open,
// since it removes the spawner's variables from the environment.
func FindSpawner(wanted bool) (*Spawner, error) {
	text, ok := os.LookupEnv(lineVar)
	if !ok {
		if wanted && os.Getpid() == 1 {
			return nil, becomeSpawner()
		}
		return nil, nil
	}
	if err := os.Unsetenv(lineVar); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%s is set, and haul sets it for its own successor only", lineVar, text)
	}
	// These variables still contain the ID of process 1, because systemd started that process.
	for _, name := range []string{"LISTEN_PID", "WATCHDOG_PID"} {
		if os.Getenv(name) == "1" {
			if err := os.Setenv(name, strconv.Itoa(os.Getpid())); err != nil {
				return nil, err
			}
		}
	}
	f := os.NewFile(uintptr(fd), "line to process 1")
	defer f.Close()
	line, err := fdline.Of(f)
	if err != nil {
		return nil, err
	}
	return newSpawner(line, true), nil
}

// becomeSpawner makes this process a spawner. If it succeeds, it does not return.
func becomeSpawner() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	err = syscall.Exec(exe, append([]string{spawnerTitle}, os.Args...), append(os.Environ(), spawnerVar+"=1"))
	return os.NewSyscallError("execve", err)
}

func newSpawner(line *net.UnixConn, isInit bool) *Spawner {
	return &Spawner{line: line, answers: bufio.NewReaderSize(line, maxAnswer), init: isInit}
}

// maxAnswer is the size of the buffer for a spawner's answers, in bytes.
const maxAnswer = 8 << 10

// StartSpawner starts a spawner. env is the environment of the spawner's children. The spawner
// keeps all rights that this process has now, and exits when this process does. The error is
// [ErrNoRestart] on systems without spawners.
func StartSpawner(env []string) (*Spawner, error) {
	ours, theirs, err := fdline.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	exe, err := os.Executable()
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	cmd := exec.Command(exe)
	// Lists of processes show spawnerTitle. After it come the arguments of the children, beginning
	// with the name of this program.
	cmd.Args = append([]string{spawnerTitle}, os.Args...)
	cmd.Env = append(spawnerEnv(env), spawnerVar+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // the children inherit them
	if err := cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, err
	}
	s := newSpawner(ours, false)
	s.ended = make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit status does not matter; the closed channel shows that the spawner has exited
		close(s.ended)
	}()
	return s, nil
}

// IsInit reports whether the spawner is process 1. In that case process 1, and not this process, is
// the main process for the service manager.
func (s *Spawner) IsInit() bool { return s != nil && s.init }

// gone returns a channel that is closed when the spawner has exited. It returns nil if there is no
// spawner, or if the spawner is process 1, which this process cannot outlive.
func (s *Spawner) gone() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.ended
}

// Serving reports to process 1, if that is the spawner, that this process serves. From then on
// process 1 passes signals on to this process.
func (s *Spawner) Serving() {
	if s.IsInit() {
		s.line.SetWriteDeadline(time.Now().Add(writeTime))
		_ = say(s.line, wordServing)
		s.line.SetWriteDeadline(time.Time{})
	}
}

const (
	spawnerVar = "HAUL_STARTER"

	// lineVar is the variable that holds the descriptor of the line to the spawner, in a child of
	// process 1.
	lineVar = "HAUL_SPAWNER"

	spawnerTitle = "haul: starts successors of"
)

// spawnerEnv removes the variables that are only for this process: those for systemd's sockets and
// watchdog, and those of this package.
func spawnerEnv(env []string) (kept []string) {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "WATCHDOG_PID", handedVar, spawnerVar, lineVar:
		default:
			kept = append(kept, v)
		}
	}
	return kept
}

// Close makes the spawner exit. The spawner's children continue.
func (s *Spawner) Close() error {
	if s == nil {
		return nil
	}
	return s.line.Close()
}

// start starts a child with the sockets, and waits until the child is ready to serve. If ctx ends
// first, start kills the child.
func (s *Spawner) start(ctx context.Context, sockets []Socket) (_ *child, err error) {
	select {
	case <-s.gone():
		return nil, errSpawnerGone
	default:
	}
	if s.lost != nil {
		return nil, fmt.Errorf("the process that starts successors no longer answers: %w", s.lost)
	}
	var names []string
	for _, h := range sockets {
		names = append(names, h.name())
	}
	text := wordStart + " " + strings.Join(names, ",") + "\n"
	if len(text) > fdline.MaxLine {
		return nil, fmt.Errorf("hand over %d sockets: their addresses have %d bytes, more than %d", len(sockets), len(text), fdline.MaxLine)
	}
	ours, theirs, err := fdline.Pair()
	if err != nil {
		return nil, err
	}
	// When ctx ends, a deadline in the past interrupts all waits.
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		ours.SetDeadline(time.Unix(1, 0))
		s.line.SetDeadline(time.Unix(1, 0))
	})
	// late reports whether ctx ended before the first call of late. After that call, ctx no longer
	// changes the deadlines.
	late := sync.OnceValue(func() bool {
		if stop() {
			return false
		}
		<-cut
		return true
	})
	n := &child{line: ours, lines: bufio.NewReader(io.LimitReader(ours, fdline.MaxLine))}
	defer func() {
		late()
		s.line.SetDeadline(time.Time{})
		if err != nil {
			_ = n.Close()
			if cause := context.Cause(ctx); cause != nil {
				err = fmt.Errorf("%w: %w", cause, err)
			}
		}
	}()
	err = s.request(text, theirs, sockets)
	_ = theirs.Close()
	if err != nil {
		s.lost = err
		return nil, fmt.Errorf("ask the process that starts successors: %w", err)
	}
	if n.pid, err = s.started(); err != nil {
		late()
		_ = n.write(wordStop) // the child may have started, although no answer arrived
		return nil, err
	}
	err = n.hear(wordReady)
	if late() && err == nil {
		err = errors.New("it was ready too late")
	}
	if err != nil {
		return nil, s.discard(n, err)
	}
	return n, nil
}

// begin allows the child to serve, and waits until the child reports that it serves. If there is no
// such report, begin kills the child. Otherwise this process needs no further child, and the
// spawner exits.
func (s *Spawner) begin(ctx context.Context, n *child) error {
	defer context.AfterFunc(ctx, func() { n.line.SetReadDeadline(time.Unix(1, 0)) })()
	err := n.write(wordGo)
	if err == nil {
		err = n.hear(wordServing)
	}
	if err != nil {
		defer n.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return s.discard(n, err)
	}
	if s.init {
		s.handedOver()
	}
	s.release()
	return nil
}

// handedOver reports to process 1 that the newest child takes over, and waits until process 1
// passes signals to that child. Without the wait, a signal could reach this process while it exits,
// and be lost.
func (s *Spawner) handedOver() {
	s.line.SetDeadline(time.Now().Add(writeTime))
	defer s.line.SetDeadline(time.Time{})
	err := say(s.line, wordHandedOver)
	if err == nil {
		_, err = s.answers.ReadString('\n')
	}
	s.lost = err // an error is not returned, because the child takes over anyway
}

// release makes the spawner exit after its child has begun to serve, unless the spawner is process
// 1. Process 1 then becomes the parent of the child. This matters if process 1 is systemd, because
// systemd notices only the death of its own children. Without release, the child could die
// unnoticed as long as this process lives.
func (s *Spawner) release() {
	if s.init {
		return
	}
	_ = s.Close()
	select {
	case <-s.ended:
	case <-time.After(killTime):
	}
}

// discard stops a child that has failed. Without the word "stop", the child would conclude from its
// closed line that this process has died, and would serve.
func (s *Spawner) discard(n *child, err error) error {
	_ = n.write(wordStop)
	return fmt.Errorf("the successor, process %d: %w; %w", n.pid, err, s.kill())
}

// request sends a request to the spawner, with descriptors attached: first the child's end of the
// line, then the sockets.
func (s *Spawner) request(text string, line *os.File, sockets []Socket) error {
	files := []*os.File{line}
	for _, h := range sockets {
		files = append(files, h.File)
	}
	return fdline.Send(s.line, text, files)
}

// started reads the spawner's answer to a request, and returns the process ID of the new child.
func (s *Spawner) started() (pid int, err error) {
	said, err := s.answers.ReadString('\n')
	if err != nil {
		s.lost = err
		return 0, fmt.Errorf("wait for the process that starts successors: %w", err)
	}
	word, rest, _ := strings.Cut(strings.TrimSuffix(said, "\n"), " ")
	if word == wordFailed {
		return 0, fmt.Errorf("start a successor: %s", rest)
	}
	if pid, err = strconv.Atoi(rest); word != wordStarted || err != nil {
		return 0, fmt.Errorf("the process that starts successors said %q", said)
	}
	return pid, nil
}

// killTime is how long a killed process may take to die. A process that waits for a disk dies only
// when the disk responds again.
const killTime = 5 * time.Second

// stopTime is how long a child may take to exit by itself before it is killed. If it exits by
// itself, its exit status shows the reason.
const stopTime = time.Second

// kill makes the spawner kill a child that has failed. It returns the child's exit status as an
// error.
func (s *Spawner) kill() error {
	s.line.SetDeadline(time.Now().Add(killTime))
	defer s.line.SetDeadline(time.Time{})
	var said string
	err := say(s.line, wordKill)
	if err == nil {
		said, err = s.answers.ReadString('\n')
	}
	if err != nil {
		s.lost = err
		return fmt.Errorf("have it killed: %w", err)
	}
	return errors.New(strings.TrimSpace(said)) // for example "it has ended: exit status 2"
}

// A child is the server's connection to the process that takes over.
type child struct {
	pid   int
	lines *bufio.Reader // reads the lines of text from `line`; not used once the child serves

	mu   sync.Mutex
	line *net.UnixConn // mu guards writes to it
	torn bool          // the latest line of text was written only in part; guarded by mu
}

// hear waits for the next word from the child. It returns an error if that is not the expected
// word.
func (n *child) hear(word string) error {
	said, err := n.lines.ReadString('\n')
	said = strings.TrimSuffix(said, "\n")
	switch text, failed := strings.CutPrefix(said, wordFailed+" "); {
	case failed:
		return errors.New(text)
	case err != nil:
		return fmt.Errorf("wait for it: %w", err)
	case said != word:
		return fmt.Errorf("it said %q", said)
	}
	return nil
}

// again asks the child to start a successor of its own. It is used for a request that reached this
// process after the child had taken over.
func (n *child) again() error { return n.write(wordAgain) }

// ended reports to the child that a service of this process has ended.
func (n *child) ended(service string) error { return n.write(wordOver + " " + service) }

// historyChunk is the number of bytes of a history that one line carries. An older version of haul
// that does not know histories can buffer a line of this length, and skips it.
const historyChunk = 24 << 10

// remember sends a history to the child, as several lines. A line without a chunk marks the end of
// the history.
func (n *child) remember(history []byte) error {
	if len(history) == 0 || len(history) > MaxHistory {
		return nil
	}
	for chunk := range slices.Chunk(history, historyChunk) {
		if err := n.write(wordHistory + " " + base64.StdEncoding.EncodeToString(chunk)); err != nil {
			return err
		}
	}
	return n.write(wordHistory)
}

// write sends a line of text. If the previous line was sent only in part, write first ends that
// line.
func (n *child) write(text string) error {
	text += "\n"
	n.mu.Lock()
	defer n.mu.Unlock()
	n.line.SetWriteDeadline(time.Now().Add(writeTime))
	if n.torn {
		text = "\n" + text
	}
	sent, err := n.line.Write([]byte(text))
	n.torn = n.torn && sent == 0 || sent > 0 && sent < len(text)
	return err
}

// Close closes the line. The child concludes from it that this process has ended.
func (n *child) Close() error { return n.line.Close() }
