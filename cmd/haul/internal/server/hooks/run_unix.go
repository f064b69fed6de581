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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

const (
	// maxOutput is how many bytes of a failed program's output are reported, from the end of the
	// output. The bytes before them are read and dropped.
	maxOutput = 1 << 10

	// maxError is how many bytes of an error are reported. For a post, the error contains the
	// receiver's answer.
	maxError = 2 * maxOutput

	// outputTime is how long output is still read after the program has exited. The limit is needed
	// because a process that left the program's group may keep the pipe open.
	outputTime = time.Second

	// killTime is how long a killed program may take to exit. A program that waits for a disk or a
	// file server may take longer, or never exit.
	killTime = 5 * time.Second

	// maxStuck is the maximum number of programs that are stuck, that is, were killed and have not
	// exited. While there are so many, no other program is started.
	maxStuck = 16

	// After a program was killed, haul checks repeatedly whether its processes still exist. The
	// first pause between two checks is firstLook. Each further pause is twice as long, up to
	// lookEvery.
	firstLook, lookEvery = time.Millisecond, time.Second
)

// A runner runs hooks. All lines to the server share one runner.
type runner struct {
	setup
	killTime time.Duration             // the constant killTime, or less in a test
	wait     func(cmd *exec.Cmd) error // waits until a program has exited; tests replace it
	stuck    atomic.Int64              // number of programs that were killed and have not exited
}

// runHelper runs hooks for the server until the server closes the lines.
func runHelper() int {
	keepSignals()
	closeInPrograms()
	err := privilege.Hide() // call this before the process reads the keys of hooks
	r := &runner{killTime: killTime, wait: (*exec.Cmd).Wait}
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(&r.setup)
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
		running.Go(func() { r.serve(line) })
	}
	running.Wait()
	return 0
}

// serve runs the hooks that the server asks for on a line, until the server closes the line.
func (r *runner) serve(line net.Conn) {
	// The kernel kills a program when the thread that started it ends: see programAttr.
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
		if err := json.Unmarshal(text, &o); err == nil && o.Hook >= 0 && o.Hook < len(r.Hooks) {
			result = r.do(o)
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

// do runs the hook that an order names, and returns the outcome.
func (r *runner) do(o order) outcome {
	h := &r.Hooks[o.Hook]
	var err error
	if h.URL != "" {
		err = post(h.timeout(), h.URL, r.Keys[o.Hook], o.Event)
	} else {
		err = r.runProgram(h, o)
	}
	if err == nil {
		return outcome{Result: "done"}
	}
	said := err.Error()
	said = said[:min(len(said), maxError)]
	switch {
	case errors.Is(err, errStuck):
		return outcome{"stuck", said}
	case errors.Is(err, context.DeadlineExceeded):
		return outcome{"timeout", fmt.Sprintf("it has not ended in %v: %s", h.timeout(), said)}
	}
	return outcome{"failed", said}
}

// errStuck reports that a program was killed and has not exited within killTime.
var errStuck = fmt.Errorf("its processes were killed, and %v later not all of them have ended", killTime)

// runProgram runs a program in its own process group. When the program exits, runProgram kills the
// rest of the group.
func (r *runner) runProgram(h *Hook, o order) error {
	if n := r.stuck.Load(); n >= maxStuck {
		return fmt.Errorf("it was not begun, since %d programs before it were killed and have not ended; look for processes in state D, and for the disk or the file server that they wait for", n)
	}
	cmd := exec.Command(h.Run[0], h.Run[1:]...)
	cmd.Dir, cmd.SysProcAttr = programDir, programAttr()
	cmd.Env = slices.Concat(r.Env, o.Variables.Environ())
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
	// Pass files, so that Wait waits only for the program. With other readers and writers, Wait
	// would also wait for every process that has the pipes open.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, output, output
	err = cmd.Start()
	_, _ = stdin.Close(), output.Close()
	if err != nil {
		return err
	}
	go func() {
		_, _ = event.Write(o.Event) // this fails if the program does not read the event, which is allowed
		_ = event.Close()
	}()
	last := make(chan string, 1)
	go func() { last <- readLast(said) }()
	err = r.await(cmd, h.timeout())
	_ = said.SetReadDeadline(time.Now().Add(outputTime))
	text := strings.TrimSpace(<-last)
	if err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// await waits until a program has exited, or kills it at its time limit. After that it kills the
// processes that the program has left running.
func (r *runner) await(cmd *exec.Cmd, limit time.Duration) error {
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = r.wait(cmd)
	}()
	group := cmd.Process.Pid
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	killed := false
	select {
	case <-ended:
		err = result
	case <-timer.C:
		err, killed = context.DeadlineExceeded, true
	}
	if syscall.Kill(-group, syscall.SIGKILL) != nil && !killed {
		return err // the process group does not exist any more
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		<-ended
		for pause := firstLook; syscall.Kill(-group, 0) == nil; pause = min(2*pause, lookEvery) {
			time.Sleep(pause)
		}
	}()
	select {
	case <-gone:
		return err
	case <-time.After(r.killTime):
	}
	r.stuck.Add(1)
	go func() {
		<-gone
		r.stuck.Add(-1)
	}()
	return errStuck
}

// readLast reads r to the end of the data, and returns the last maxOutput bytes.
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
