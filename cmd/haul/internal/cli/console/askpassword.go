package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// ErrNoTerminal is the error of [AskPassword] if there is no terminal.
var ErrNoTerminal = errors.New("there is no terminal to ask for a password")

// AskPassword reads a password from a terminal without showing it. If ctx ends first, it restores
// the terminal.
func AskPassword(ctx context.Context, in *os.File, out io.Writer, prompt string) ([]byte, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, ErrNoTerminal
	}
	fmt.Fprint(out, prompt)
	defer fmt.Fprintln(out)
	type answer struct {
		password []byte
		err      error
	}
	typed := make(chan answer, 1)
	go func() { // if nothing is typed, the goroutine stays blocked until the process exits
		password, err := term.ReadPassword(fd)
		typed <- answer{password, err}
	}()
	select {
	case a := <-typed:
		if a.err != nil {
			return nil, fmt.Errorf("ask for a password: %w", a.err)
		}
		return a.password, nil
	case <-ctx.Done():
		_ = term.Restore(fd, before) // if this fails, there is nothing else to try
		return nil, ctx.Err()
	}
}
