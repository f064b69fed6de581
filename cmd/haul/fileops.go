package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/events"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/fileops"
	"github.com/haul-project/haul/internal/remote"
)

const lsHelp = `List files on an SFTP, an S3 or a web server.

Entries are sorted by name, with -t by time and with -S by size, newest and largest
first; -r reverses the order. -l shows what ls -l does; a dash stands for what the
server does not report. On a terminal, characters of a name that do not print are
shown as escapes.

A web server must list its directories: in JSON, as haul, Caddy and nginx
(autoindex_format json) do, or by a page of Apache, nginx, lighttpd or Python's
http.server. Over HTTP and S3 there are type, size, time and name only.`

const lsExamples = `  haul ls host:
  haul ls -la sftp://backup@192.0.2.1/srv/images
  haul ls 'host:logs/*.gz'
  haul ls -l https://example.com/images/
  haul ls -l s3://bucket/
  haul ls -R --json host:/srv | jq -r 'select(.size > 1e9).path'`

func newLs() *cobra.Command {
	var f sshFlags
	var w webFlags
	var l fileops.ListConfig
	cmd := &cobra.Command{
		Use:         "ls LOCATION...",
		Aliases:     []string{"list", "dir"},
		Short:       "List files on a server",
		Long:        lsHelp,
		Example:     lsExamples,
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("long all recursive by-time by-size reverse human-readable json batch identity jump port", "locations", "patterns", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.List(ctx, s, list, l, cmd.OutOrStdout())
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.Long, "long", "l", false, "show permissions, owner, size and time")
	flags.BoolVarP(&l.Recursive, "recursive", "R", false, "list directories in directories too")
	flags.BoolVarP(&l.All, "all", "a", false, "list names that begin with a dot too")
	flags.BoolFuncP("by-time", "t", "sort by time, newest first", sortBy(&l.Order, fileops.ByTime))
	flags.BoolFuncP("by-size", "S", "sort by size, largest first; directories come last", sortBy(&l.Order, fileops.BySize))
	flags.BoolVarP(&l.Reverse, "reverse", "r", false, "reverse the order")
	flags.BoolP("one", "1", false, "print one name a line, as ls always does here")
	flags.BoolVar(&l.JSON, "json", false, "print a JSON object for each entry")
	humanFlag(cmd, &l.Human, "with -l, show sizes as 1.5M")
	addServers(cmd, &f, &w)
	return cmd
}

// sortBy returns what sets a flag that selects an order.
func sortBy(to *fileops.Order, order fileops.Order) func(string) error {
	return func(value string) error {
		on, err := strconv.ParseBool(value)
		if *to = fileops.ByName; on {
			*to = order
		}
		return err
	}
}

func newStat() *cobra.Command {
	var f sshFlags
	var w webFlags
	var asJSON, follow bool
	cmd := &cobra.Command{
		Use:   "stat LOCATION...",
		Short: "Describe files on a server",
		Long: `Describe the file at each location on an SFTP, an S3 or a web server.

haul prints type, size, permissions, owner, times, and where a symbolic link leads, as
far as the server reports them.`,
		Example:     "  haul stat host:images/disk.raw\n  haul stat --json sftp://backup@192.0.2.1/srv/a | jq .size",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("json dereference batch identity jump port", "locations", "patterns", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Stat(ctx, s, list, follow, asJSON, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each location")
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "describe what a symbolic link leads to")
	addServers(cmd, &f, &w)
	return cmd
}

func newDf() *cobra.Command {
	var f sshFlags
	var human, asJSON bool
	cmd := &cobra.Command{
		Use:   "df LOCATION...",
		Short: "Show how much room there is on an SFTP server",
		Long: `Show how much room there is on the file system of each location.

haul prints the size, and how much is used and free, in KiB or with -h in larger
units. The server needs the extension statvfs@openssh.com, which OpenSSH and haul
have.`,
		Example:     "  haul df -h host:/srv",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("human-readable json batch identity jump port", "locations", "sizes", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, nil, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Space(ctx, s, list, human, asJSON, cmd.OutOrStdout())
			})
		},
	}
	humanFlag(cmd, &human, "show sizes as 1.5G")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each location, with sizes in bytes")
	f.add(cmd)
	return cmd
}

const rmHelp = `Remove files on a server, and with -r directories with all that is in them.

haul removes symbolic links, and not what they lead to. A name that ends in a slash is
that of a directory. haul refuses /, the home directory, and names that end in . or
.., and removes single files only from web servers. In a bucket of S3, -r removes every
object whose key begins with the name and a slash.

-n removes nothing and prints all names that would be removed, sorted; those that end
in a slash are directories.`

func newRm() *cobra.Command {
	var f sshFlags
	var w webFlags
	var m fileops.RemoveConfig
	var asJSON bool
	cmd := &cobra.Command{
		Use:         "rm LOCATION...",
		Short:       "Remove files on a server",
		Long:        rmHelp,
		Example:     "  haul rm host:old.img\n  haul rm 'host:logs/*.gz'\n  haul rm -n 'host:logs/**/*.gz'\n  haul rm -rf sftp://backup@192.0.2.1/srv/2019",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("recursive force dry-run verbose json batch identity jump port", "locations", "patterns", "json"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return withEvents(cmd, asJSON, events.Config{Sources: words, DryRun: m.DryRun}, func(log *events.Log) error {
				if m.Events = log; log != nil {
					f.say = log.Note
				}
				return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
					return fileops.Remove(ctx, s, list, m, cmd.OutOrStdout())
				})
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&m.Recursive, "recursive", "r", false, "remove directories with all that is in them")
	flags.BoolVarP(&m.Force, "force", "f", false, "ignore files that do not exist")
	flags.BoolVarP(&m.DryRun, "dry-run", "n", false, "print what would be removed, and remove nothing")
	flags.BoolVarP(&m.Verbose, "verbose", "v", false, "print the names of what is removed; a directory is one line")
	flags.BoolVar(&asJSON, "json", false, eventsFlagHelp)
	addServers(cmd, &f, &w)
	return cmd
}

func newMv() *cobra.Command {
	var f sshFlags
	var keep bool
	cmd := &cobra.Command{
		Use:   "mv FROM TO",
		Short: "Rename a file on an SFTP or S3 server",
		Long: `Rename a file or a directory on an SFTP server, or a file on an S3 server.

If TO is a directory, FROM moves into it under its own name. Otherwise it replaces a
file of that name, in one step if the server can do that (posix-rename@openssh.com).
FROM and TO are on the same server.

S3 renames nothing: the server copies the file, and haul then removes the old one. Both
are there for a while, and stay if haul is killed in between. FROM and TO are in the same
bucket, and FROM is no directory.`,
		Example:     "  haul mv host:upload/new.img host:images/current.img\n  haul mv -n sftp://host/srv/a sftp://host/srv/b",
		Args:        args(cobra.ExactArgs(2)),
		Annotations: more("no-clobber batch identity jump port", "locations"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, nil, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Move(ctx, s, list[0], list[1], keep)
			})
		},
	}
	cmd.Flags().BoolVarP(&keep, "no-clobber", "n", false, "replace nothing")
	f.add(cmd)
	return cmd
}

