package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
)

// maxUnclear is the maximum number of times that a question is asked while the answer is neither yes
// nor no. There must be a maximum, because a program that answers may always give the same answer.
const maxUnclear = 3

// errNoTerminal says that there is no user to ask. It makes openssh continue with methods that need
// no answer.
var errNoTerminal = fmt.Errorf("%w: there is no terminal", openssh.ErrBatch)

// An asker asks the user on the terminal. It does not use standard input and output, which may
// carry a file. The program that SSH_ASKPASS names asks instead if there is no terminal, or if
// SSH_ASKPASS_REQUIRE demands that. An asker is an [openssh.Prompter], so only one of its questions
// is open at a time.
type asker struct {
	mu      sync.Mutex
	restore func() // guarded by mu: makes the terminal show typed characters again; nil if no question is open
	ended   bool   // guarded by mu: no more questions may be asked

	asking func() (done func()) // called before each question: see Config.Asking
}

// end cancels an open question, and makes the terminal show typed characters again.
func (a *asker) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.restore != nil {
		a.restore()
		a.restore = nil
	}
}

// Password implements [openssh.Prompter].
func (a *asker) Password(ctx context.Context, user, host string) (string, error) {
	return a.ask(ctx, fmt.Sprintf("Password of %s@%s: ", user, host), false)
}

// Passphrase implements [openssh.Prompter].
func (a *asker) Passphrase(ctx context.Context, keyFile string) (string, error) {
	return a.ask(ctx, fmt.Sprintf("Passphrase of the key %s (empty to do without it): ", console.Visible(keyFile)), false)
}

// Confirm implements [openssh.Prompter].
func (a *asker) Confirm(ctx context.Context, text string) (bool, error) {
	prompt := text + " (yes/no) "
	for range maxUnclear {
		answer, err := a.ask(ctx, prompt, true)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "yes", "y":
			return true, nil
		case "no", "n":
			return false, nil
		}
		prompt = `Please write "yes" or "no": `
	}
	return false, errors.New("the answer was neither yes nor no")
}

// KeyboardInteractive implements [openssh.Prompter].
func (a *asker) KeyboardInteractive(ctx context.Context, c openssh.Challenge) ([]string, error) {
	// Without this line, the server's words could claim to come from somebody else.
	head := fmt.Sprintf("%s@%s asks:\n", c.User, c.Host)
	for _, text := range []string{c.Name, c.Instruction} {
		if text = strings.TrimSpace(text); text != "" {
			head += text + "\n"
		}
	}
	var answers []string
	for _, q := range c.Questions {
		answer, err := a.ask(ctx, head+strings.TrimRight(q.Text, " ")+" ", q.Echo)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
		head = ""
	}
	return answers, nil
}

// ask shows a prompt and returns the line that the user types, or the answer of the SSH_ASKPASS
// program.
func (a *asker) ask(ctx context.Context, text string, echo bool) (string, error) {
	program, first := askpass()
	if first {
		return askProgram(ctx, program, text)
	}
	if a.asking != nil {
		defer a.asking()()
	}
	in, out, err := openTerminal()
	if err != nil && program != "" {
		return askProgram(ctx, program, text)
	}
	if err != nil {
		return "", errNoTerminal
	}
	state, err := term.GetState(int(in.Fd()))
	if err != nil {
		return "", errors.Join(errNoTerminal, in.Close(), out.Close())
	}
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return "", errors.Join(errNoTerminal, in.Close(), out.Close())
	}
	a.restore = func() {
		_ = term.Restore(int(in.Fd()), state)
		fmt.Fprintln(out)
	}
	a.mu.Unlock()

	type typed struct {
		line string
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		var t typed
		if _, t.err = io.WriteString(out, text); t.err == nil && echo {
			t.line, t.err = readLine(in)
		} else if t.err == nil {
			var secret []byte
			secret, t.err = term.ReadPassword(int(in.Fd()))
			t.line = string(secret)
			fmt.Fprintln(out) // because the terminal has not shown the line break that the user typed
		}
		done <- t
	}()
	select {
	case t := <-done:
		a.mu.Lock()
		a.restore = nil
		a.mu.Unlock()
		if err := errors.Join(in.Close(), out.Close()); t.err == nil {
			t.err = err
		}
		if t.err != nil {
			return "", fmt.Errorf("no answer from the terminal: %w", t.err)
		}
		return t.line, nil
	case <-ctx.Done():
		a.end() // the goroutine stays blocked until the process exits
		return "", ctx.Err()
	}
}

// readLine reads to the end of a line, byte by byte, so that it reads nothing beyond the line.
func readLine(r io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxAnswer {
		n, err := r.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return strings.TrimSuffix(string(line), "\r"), nil
		case n == 1:
			line = append(line, one[0])
		case err == io.EOF:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		}
	}
	return "", errTooLong
}

// openTerminal opens the terminal of this process for input and output.
func openTerminal() (in, out *os.File, err error) {
	if in, err = os.OpenFile(terminalIn, os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	if out, err = os.OpenFile(terminalOut, os.O_RDWR, 0); err != nil {
		_ = in.Close()
		return nil, nil, err
	}
	return in, out, nil
}
