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

// The bounds of a program that asks.
const (
	askpassTime = 5 * time.Minute // for an answer; sshd has ended a login before
	askpassEnd  = time.Second     // for what still holds its output when it has ended
)

// askpass returns the program that is to ask instead of the terminal, and
// whether it comes before that: SSH_ASKPASS, as SSH_ASKPASS_REQUIRE says. See
// ssh(1), whose rules these are: a program that asks in a window needs a
// display, unless it is forced.
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

// askProgram has a program ask, which gets the question as its argument. Its
// answer is the first line that it prints; if it fails there is none.
func askProgram(ctx context.Context, program, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askpassTime)
	defer cancel()
	var answer boundedAnswer
	cmd := exec.CommandContext(ctx, program, text)
	cmd.Stdout, cmd.Stderr = &answer, os.Stderr // standard input may carry a file
	cmd.WaitDelay = askpassEnd
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended well, and left something running
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

// A boundedAnswer keeps what a program prints, and takes no more than maxAnswer
// bytes.
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
