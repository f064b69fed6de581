// Haul serves and moves files over the protocols that devices and servers
// already speak. See "haul --help".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// Exit codes, as the help text tells them.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitNoAnswer    = 5
	exitLocal       = 6
	exitInterrupted = 130
)

const rootHelp = `haul moves files as fast as the link allows.

It is server and client for TFTP, and server for SFTP, in one program:

  haul serve DIR                      serve the files under DIR
  haul get tftp://HOST/FILE           fetch a file
  haul put FILE tftp://HOST/FILE      send a file
  haul probe tftp://HOST/FILE         print the size of a file
  haul doctor tftp://HOST/FILE        try a server as many clients would
  haul map test FILE NAME             try rules that rewrite names
  haul user add NAME                  say who may log in by SFTP

Exit codes:
  0    everything was done
  1    a transfer failed
  2    the command line is wrong
  3    the server has no such file
  4    the server refused
  5    no answer, or nobody listens
  6    a local file could not be read or written
  130  interrupted`

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := interruptible()
	defer stop()
	cmd := newRoot()
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	printError(os.Stderr, err)
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintln(os.Stderr, `"haul --help" and "haul COMMAND --help" tell more`)
	}
	return exitCode(err)
}

// printError prints an error, or each of several, on a line of its own.
func printError(out io.Writer, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			printError(out, err)
		}
		return
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = strings.Replace(text, context.Canceled.Error(), "interrupted", 1)
	}
	fmt.Fprintln(out, "haul:", text)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "haul",
		Short:         "Move files fast, by TFTP",
		Long:          rootHelp,
		SilenceErrors: true, // main prints them, once
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	root.AddCommand(newServe(), newGet(), newPut(), newProbe(), newDoctor(), newBench(), newMap(), newUser(), newVersion())
	return root
}

func noCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("there is no command %q", args[0])
	}
	return nil
}

// sameSignal is how soon a second signal is still the first: some programs,
// timeout(1) for one, signal a process and its group.
const sameSignal = 100 * time.Millisecond

// interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP
// ends. The second ends the process.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		first := time.Now()
		cancel()
		for <-signals; time.Since(first) < sameSignal; <-signals {
		}
		fmt.Fprintln(os.Stderr, "haul: second signal, ending at once")
		os.Exit(exitInterrupted)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}

// A usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// args turns cobra's complaints about arguments into usage errors.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// A localError is a failure to read or write a file of this machine.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// exitCode maps an error to the exit code that the help text promises.
func exitCode(err error) int {
	_, usage := errors.AsType[usageError](err)
	_, local := errors.AsType[localError](err)
	_, listening := errors.AsType[listenError](err)
	_, path := errors.AsType[*fs.PathError](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	fault, remote := errors.AsType[*transfer.Error](err)
	remote = remote && fault.Remote
	switch {
	case usage:
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case listening:
		return exitFailed
	case remote && fault.Code == transfer.FileNotFound:
		return exitNotFound
	case remote:
		return exitRefused
	case local, path, errors.Is(err, store.ErrNoSpace):
		return exitLocal
	case lookup, errors.Is(err, transfer.ErrSilent), errors.Is(err, syscall.ECONNREFUSED),
		errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return exitNoAnswer
	}
	return exitFailed
}
