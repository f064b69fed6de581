// Haul serves and moves files over the protocols that devices and servers
// already speak. See "haul --help".
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/handover"
)

const rootHelp = `haul moves files over SFTP, HTTP(S) and TFTP as fast as the link allows.

It is server and client in one program. The location of a file selects the protocol:
it is HOST:PATH, or a URL that begins with sftp://, http://, https:// or tftp://. SFTP
has all commands, HTTP all but mv, mkdir and df, and TFTP get, put, probe and doctor.`

const rootExamples = `  haul serve DIR                    serve the files under DIR
  haul get HOST:FILE                fetch a file over SFTP, with -r a directory
  haul put FILE https://HOST/DIR/   send a file over HTTPS
  haul get tftp://HOST/FILE         fetch a file over TFTP
  haul ls -l HOST:DIR               list a directory on a server
  haul user add NAME                let a user log in by SFTP or HTTP`

func main() {
	os.Exit(haulMain())
}

// haulMain runs the command line of this process, and returns its exit code.
func haulMain() int {
	if spawner, is := handover.IsSpawner(); is {
		return spawner()
	}
	ctx, stop := interruptible()
	defer stop()
	cmd, err := execute(ctx, newRoot(), os.Stdout)
	if err == nil {
		return 0
	}
	printFailure(os.Stderr, cmd, err)
	return exitCode(err)
}

// execute runs a command line. A command that has succeeded fails nevertheless if not
// all of its output could be written.
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
		SilenceErrors: true, // main prints them, once
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRun: beforeRun,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// Of "haul user shwo --users f" the command is what is wrong, not its flag.
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			return noCommand(cmd, cmd.Flags().Args())
		}
		return failure.Usage.Wrap(flagError(cmd, err))
	})
	root.SetHelpCommand(newHelp())
	addVersionFlag(root)
	root.AddCommand(newServe(), newGet(), newPut(), newLs(), newStat(), newRm(), newMv(), newMkdir(), newDf(),
		newProbe(), newDoctor(), newBench(), newMap(), newUser(), newVersion())
	addCompletion(root)
	root.SetHelpFunc(printHelp)
	addHelp(root)
	completeFlags(root)
	return root
}
