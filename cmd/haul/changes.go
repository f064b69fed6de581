package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/client/copying"
	"github.com/haul-project/haul/cmd/haul/internal/client/fileops"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
)

const cpHelp = `Copy files on SFTP, S3 and web servers.

As with cp(1), sources go into TO if that is a directory; else the one source becomes TO.
Several sources, and a TO that ends in a slash, make the directory if it is missing. A
pattern stands for the names that match.

The server copies a file itself if it can: over SFTP by the extension copy-data, which
OpenSSH and haul have, and S3 does, in one bucket or between two. Else, and between
servers, the data passes through this machine. -v says which. A copy appears under its name
when it is complete. Nothing is copied to itself, and no directory into itself.`

const cpExamples = `  haul cp host:db.sql host:backup/
  haul cp -r -p host:www host:www.old
  haul cp -v s3://bucket/a.img s3://archive/2026/a.img
  haul cp -r hosta:data hostb:`

func newCp() *cobra.Command {
	f := copyFlags{parallel: 1} // cp has no flag --parallel, and config refuses 0
	cmd := &cobra.Command{
		Use:         "cp FROM... TO",
		SuggestFor:  []string{"copyto"},
		Short:       "Copy files on servers",
		Long:        cpHelp,
		Example:     cpExamples,
		Args:        commandline.Args(cobra.MinimumNArgs(2)),
		Annotations: commandline.More("recursive preserve no-clobber links verify dry-run verbose quiet batch identity jump port", "copying", "locations", "patterns"),
		RunE: func(cmd *cobra.Command, words []string) error {
			list, err := serverLocations(cmd, true, words)
			if err != nil {
				return err
			}
			last := len(list) - 1
			cfg, err := f.config(cmd, list[last].Protocol)
			if err != nil {
				return err
			}
			if err := f.sendable(list[last].Protocol); err != nil {
				return err
			}
			return copying.Copy(cmd.Context(), cfg, copying.Cp, list[:last], list[last])
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with all that is in them")
	flags.BoolVarP(&f.preserve, "preserve", "p", false, "keep permissions and times")
	flags.BoolVarP(&f.noClobber, "no-clobber", "n", false, "leave files alone that are there already")
	flags.Var(&f.links, "links", "symbolic links in directories: `HOW` is skip, keep or follow")
	flags.BoolVar(&f.verify, "verify", false, "compare each copy with its source")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and do nothing")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "name each file that is copied, with the way it takes")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors")
	commandline.CompleteWords(cmd, "links", linkWords[:]...)
	addServers(cmd, &f.ssh, &f.web)
	return cmd
}

const chmodHelp = `Change permissions of files on an SFTP server, as chmod(1) does.

MODE is octal, such as 640, or symbolic, such as u+x, g-w or a=rX; several are separated
by commas. A mode without u, g, o or a spares the bits of this machine's umask. One that
begins with a dash is a-w, or -- -w.

haul follows a symbolic link that is named, and with -R none in a directory. Files that
have the permissions already are left alone. HTTP and S3 have no permissions.`

func newChmod() *cobra.Command {
	var f sshFlags
	var c fileops.ChmodConfig
	cmd := &cobra.Command{
		Use:         "chmod MODE LOCATION...",
		Short:       "Change permissions on an SFTP server",
		Long:        chmodHelp,
		Example:     "  haul chmod 640 host:secret.txt\n  haul chmod -R u=rwX,go=rX host:www",
		Args:        commandline.Args(cobra.MinimumNArgs(2)),
		Annotations: commandline.More("recursive verbose batch identity jump port", "locations", "patterns"),
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			if c.Mode, err = fileops.ParseMode(words[0], store.Umask()); err != nil {
				return err
			}
			return onServers(cmd, &f, nil, words[1:], func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Chmod(ctx, s, list, c, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().BoolVarP(&c.Recursive, "recursive", "R", false, "change directories with all that is in them")
	cmd.Flags().BoolVarP(&c.Verbose, "verbose", "v", false, "print the names of what is changed")
	f.add(cmd)
	return cmd
}

const lnHelp = `Make links on an SFTP server, as ln(1) does.

Without -s, TARGET is a file on the same server, which gets LINK as a second name; the
server needs the extension hardlink@openssh.com. With -s, TARGET is the text of a symbolic
link, without the host, and may lead anywhere. If LINK is a directory, the link is made in
it, under the name of the target; several targets need one.

-f replaces a file or a link that has the name. The name is never missing meanwhile, if
the server can rename in one step (posix-rename@openssh.com).`

func newLn() *cobra.Command {
	var f sshFlags
	var c fileops.LinkConfig
	cmd := &cobra.Command{
		Use:         "ln TARGET... LINK",
		Short:       "Make links on an SFTP server",
		Long:        lnHelp,
		Example:     "  haul ln -s releases/42 host:current\n  haul ln -sfn releases/43 host:current\n  haul ln host:disk.img host:backup/disk.img",
		Args:        commandline.Args(cobra.MinimumNArgs(2)),
		Annotations: commandline.More("symbolic force no-dereference batch identity jump port", "locations"),
		RunE: func(cmd *cobra.Command, words []string) error {
			last := len(words) - 1
			return onServers(cmd, &f, nil, words[last:], func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return fileops.Link(ctx, s, words[:last], list[0], c)
			})
		},
	}
	cmd.Flags().BoolVarP(&c.Symbolic, "symbolic", "s", false, "make symbolic links")
	cmd.Flags().BoolVarP(&c.Force, "force", "f", false, "replace a file or a link that has the name")
	cmd.Flags().BoolVarP(&c.NoDeref, "no-dereference", "n", false, "take LINK, if it is a symbolic link to a directory, for a file")
	f.add(cmd)
	return cmd
}
