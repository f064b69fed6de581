//go:build unix

package hooks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/fdline"
	"github.com/haul-project/haul/internal/privilege"
)

const (
	// maxOutput is how much of what a program prints is reported if it fails, in bytes: the
	// last of it. The rest is read and dropped.
	maxOutput = 1 << 10

	// outputTime is how long the output of a program is read once it has ended, if a process
	// that has left its group holds it.
	outputTime = time.Second
)

// runHelper runs hooks for the server until that ends.
func runHelper() int {
	keepSignals()
	closeInPrograms()
	err := privilege.Hide() // before it knows a key
	var s setup
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(&s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "haul: run hooks:", err)
		return 1
	}
	var running sync.WaitGroup
	for i := range maxRunning {
		f := os.NewFile(uintptr(firstLine+i), "line")
		line, err := fdline.Of(f)
		_ = f.Close()
		if err != nil {
			fmt.Fprintln(os.Stderr, "haul: run hooks:", err)
			return 1
		}
		running.Go(func() { s.serve(line) })
	}
	running.Wait()
	return 0
}

// serve carries out the orders of a line until it ends.
func (s *setup) serve(line net.Conn) {
	// The kernel ends a program with the thread that has started it: see programAttr.
	runtime.LockOSThread()
	defer line.Close()
	lines := bufio.NewReaderSize(line, maxLine)
	for {
		text, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		var o order
		result := outcome{Result: "failed", Error: "the order makes no sense"}
		if err := json.Unmarshal(text, &o); err == nil && o.Hook >= 0 && o.Hook < len(s.Hooks) {
			result = s.do(o)
		}
		answer, err := json.Marshal(result)
		if err == nil {
			_, err = line.Write(append(answer, '\n'))
		}
		if err != nil {
			return
		}
	}
}

// do runs a hook.
func (s *setup) do(o order) outcome {
	h := &s.Hooks[o.Hook]
	var err error
	if h.URL != "" {
		err = post(h.timeout(), h.URL, s.Keys[o.Hook], o.Event)
	} else {
		err = s.runProgram(h, o)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return outcome{"timeout", fmt.Sprintf("it has not ended in %v: %v", h.timeout(), err)}
	case err != nil:
		return outcome{"failed", err.Error()}
	}
	return outcome{Result: "done"}
}

// runProgram runs a program in a process group of its own, which ends with it.
func (s *setup) runProgram(h *Hook, o order) error {
	ctx, stop := context.WithTimeout(context.Background(), h.timeout())
	defer stop()
	cmd := exec.Command(h.Run[0], h.Run[1:]...)
	cmd.Dir, cmd.SysProcAttr = "/", programAttr()
	cmd.Env = append(cmd.Env, s.Env...)
	for _, v := range o.Variables {
		cmd.Env = append(cmd.Env, string(v))
	}
	stdin, event, err := os.Pipe()
	if err != nil {
		return err
	}
	defer event.Close()
	said, output, err := os.Pipe()
	if err != nil {
		_ = stdin.Close()
		return err
	}
	defer said.Close()
	// Files, so that Wait waits for the program alone, not for others that hold them.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, output, output
	err = cmd.Start()
	_, _ = stdin.Close(), output.Close()
	if err != nil {
		return err
	}
	go func() {
		_, _ = event.Write(o.Event) // a program need not read it
		_ = event.Close()
	}()
	last := make(chan string, 1)
	go func() { last <- readLast(said) }()
	group := cmd.Process.Pid
	unwatch := context.AfterFunc(ctx, func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	err = cmd.Wait()
	if !unwatch() {
		err = ctx.Err()
	}
	_ = syscall.Kill(-group, syscall.SIGKILL) // what it has left running
	_ = said.SetReadDeadline(time.Now().Add(outputTime))
	text := strings.TrimSpace(<-last)
	if err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// readLast reads all, and returns the last of it.
func readLast(r io.Reader) string {
	var kept []byte
	piece := make([]byte, 32<<10)
	for {
		n, err := r.Read(piece)
		kept = append(kept, piece[:n]...)
		kept = kept[max(0, len(kept)-maxOutput):]
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return strings.ToValidUTF8(string(kept), "\ufffd")
		}
	}
}
