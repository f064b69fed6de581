package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/fileops"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
)

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
		Args:        args(cobra.MinimumNArgs(2)),
		Annotations: more("recursive verbose batch identity jump port", "locations", "patterns"),
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
		Args:        args(cobra.MinimumNArgs(2)),
		Annotations: more("symbolic force no-dereference batch identity jump port", "locations"),
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
