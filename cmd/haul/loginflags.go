package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/web/webclient"
)

// loginFlags are the flags about passwords, which SFTP and HTTP share.
type loginFlags struct {
	batch        bool
	passwordFile string
}

func (f *loginFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.batch, "batch", false, "never ask for anything")
	flags.StringVar(&f.passwordFile, "password-file", "", "log in with the password in the first line of `FILE`")
}

// password returns what --password-file has, or "" without it.
func (f *loginFlags) password() (string, error) {
	if f.passwordFile == "" {
		return "", nil
	}
	text, err := readBounded(f.passwordFile)
	if err != nil {
		return "", failure.Local.Errorf("--password-file: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", failure.Local.Errorf("--password-file %s: the first line is empty", console.Visible(f.passwordFile))
	}
	return line, nil
}

// forWeb returns what answers a web server that asks for a login.
func (f *loginFlags) forWeb(l location) (func(context.Context, string, string, string) (string, string, error), error) {
	if l.site.user == "" {
		return nil, failure.Usage.Errorf("--password-file: whose password is it? write the user into the URL: https://USER@HOST/PATH")
	}
	password, err := f.password()
	return func(_ context.Context, user, _, _ string) (string, string, error) { return user, password, nil }, err
}

// A noTerminalForWeb says that a web server needs a login, and there is no terminal.
type noTerminalForWeb struct{ error }

func (noTerminalForWeb) Error() string {
	return "needs a login, and there is no terminal to ask on: use --password-file or ~/.netrc"
}

// Unwrap returns the kind of error, and why haul could not ask.
func (e noTerminalForWeb) Unwrap() []error { return []error{webclient.ErrLogin, e.error} }