func newMkdir() *cobra.Command {
	var f sshFlags
	var parents bool
	cmd := &cobra.Command{
		Use:         "mkdir LOCATION...",
		Short:       "Make directories on an SFTP server",
		Long:        "Make directories on an SFTP server.\n\nThe server's umask decides their permissions.",
		Example:     "  haul mkdir host:incoming\n  haul mkdir -p sftp://backup@192.0.2.1/srv/2026/11",
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("parents batch identity jump port", "locations"),
		RunE: func(cmd *cobra.Command, words []string) error {
			return onServers(cmd, &f, nil, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Mkdir(ctx, s, list, parents)
			})
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make the directories above too; one that exists is no error")
	f.add(cmd)
	return cmd
}

// onServers runs a command on locations that are all of one protocol. w is nil for a
// command that HTTP has no method for.
func onServers(cmd *cobra.Command, f *sshFlags, w *webFlags, words []string, run func(context.Context, *remote.Servers, []remote.Location) error) error {
	list, err := remote.ParseAll(words)
	if err != nil {
		return err
	}
	for _, l := range list {
		switch {
		case !l.IsRemote() || l.Protocol == remote.TFTP && cmd.Name() != "probe":
			if w == nil && list[0].Protocol == remote.HTTP {
				l = list[0] // the first mistake
			}
			return noFiles(cmd.Name(), l, w != nil)
		case l.Protocol != list[0].Protocol:
			return mixed(cmd.Name(), list[0], l)
		}
	}
	if err := onlyFlagsOf(list[0].Protocol, cmd); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if w == nil {
		w = new(webFlags)
	}
	c := remoteConfig(f, w, cmd.ErrOrStderr())
	c.Quiet, _ = cmd.Flags().GetBool("quiet") // which not all commands have
	s := remote.New(c)
	defer s.Close()
	return run(cmd.Context(), s, list)
}

// noFiles refuses a location where no files can be looked after.
func noFiles(command string, l remote.Location, overHTTP bool) error {
	over, write, advice := "SFTP", "sftp://HOST/PATH or HOST:PATH", ""
	if overHTTP {
		over, write = "SFTP, HTTP and S3", "sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or HOST:PATH"
	}
	if !l.IsRemote() {
		return failure.Usage.Errorf("%s %v: that is a local file; write %s", command, l, write)
	}
	if l.Protocol == remote.HTTP {
		return failure.Usage.Errorf("%s %v: HTTP has no way to do that; %s works over SFTP", command, l, command)
	}
	if command == "stat" {
		advice = `; "haul probe" prints the size of a file`
	}
	return failure.Usage.Errorf("%s %v: %v can only get and put single files; %s works over %s%s", command, l, l.Protocol, command, over, advice)
}

// mixed refuses locations of several protocols.
func mixed(command string, first, l remote.Location) error {
	return failure.Usage.Errorf("%s %v and %v: all locations of one command have to be of the same protocol", command, first, l)
}

const probeHelp = `Print the size of files on SFTP, HTTP(S), S3 or TFTP servers, in bytes.

Of several locations, each line has the location too. haul fetches no data: it asks
with HEAD over S3 and HTTP, or for one byte if the server has no HEAD, and with the option
tsize over TFTP.`

const probeExamples = `  haul probe tftp://192.0.2.1/boot/kernel
  haul probe https://example.com/images/disk.img
  haul probe --batch host:backup/db.sql.gz`

func newProbe() *cobra.Command {
	var f tftpFlags
	var quiet bool
	var s sshFlags
	var w webFlags
	cmd := &cobra.Command{
		Use:         "probe LOCATION...",
		Short:       "Print the size of files without fetching them",
		Long:        probeHelp,
		Example:     probeExamples,
		Args:        args(cobra.MinimumNArgs(1)),
		Annotations: more("quiet batch password-file identity jump port cacert blksize timeout trace", "locations"),
		RunE: func(cmd *cobra.Command, words []string) error {
			list, err := remote.ParseAll(words)
			if err != nil {
				return err
			}
			if list[0].Protocol == remote.Local {
				if err := remote.MissingScheme(list[0].Text); err != nil {
					return err
				}
				return failure.Usage.Errorf("probe %v: that is a local file; a location is a URL sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or tftp://HOST/FILE, or HOST:PATH", list[0])
			}
			if list[0].Protocol != remote.TFTP {
				return onServers(cmd, &s, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
					return fileops.Probe(ctx, s, list, cmd.OutOrStdout())
				})
			}
			for _, l := range list {
				if l.IsRemote() && l.Protocol != remote.TFTP {
					return mixed("probe", list[0], l)
				}
			}
			if err := onlyFlagsOf(remote.TFTP, cmd); err != nil {
				return err
			}
			cfg, err := f.config()
			if err != nil {
				return err
			}
			return fileops.ProbeTFTP(cmd.Context(), cfg, list, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing but sizes and errors")
	addGroup(cmd, f.add, "TFTP")
	addServers(cmd, &s, &w)
	return cmd
}
