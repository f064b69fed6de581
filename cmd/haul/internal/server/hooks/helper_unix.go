//go:build unix

package hooks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// restartWait is how long the supervisor waits before it starts another helper.
const restartWait = time.Second

// IsHelper reports whether haul started this process to run hooks, as a supervisor or a helper. If
// it did, run does the work of that process.
func IsHelper() (run func() (exitCode int), is bool) {
	switch {
	case len(os.Args) != 1:
	case os.Getenv(roleVar) == supervisorRole && os.Args[0] == supervisorTitle:
		return runSupervisor, true
	case os.Getenv(roleVar) == helperRole && os.Args[0] == helperTitle:
		return runHelper, true
	}
	return nil, false
}

// checkProgram returns an error if the file at a path is missing or is not an executable program.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		if of, ok := errors.AsType[*os.PathError](err); ok {
			err = of.Err // leave out the operation, stat, and the path
		}
		return fmt.Errorf("%s: %w", path, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x %[1]s", path)
	}
	return nil
}

// A helper is the server's connection to the supervisor, which starts the helper processes.
type helper struct {
	line    *net.UnixConn
	started int // number of helper processes that the supervisor has started so far
}

// startHelper starts the supervisor. After that, next returns the lines to its first helper.
func startHelper(s setup, env []string) (*helper, error) {
	ours, theirs, err := fdline.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	h := &helper{line: ours}
	s.Env = programEnv(env, s.User == nil)
	text, err := json.Marshal(s)
	if err != nil {
		return h, err
	}
	cmd, err := newCommand(supervisorRole, supervisorTitle, env)
	if err != nil {
		return h, err
	}
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(text), []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		return h, err
	}
	// The exit status does not matter: the server notices the exit of the supervisor by the closed
	// line.
	go func() { _ = cmd.Wait() }()
	return h, nil
}

// next waits for the lines to the next helper process. If limit is above 0, it waits at most that
// long. number identifies the helper process, for kill. An error that wraps errNoLines concerns only
// this helper process; the next one may work.
func (h *helper) next(limit time.Duration) (lines [maxRunning]net.Conn, number int, err error) {
	if limit > 0 {
		_ = h.line.SetReadDeadline(time.Now().Add(limit))
		defer h.line.SetReadDeadline(time.Time{})
	}
	text, files, err := fdline.Receive(h.line)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		return lines, 0, err
	}
	if why, failed := strings.CutPrefix(text, "failed "); failed {
		return lines, 0, errors.New(why)
	}
	h.started++
	if len(files) != len(lines) {
		err = fmt.Errorf("%d of %d have arrived; this process may have too many open files", len(files), len(lines))
	}
	for i := 0; err == nil && i < len(lines); i++ {
		lines[i], err = fdline.Of(files[i])
	}
	if err != nil {
		for _, c := range lines {
			if c != nil {
				_ = c.Close()
			}
		}
		err = fmt.Errorf("%w: %w", errNoLines, err)
	}
	return lines, h.started, err
}

// kill asks the supervisor to kill the helper process with this number, unless it was replaced
// already. The supervisor then starts another helper process.
func (h *helper) kill(number int) {
	_ = h.line.SetWriteDeadline(time.Now().Add(killTime))
	_, _ = fmt.Fprintln(h.line, number) // this fails only if the supervisor has exited or hangs
}

// close makes the supervisor exit. Then the helper process exits too, once the running hooks have
// ended.
func (h *helper) close() {
	if h != nil {
		_ = h.line.Close()
	}
}

// runSupervisor does the work of the supervisor: it starts helpers until the server exits.
func runSupervisor() int {
	keepSignals()
	closeInPrograms()
	file := os.NewFile(firstLine, "line")
	line, err := fdline.Of(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "haul: keep the helper for hooks running:", err)
		return 1
	}
	_ = file.Close()
	var text []byte
	if err = privilege.Hide(); err == nil {
		text, err = io.ReadAll(os.Stdin)
	}
	if err == nil {
		err = supervise(line, text)
	}
	if err != nil {
		_ = fdline.Send(line, "failed "+strings.ReplaceAll(err.Error(), "\n", " ")+"\n", nil)
		return 1
	}
	return 0
}

// supervise gives up the rights of this process, and starts helpers until the server closes the
// line. It returns an error if the first helper cannot be started. If a later helper cannot be
// started, it tries again.
func supervise(line *net.UnixConn, text []byte) error {
	var s setup
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	err := privilege.DropCapabilities
	if s.User != nil {
		err = func() error { return privilege.Drop(*s.User) }
	}
	if err := err(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	ended := make(chan struct{})
	var now current
	go func() {
		defer close(ended)
		for said := bufio.NewScanner(line); said.Scan(); {
			now.kill(said.Text())
		}
	}()
	adoptOrphans()
	for first := true; ; first = false {
		p, err := startOne(line, text)
		if err == nil {
			now.set(p)
			waitFor(p.Pid)
			now.set(nil)
		} else if first {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-time.After(restartWait):
		}
		if isClosed(ended) {
			return nil
		}
	}
}

// current holds the helper process that is running, if any.
type current struct {
	mu      sync.Mutex
	process *os.Process // nil if no helper runs; guarded by mu
	started int         // number of helpers started so far; guarded by mu
}

func (c *current) set(p *os.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process = p; p != nil {
		c.started++
	}
}

// kill kills the current helper if that helper has this number. A late request for an earlier
// helper does nothing.
func (c *current) kill(number string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil && number == strconv.Itoa(c.started) {
		_ = c.process.Kill() // an error would mean that the helper has exited already
	}
}

// waitFor waits until a child has exited, for whatever reason. Meanwhile it reaps orphans.
func waitFor(child int) {
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if pid == child || err != nil && err != syscall.EINTR {
			return
		}
	}
}

// startOne starts a helper. It creates the lines between the helper and the server, and sends the
// server's ends to the server.
func startOne(line *net.UnixConn, text []byte) (*os.Process, error) {
	cmd, err := newCommand(helperRole, helperTitle, os.Environ())
	if err != nil {
		return nil, err
	}
	var server []*os.File
	defer func() {
		for _, f := range append(server, cmd.ExtraFiles...) {
			_ = f.Close()
		}
	}()
	for range maxRunning {
		ours, theirs, err := fdline.Pair()
		if err != nil {
			return nil, err
		}
		f, err := ours.File()
		_ = ours.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
		if err != nil {
			return nil, err
		}
		server = append(server, f)
	}
	cmd.Stdin = bytes.NewReader(text)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := fdline.Send(line, "helper\n", server); err != nil && !errors.Is(err, syscall.EPIPE) {
		_ = cmd.Process.Kill()
		waitFor(cmd.Process.Pid)
		return nil, err
	}
	return cmd.Process, nil
}
