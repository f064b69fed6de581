package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/sftpserver"
)

const sftpServerHelp = `Serve one SFTP session on standard input and output.

sshd does the login and runs this as the user, by a line in sshd_config:
  Subsystem sftp /usr/bin/haul sftp-server
It serves all files of the machine with the rights of the user, or with --root those below
a directory. The short options are those of OpenSSH's sftp-server. In DIR, %d is the user's
home directory, %u the user's name, and %% is %.

A file appears under its name when the client has closed it, and an upload that is cut off
leaves what was there before. A file is written in place where another could not replace
it, or would have another owner, group or access list, or lose a second name. --in-place
writes all in place, as OpenSSH does: then a client can resume an upload that was cut off.`

const sftpServerExamples = `  haul sftp-server -l INFO -u 027          log each file, and keep new ones from others
  haul sftp-server -R --root /srv/public   a directory to read from
  haul sftp-server -P remove,rmdir         nothing can be removed
  haul sftp-server -Q requests             the names that -P and -p take`

func newSFTPServer() *cobra.Command {
	c := sftpserver.Config{Level: sftpserver.DefaultLevel, Facility: sftpserver.DefaultFacility}
	var query string
	cmd := &cobra.Command{
		Use:     "sftp-server",
		Short:   "Serve one SFTP session on standard input and output, for sshd",
		Long:    sftpServerHelp,
		Example: sftpServerExamples,
		Args:    commandline.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch query {
			case "":
			case "requests":
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(sftpserver.Requests(), "\n"))
				return failure.Local.Wrap(err)
			default:
				return failure.Usage.Errorf("-Q %q: there is nothing of that name to list; -Q requests lists the requests", query)
			}
			if console.IsTerminal(os.Stdin) {
				return failure.Usage.Errorf("sftp-server speaks SFTP on standard input, which is a terminal here: sshd runs it, or sftp -D")
			}
			return sftpserver.Run(cmd.Context(), c, os.Stdin, os.Stdout, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&c.ReadOnly, "read-only", "R", false, "refuse all that changes something")
	flags.StringVarP(&c.Start, "start-dir", "d", "", "begin in `DIR` instead of the working directory")
	flags.StringVar(&c.Root, "root", "", "serve only what is below `DIR`, as if that were /")
	flags.VarP(&c.Umask, "umask", "u", "the umask of new files and directories, in octal")
	flags.StringSliceVarP(&c.Deny, "deny-requests", "P", nil, "refuse these `REQUESTS`, with commas in between")
	flags.StringSliceVarP(&c.Allow, "allow-requests", "p", nil, "take only these `REQUESTS`")
	flags.StringVarP(&query, "query", "Q", "", "list the names that -P and -p take, and end; `WHAT` is requests")
	flags.BoolVar(&c.InPlace, "in-place", false, "show a file while it is uploaded, and keep the part of an upload that is cut off")
	flags.BoolVar(&c.NoFsync, "no-fsync", false, "do not wait until uploads are on the disk")
	flags.VarP(&c.Level, "log-level", "l", "what to log: QUIET, FATAL, ERROR, INFO, VERBOSE or DEBUG")
	flags.VarP(&c.Facility, "log-facility", "f", "the facility of syslog: DAEMON, USER, AUTH, AUTHPRIV, LOCAL0 to LOCAL7")
	flags.BoolVarP(&c.Stderr, "log-stderr", "e", false, "log to standard error instead of syslog")
	return cmd
}
