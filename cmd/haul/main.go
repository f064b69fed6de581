// Haul serves and transfers files over the protocols that devices and servers already use. See
// "haul --help".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/hooks"
)

const rootHelp = `haul moves files over SFTP, HTTP(S), S3 and TFTP as fast as the link allows.

It is server and client in one program. A file is HOST:PATH, or a URL of sftp, http,
https, s3 or tftp. SFTP has all commands, HTTP all but mv, mkdir, chmod, ln and df, S3
all but mkdir, chmod, ln and df, and TFTP get, put, probe and doctor.`

const rootExamples = `  haul serve DIR                    serve the files under DIR
  haul get HOST:FILE                fetch a file over SFTP, with -r a directory
  haul put FILE https://HOST/DIR/   send a file over HTTPS
  haul get tftp://HOST/FILE         fetch a file over TFTP
  haul user add NAME                let a user log in by SFTP or HTTP`

func main() {
	os.Exit(haulMain())
}

// haulMain runs the command line of this process, and returns its exit code.
func haulMain() int {
	if spawner, is := handover.IsSpawner(); is {
		return spawner()
	}
	if helper, is := hooks.IsHelper(); is {
		return helper()
	}
	ctx, stop := interruptible()
	defer stop()
	cmd, err := execute(ctx, newRoot(), os.Stdout)
	if err == nil {
		return 0
	}
	printFailure(os.Stderr, cmd, err)
	handover.ReportFailure(err)
	return exitCode(err)
}

// execute runs a command line. If some of the output could not be written, a successful command
// fails nevertheless.
func execute(ctx context.Context, root *cobra.Command, stdout *os.File) (*cobra.Command, error) {
	out := &checkedOutput{File: stdout}
	root.SetOut(out)
	cmd, err := root.ExecuteContextC(ctx)
	if failed := out.failed.Load(); err == nil && failed != nil {
		err = failure.Local.Wrap(*failed)
	}
	return cmd, err
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "haul",
		Short:         "Move files fast, by SFTP, HTTP and TFTP",
		Long:          rootHelp,
		Example:       rootExamples,
		SilenceErrors: true, // haulMain prints the error
		SilenceUsage:  true,
		Args:          program.NoCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRun: commandline.BeforeRun,
	}
	addVersionFlag(root)
	root.AddCommand(newServe(), newBoot(), newConfig(), newCache(), newGet(), newPut(), newSync(), newLs(), newTree(), newStat(), newSum(), newCat(), newRm(), newCp(), newMv(), newChmod(), newLn(), newMkdir(), newDf(),
		newSFTPServer(), newTop(), newProbe(), newDoctor(), newBench(), newMap(), newUser(), newVersion())
	program.Setup(root)
	return root
}

// sameSignal is the time within which a second signal counts as the same signal, because some
// programs, such as timeout(1), signal both a process and its group.
const sameSignal = 100 * time.Millisecond

// interruptible returns a context that is cancelled at the first SIGINT, SIGTERM or SIGHUP. The
// second signal ends the process. A SIGHUP that makes a server reload does not count. A signal that
// was ignored when haul started, as under nohup(1) or in the background of a shell, stays ignored:
// signal.Notify, which would end that, is not called for it.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	hangups := make(chan os.Signal, 1) // a separate channel, so that many SIGHUPs leave room for the other signals
	for s, c := range map[os.Signal]chan os.Signal{os.Interrupt: signals, syscall.SIGTERM: signals, syscall.SIGHUP: hangups} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	next := func() os.Signal {
		for {
			select {
			case s := <-signals:
				return s
			case s := <-hangups:
				if !handover.TakeHangup() {
					return s
				}
			}
		}
	}
	go func() {
		s := next()
		first := time.Now()
		cancel(caughtSignal{s})
		for next(); time.Since(first) < sameSignal; next() {
		}
		fmt.Fprintln(os.Stderr, "haul: second signal, ending at once")
		os.Exit(exitInterrupted)
	}()
	return ctx, func() { signal.Stop(signals); signal.Stop(hangups); cancel(nil) }
}

// A caughtSignal is the cause for which the context of [interruptible] was cancelled. It wraps
// [context.Canceled], for code that does not look for the signal.
type caughtSignal struct{ signal os.Signal }

// Signal returns the signal, for a server's log.
func (c caughtSignal) Signal() os.Signal { return c.signal }

func (caughtSignal) Error() string { return context.Canceled.Error() }

func (caughtSignal) Unwrap() error { return context.Canceled }

// A checkedOutput writes to standard output and remembers the first write error, because help and
// most commands do not check for write errors.
type checkedOutput struct {
	*os.File
	failed atomic.Pointer[error] // the first write error, an *fs.PathError
}

// Write implements [io.Writer].
func (c *checkedOutput) Write(p []byte) (int, error) {
	n, err := c.File.Write(p)
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// WriteString calls Write, because the method of *os.File would not record an error.
func (c *checkedOutput) WriteString(s string) (int, error) { return c.Write([]byte(s)) }
