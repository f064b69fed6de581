package fileops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
)

// Probe prints the sizes of files on SFTP or HTTP servers.
func Probe(ctx context.Context, s *remote.Servers, at []remote.Location, out io.Writer) error {
	return probe(at, out, func(l remote.Location) (int64, error) { return sizeOf(ctx, s, l) })
}

// ProbeTFTP prints the sizes of files on TFTP servers. A trace is written to stderr.
func ProbeTFTP(ctx context.Context, cfg remote.TFTPConfig, at []remote.Location, out, stderr io.Writer) error {
	t, err := remote.OpenTFTP(cfg, stderr)
	if err != nil {
		return err
	}
	defer t.Close()
	c := t.Client()
	return probe(at, out, func(l remote.Location) (int64, error) {
		target, err := cfg.File(l)
		if err != nil {
			return 0, err
		}
		return c.Size(ctx, target)
	})
}

// probe prints the size of each file as soon as it is known.
func probe(at []remote.Location, out io.Writer, size func(remote.Location) (int64, error)) error {
	var errs []error
	name := console.NameFormat(out)
	for _, l := range at {
		n, err := size(l)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(at) == 1:
			_, err = fmt.Fprintln(out, n)
			errs = append(errs, failure.Local.Wrap(err))
		default:
			_, err = fmt.Fprintln(out, n, name(l.Text))
			errs = append(errs, failure.Local.Wrap(err))
		}
	}
	return errors.Join(errs...)
}

// sizeOf returns the size of the file at a location.
func sizeOf(ctx context.Context, s *remote.Servers, l remote.Location) (int64, error) {
	if l.Protocol == remote.HTTP && l.IsDirName() {
		return 0, failure.Usage.Errorf("probe %v: the URL names no file", l)
	}
	c, name, err := s.At(ctx, l)
	if err != nil {
		return 0, err
	}
	fi, err := c.Stat(ctx, name)
	switch {
	case err != nil:
		return 0, failure.Remote.Wrap(err)
	case fi.IsDir():
		return 0, failure.Remote.Errorf("probe %v: that is a directory, and only files have a size: %w", l, store.ErrNotRegular)
	case fi.Mode().Type()&^fs.ModeIrregular != 0:
		return 0, failure.Remote.Errorf("probe %v: %w", l, store.ErrNotRegular)
	case fi.Size() < 0:
		return 0, fmt.Errorf("probe %v: the server does not report the size; fetch the file to learn it", l)
	}
	return fi.Size(), nil
}
