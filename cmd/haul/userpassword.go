package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/users"
)

const userPasswordHelp = `Set the password of a user, or remove it.

haul asks for it twice, and does not show it. --password-stdin reads it from standard
input instead, up to the end of the line. A running server applies the change within
seconds, and ends sessions and HTTP requests that logged in with the old password.`

const userPasswordExamples = `  haul user password alice
  pwgen -s 24 1 | haul user password alice --password-stdin
  haul user password alice --none              keys only from now on`

func newUserPassword() *cobra.Command {
	var file usersFlag
	var p passwordFlags
	var none bool
	cmd := &cobra.Command{
		Use:     "password NAME",
		Short:   "Set a user's password",
		Long:    userPasswordHelp,
		Example: userPasswordExamples,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if none && p.stdin {
				return failure.Usage.Errorf("--none and --password-stdin exclude each other")
			}
			d, path, err := file.open()
			if err != nil {
				return err
			}
			if _, ok := d.User(name); !ok {
				return fmt.Errorf("there is no user %q in %s; \"haul user add\" adds one", name, path)
			}
			var h users.Hash
			if !none {
				if h, err = p.read(cmd, name); err != nil {
					return err
				}
			}
			if err := users.SetPassword(path, name, h); err != nil {
				return explainUsers(err, path)
			}
			done := "set the password of"
			if none {
				done = "removed the password of"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s in %s\n", done, name, path)
			return nil
		},
		ValidArgsFunction: file.complete,
	}
	file.add(cmd)
	cmd.Flags().BoolVar(&p.stdin, "password-stdin", false, "read the password from standard input")
	cmd.Flags().BoolVar(&none, "none", false, "remove the password")
	return cmd
}

// passwordFlags say where a password comes from.
type passwordFlags struct{ ask, stdin bool }

// leastPassword is how many bytes a password has at least. Anybody can try to log in to
// a server, and shorter ones can be guessed.
const leastPassword = 8

// read gets a password, and returns its hash.
func (p *passwordFlags) read(cmd *cobra.Command, name string) (users.Hash, error) {
	password, err := p.get(cmd, name)
	if err != nil {
		return users.Hash{}, err
	}
	defer clear(password)
	switch n := len(password); {
	case n == 0:
		return users.Hash{}, errors.New("the password is empty; nothing was changed")
	case n < leastPassword:
		return users.Hash{}, fmt.Errorf("the password has fewer than %d bytes; nothing was changed", leastPassword)
	case n > users.MaxPassword:
		return users.Hash{}, fmt.Errorf("the password has more than %d bytes; nothing was changed", users.MaxPassword)
	}
	return users.HashPassword(password)
}

func (p *passwordFlags) get(cmd *cobra.Command, name string) ([]byte, error) {
	if p.stdin {
		return readPassword(cmd.InOrStdin())
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, failure.Usage.Errorf("there is no terminal to ask for a password; --password-stdin reads it from standard input")
	}
	first, err := askPassword(cmd.Context(), in, cmd.ErrOrStderr(), fmt.Sprintf("Password for %s: ", name))
	if err != nil {
		return nil, err
	}
	second, err := askPassword(cmd.Context(), in, cmd.ErrOrStderr(), "The same again: ")
	if err != nil {
		return nil, err
	}
	defer clear(second)
	if !bytes.Equal(first, second) {
		return nil, errors.New("the two passwords differ; nothing was changed")
	}
	return first, nil
}

// readPassword reads one line. A second one is refused: that cannot be meant.
func readPassword(in io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, users.MaxPassword+3))
	if err != nil {
		return nil, failure.Local.Errorf("password from standard input: %w", err)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	b = bytes.TrimSuffix(b, []byte("\r"))
	if bytes.ContainsAny(b, "\r\n") {
		return nil, failure.Usage.Errorf("--password-stdin: there is more than one line")
	}
	return b, nil
}

// askPassword reads a password from a terminal without showing it. If ctx ends
// before, the terminal is as it was.
func askPassword(ctx context.Context, in *os.File, out io.Writer, prompt string) ([]byte, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, failure.Local.Errorf("ask for a password: %w", err)
	}
	fmt.Fprint(out, prompt)
	defer fmt.Fprintln(out)
	type answer struct {
		password []byte
		err      error
	}
	typed := make(chan answer, 1)
	go func() { // ends with the process if nothing is typed
		password, err := term.ReadPassword(fd)
		typed <- answer{password, err}
	}()
	select {
	case a := <-typed:
		if a.err != nil {
			return nil, failure.Local.Errorf("ask for a password: %w", a.err)
		}
		return a.password, nil
	case <-ctx.Done():
		_ = term.Restore(fd, before) // there is nothing more to try
		return nil, ctx.Err()
	}
}
