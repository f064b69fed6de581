package main

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
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
			list, err := remote.ParseAll(words)
			if err != nil {
				return err
			}
			if list[0].Protocol == remote.SFTP && isPrecious(list[0].Path) {
				return failure.Usage.Errorf("mv %v: refused; name what is in it", list[0])
			}
			return onServers(cmd, &f, nil, words, func(ctx context.Context, s *remote.Servers, list []remote.Location) error {
				return move(ctx, s, list[0], list[1], keep)
			})
		},
	}
	cmd.Flags().BoolVarP(&keep, "no-clobber", "n", false, "replace nothing")
	f.add(cmd)
	return cmd
}

// move renames what is at one location to another.
func move(ctx context.Context, s *remote.Servers, from, to remote.Location, keep bool) error {
	same, err := s.Same(ctx, from, to)
	if err != nil {
		return err
	}
	if !same {
		return failure.Usage.Errorf("mv: %v and %v are on different servers; get the file and put it", from, to)
	}
	c, a, err := s.At(ctx, from)
	if err != nil {
		return err
	}
	renamer, ok := c.(remote.Renamer)
	if !ok {
		return lacks("mv", from, "rename a file; get it and put it")
	}
	b, err := c.Path(ctx, to)
	if err != nil {
		return err
	}
	a = strings.TrimRight(a, "/")
	switch fi, err := c.Stat(ctx, b); {
	case err == nil && fi.IsDir():
		b = below(b, path.Base(a))
	case err == nil && strings.HasSuffix(b, "/"):
		return failure.Remote.Errorf("mv %v: %v is not a directory", from, to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return failure.Remote.Wrap(err)
	case err != nil && strings.HasSuffix(b, "/"):
		return failure.Remote.Errorf("mv %v: there is no directory %v: %w", from, to, err)
	}
	if keep {
		return failure.Remote.Wrap(renamer.Move(ctx, a, b))
	}
	return failure.Remote.Wrap(renamer.Rename(ctx, a, b))
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
					errs = append(errs, mkdir(ctx, s, l, parents))
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make the directories above too; one that exists is no error")
	f.add(cmd)
	return cmd
}

// mkdir makes a directory.
func mkdir(ctx context.Context, s *remote.Servers, l remote.Location, parents bool) error {
	c, name, err := s.At(ctx, l)
	if err != nil {
		return err
	}
	maker, ok := c.(remote.DirMaker)
	switch {
	case !ok:
		return lacks("mkdir", l, "make a directory alone; put makes it with a file")
	case parents:
		return failure.Remote.Wrap(maker.MkdirAll(ctx, name, 0o777))
	}
	return failure.Remote.Wrap(maker.Mkdir(ctx, name, 0o777))
}
