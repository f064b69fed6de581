package fileops

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// Move renames the file at the location `from` to the location `to`. If `keep` is set, it does not
// replace an existing file.
func Move(ctx context.Context, s *remote.Servers, from, to remote.Location, keep bool) error {
	if err := checkPrecious("mv", from); err != nil {
		return err
	}
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
	if c.Capabilities().WholeFiles {
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
	return failure.Remote.Wrap(c.Rename(ctx, a, b, !keep))
}

// Mkdir makes directories. If `parents` is set, it also makes missing directories above them.
func Mkdir(ctx context.Context, s *remote.Servers, at []remote.Location, parents bool) error {
	var errs []error
	for _, l := range at {
		errs = append(errs, mkdir(ctx, s, l, parents))
	}
	return errors.Join(errs...)
}

func mkdir(ctx context.Context, s *remote.Servers, l remote.Location, parents bool) error {
	c, name, err := s.At(ctx, l)
	if err != nil {
		return err
	}
	switch can := c.Capabilities(); {
	case can.ImpliedDirs:
		return lacks("mkdir", l, "make a directory alone; put makes it with a file")
	case parents:
		return failure.Remote.Wrap(can.MkdirAll(ctx, name, 0o777))
	}
	return failure.Remote.Wrap(c.Mkdir(ctx, name, 0o777))
}
