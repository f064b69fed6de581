package fileops

import (
	"context"
	"errors"
	"io"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store/treecopy"
)

// A CatConfig says which part of each file haul cat writes.
type CatConfig struct {
	Offset int64 // the first byte to write; a negative offset counts from the end of the file
	Count  int64 // the number of bytes to write; negative means up to the end of the file
}

// Cat writes files to out, one after another. If a file cannot be read, it continues with the next
// one.
func Cat(ctx context.Context, s *remote.Servers, at []remote.Location, cfg CatConfig, out io.Writer) error {
	var p problems
	for _, l := range at {
		first := ""
		if len(at) == 1 {
			first = l.PlainName()
		}
		c, err := s.Connect(ctx, l, remote.Intent{First: first})
		if err != nil {
			return errors.Join(p.err(), err)
		}
		found, err := remote.Find(ctx, c, l)
		p.failed(err)
		for _, m := range found {
			err := cfg.cat(ctx, c, m.Name, out)
			p.failed(err)
			if ctx.Err() != nil || errors.Is(err, failure.Local) || remote.IsLost(err) {
				return p.err() // later files would fail too
			}
		}
	}
	return p.err()
}

// cat writes a file or a part of it.
func (cfg CatConfig) cat(ctx context.Context, c remote.Server, name string, out io.Writer) error {
	const stdout = "standard output"
	f, err := c.Open(ctx, name)
	if err != nil {
		return failure.Remote.Wrap(err)
	}
	defer f.Close()
	size := int64(-1)
	if fi, err := f.Stat(); err == nil {
		if size = fi.Size(); fi.IsDir() {
			return failure.Remote.Errorf("cat %s: %w", name, treecopy.ErrDirectory)
		}
	}
	off := cfg.Offset
	switch {
	case off == 0 && cfg.Count < 0:
		_, err = remote.Stream(ctx, f, out, stdout)
		return err
	case off < 0 && size < 0:
		return failure.Remote.Errorf("cat %s: the server does not report its size, so there is no offset from its end", name)
	case off < 0:
		off = max(0, size+off)
	}
	_, err = remote.StreamPart(ctx, f, out, stdout, off, cfg.Count)
	return err
}
