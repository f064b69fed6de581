package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// maxAnswer is the maximum length of an answer that a user types, in bytes.
const maxAnswer = 4 << 10

// These constants limit how long haul waits for a program that asks the user.
const (
	askpassTime = 5 * time.Minute // limit for the answer; sshd's own time limit for a login is shorter
	askpassEnd  = time.Second     // limit for processes that keep the output open after the program has exited
)

// askpass returns the program that asks the user. first reports whether the program is used even if
// there is a terminal. askpass interprets SSH_ASKPASS and SSH_ASKPASS_REQUIRE as ssh(1) does: without
// a display, on which the program could open a window, it is used only if SSH_ASKPASS_REQUIRE is
// "force".
func askpass() (program string, first bool) {
	display := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	program = os.Getenv("SSH_ASKPASS")
	switch strings.ToLower(os.Getenv("SSH_ASKPASS_REQUIRE")) {
	case "force":
		return program, program != ""
	case "prefer":
		first = display && program != ""
	case "never":
		return "", false
	}
	if !display {
		return "", false
	}
	return program, first
}

// askProgram runs a program with the question as its argument. The answer is the first line that
// the program prints. If the program fails, askProgram returns an error.
func askProgram(ctx context.Context, program, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askpassTime)
	defer cancel()
	var answer boundedAnswer
	cmd := exec.CommandContext(ctx, program, text)
	cmd.Stdout, cmd.Stderr = &answer, os.Stderr // no standard input, which may carry a file
	cmd.WaitDelay = askpassEnd
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the program itself succeeded; a process that it left behind keeps the output open
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if answer.over {
		err = errTooLong
	}
	if err != nil {
		return "", fmt.Errorf("no answer from SSH_ASKPASS, which is %s: %w", console.Visible(program), err)
	}
	line, _, _ := bytes.Cut(answer.text, []byte("\n"))
	return string(bytes.TrimSuffix(line, []byte("\r"))), nil
}

var errTooLong = errors.New("that is too long")

// A boundedAnswer stores at most maxAnswer bytes of a program's output.
type boundedAnswer struct {
	text []byte
	over bool
}

func (b *boundedAnswer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > maxAnswer {
		b.over = true
		return 0, errTooLong
	}
	b.text = append(b.text, p...)
	return len(p), nil
}
