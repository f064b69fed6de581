package main

import (
	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/serve"
)

const serveHelp = `Serve the files under DIR by TFTP, SFTP, HTTP or HTTPS, until a signal ends it.
--tftp, --sftp, --http and --https choose the protocols; without them it is TFTP alone.
After the first signal, transfers under way have --grace to finish; a second signal
ends haul at once.

Nothing outside DIR can be read or written, neither by ".." nor through a symbolic
link. An upload gets its name when it is whole and safe on disk, and never before.
Once all is open, the kernel denies haul every other file, where it can (Landlock).

SFTP users log in. --users FILE names them; without it, haul takes the file that
"haul user" has made. If there is none, one user gets a password for this run, which
haul prints. This user may read, with --upload create also add files, and with
--upload overwrite change and remove all.

The users file says what each user may do, how fast, and in which directory: see
"haul user --help". A change takes effect within seconds, and disconnects sessions
whose login would be refused now. Three wrong passwords block further passwords from
that address for a time; keys still work.

The host key is made at the first start, and kept (--host-keys). SFTP users get no
shell and no forwarding; md5sum, sha1sum and sha256sum are answered, for rclone.

HTTP is open to everybody. With --http-auth FILE, users log in with a password over
HTTPS, and may do what that file says. Behind a proxy that does TLS, --http-plain-auth
takes passwords over HTTP, and --http-proxy has the proxy say who each client is.

GET takes ranges and conditions. For a directory it sends its index.html (--index);
with --listing, it lists a directory that has none. PUT makes missing directories, and
can resume an upload that was cut off.

TFTP has no users, nor has HTTP without --http-auth: anybody may read, and write only
with --upload. Names that begin with a dot, and all below them, do not exist there
without --hidden, except .well-known.

Of several DIRs, the first that has a file serves it; uploads go to the first. Over
TFTP, and HTTP without --http-auth, these select what a client gets:
  --root CLIENT=DIR gives some clients another directory. CLIENT is an address
    or network, a hardware address, or on=ADDRESS, where the client asked;
    several are separated by commas: --root 52:54:00:12:34:56,10.1.0.0/16=/srv/lab
  --per-client gives each client a directory below DIR, named by its address
    (192.0.2.7) or hardware address (52-54-00-12-34-56), if it exists
  --map rewrites names by the rules of a file, as tftpd-hpa's -m does;
    "haul map test" shows what becomes of a name
  --access RULE is "allow" or "deny", then "read", "write" or "all", then
    CLIENT or *, then a pattern of names if not for all; the first that fits
    decides: --access 'deny read * *.key' --access 'allow write 10.0.0.0/8 logs/**'

With --restartable, the signal SIGUSR2 starts haul anew, as after an update, and
disconnects nobody. The new process has the same arguments, and takes over the sockets
when it is ready. The old one accepts nothing more, and ends with its last connection,
or after an hour. If the new process fails, the old one continues to serve. With
--single-port, transfers under way have --grace to finish.

Each transfer, login and change is logged on standard error, in one line.`

const serveExamples = `  haul serve /srv/tftp                       on port 69, or 6969 without privilege
  haul serve . --tftp 127.0.0.1:6969         on one address
  haul serve /srv/tftp --upload create       clients may add files, not replace any
  haul serve /srv/tftp --upload unique --upload-dir /srv/logs
                                             uploads get a time stamp, and cannot be read
  haul serve /srv/tftp --single-port         in a container, or behind NAT
  haul serve /srv/tftp --user tftp --metrics 127.0.0.1:9069
  haul serve /srv/tftp --trace=192.0.2.7     show the packets of one client
  haul serve /srv/files --sftp :2022         SFTP, for one user with a password for this run
  haul serve . --sftp :2022 --upload overwrite
                                             the same, and the user may write
  haul serve /srv/files --sftp :22 --user haul --users /etc/haul/users
  haul serve /srv/files --sftp :22 --tftp :69 --http :80
                                             what SFTP brings, TFTP and HTTP serve
  haul serve /srv/boot --http :80 --listing  for UEFI HTTP boot, iPXE and browsers
  haul serve /srv/files --https :443 --cert fullchain.pem --key privkey.pem --http-auth /etc/haul/users`

// runServer is [serve.Run], but for tests.
var runServer = serve.Run

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve DIR...",
		Short:   "Serve the files of a directory",
		Long:    serveHelp,
		Example: serveExamples,
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := f.config(args, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return runServer(cmd.Context(), cfg, cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}
