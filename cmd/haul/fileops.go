package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/fileops"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
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
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("long all recursive by-time by-size reverse human-readable json batch identity jump port", "locations", "patterns", "json"),
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

// sortBy returns the Set function of a boolean flag. The flag sets *to to the given order if its
// value is true, and to fileops.ByName otherwise.
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
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("json dereference batch identity jump port", "locations", "patterns", "json"),
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
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("human-readable json batch identity jump port", "locations", "sizes", "json"),
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

const treeHelp = `Print directories on a server as trees, as tree(1) does.

Entries are sorted by name; names that begin with a dot are left out without -a. haul
follows no symbolic links, and shows where they lead. The last line counts what is below
the locations: everything but directories is a file there. On a terminal, characters of a
name that do not print are shown as escapes.`

func newTree() *cobra.Command {
	var f sshFlags
	var w webFlags
	var t fileops.TreeConfig
	cmd := &cobra.Command{
		Use:         "tree LOCATION...",
		Short:       "Print directories on a server as trees",
		Long:        treeHelp,
		Example:     "  haul tree host:\n  haul tree -d -L 2 https://example.com/images/\n  haul tree -ah s3://bucket/backup/",
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("level all directories sizes human-readable batch identity jump port", "locations", "patterns"),
		RunE: func(cmd *cobra.Command, words []string) error {
			if t.Depth < 0 || t.Depth == 0 && cmd.Flags().Changed("level") {
				return failure.Usage.Errorf("--level %d: must be above 0", t.Depth)
			}
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Tree(ctx, s, list, t, cmd.OutOrStdout())
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&t.Depth, "level", "L", 0, "go at most `N` levels deep")
	flags.BoolVarP(&t.All, "all", "a", false, "print names that begin with a dot too")
	flags.BoolVarP(&t.DirsOnly, "directories", "d", false, "print directories only")
	flags.BoolVarP(&t.Sizes, "sizes", "s", false, "print sizes, in bytes")
	humanFlag(cmd, &t.Human, "print sizes as 1.5M")
	addServers(cmd, &f, &w)
	return cmd
}

const catHelp = `Write files on a server to standard output, one after the other.

A file that cannot be read is reported, and those behind it are written nevertheless.
--offset and --count select a part of each file; an offset below 0 counts from the end.
"haul get FILE -" writes one file, with progress and --limit, over TFTP too.`

func newCat() *cobra.Command {
	var f sshFlags
	var w webFlags
	var c fileops.CatConfig
	cmd := &cobra.Command{
		Use:         "cat LOCATION...",
		Short:       "Write files on a server to standard output",
		Long:        catHelp,
		Example:     "  haul cat host:notes.txt\n  haul cat 'host:logs/*.gz' | zcat\n  haul cat --offset -1000 https://example.com/log",
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("offset count batch identity jump port", "locations", "patterns"),
		RunE: func(cmd *cobra.Command, words []string) error {
			switch {
			case !cmd.Flags().Changed("count"):
				c.Count = -1
			case c.Count < 0:
				return failure.Usage.Errorf("--count %d: must not be below 0", c.Count)
			}
			return onServers(cmd, &f, &w, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Cat(ctx, s, list, c, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().Int64Var(&c.Offset, "offset", 0, "begin at byte `N` of each file; below 0 from its end")
	cmd.Flags().Int64Var(&c.Count, "count", 0, "write at most `N` bytes of each file")
	addServers(cmd, &f, &w)
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
		SuggestFor:  []string{"delete", "deletefile", "purge", "rmdir"},
		Short:       "Remove files on a server",
		Long:        rmHelp,
		Example:     "  haul rm host:old.img\n  haul rm 'host:logs/*.gz'\n  haul rm -n 'host:logs/**/*.gz'\n  haul rm -rf sftp://backup@192.0.2.1/srv/2019",
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("recursive force dry-run verbose json batch identity jump port", "locations", "patterns", "json"),
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
		Use:        "mv FROM TO",
		SuggestFor: []string{"moveto", "rename"},
		Short:      "Rename a file on an SFTP or S3 server",
		Long: `Rename a file or a directory on an SFTP server, or a file on an S3 server.

If TO is a directory, FROM moves into it under its own name. Otherwise it replaces a
file of that name, in one step if the server can do that (posix-rename@openssh.com).
FROM and TO are on the same server.

S3 renames nothing: the server copies the file, and haul then removes the old one. Both
are there for a while, and stay if haul is killed in between. FROM and TO are in the same
bucket, and FROM is no directory.`,
		Example:     "  haul mv host:upload/new.img host:images/current.img\n  haul mv -n sftp://host/srv/a sftp://host/srv/b",
		Args:        commandline.Args(cobra.ExactArgs(2)),
		Annotations: commandline.More("no-clobber batch identity jump port", "locations"),
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
		Args:        commandline.Args(cobra.MinimumNArgs(1)),
		Annotations: commandline.More("parents batch identity jump port", "locations"),
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
