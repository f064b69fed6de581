package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/fileops"
	"github.com/haul-project/haul/internal/remote"
)

func newMv() *cobra.Command {
	var f sshFlags
	var keep bool
	cmd := &cobra.Command{
		Use:   "mv FROM TO",
		Short: "Rename a file on an SFTP server",
		Long: `Rename a file or a directory on an SFTP server.

If TO is a directory, FROM moves into it under its own name. Otherwise it replaces a
file of that name, in one step if the server can do that (posix-rename@openssh.com).
FROM and TO are on the same server.`,
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
				var errs []error
				for _, l := range list {
					errs = append(errs, fileops.Mkdir(ctx, s, l, parents))
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make the directories above too; one that exists is no error")
	f.add(cmd)
	return cmd
}
