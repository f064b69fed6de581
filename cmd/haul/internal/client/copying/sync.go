package copying

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store/treecopy"
)

// Sync makes a directory what another one is. At least one of them is on a server.
func Sync(ctx context.Context, cfg Config, from, to remote.Location) error {
	over := from.Protocol
	if !from.IsRemote() {
		over = to.Protocol
	}
	keepsTimes := !to.IsRemote() || to.Protocol == remote.SFTP
	cfg.Recursive, cfg.FileTimes = true, keepsTimes
	switch {
	case cfg.Unchanged != treecopy.Never:
	case keepsTimes:
		cfg.Unchanged = treecopy.SizeAndTime
	default: // a file has the time of its upload, which says nothing of its content
		cfg.Unchanged = treecopy.Hash
	}
	r := newRun(&cfg, over, "sync")
	r.get = from.IsRemote()
	defer r.close()
	var j treecopy.Job
	source, err := r.syncSource(ctx, from)
	if err != nil {
		return err
	}
	if to.IsRemote() {
		c, err := r.servers.Connect(ctx, to, remote.Intent{})
		if err != nil {
			return err
		}
		p, err := c.Target(ctx, to, true)
		if err != nil {
			return err
		}
		r.names.targetAt, j.To, j.Target = to.At, p.Tree, p.Name
		if from.IsRemote() {
			if err := r.sameServer(ctx, from, to, c, &source, &j); err != nil {
				return err
			}
		}
	} else {
		p, err := r.local.target(strings.TrimRight(filepath.ToSlash(to.Path), "/")+"/", false)
		if err != nil {
			return err
		}
		r.names.targetAt, r.names.toLocal, j.To, j.Target = p.at, true, p.tree, p.name
	}
	j.Sources = []treecopy.Source{source}
	return r.copy(ctx, j)
}

// syncSource returns the directory of which the contents are copied.
func (r *run) syncSource(ctx context.Context, from remote.Location) (s treecopy.Source, err error) {
	if from.IsRemote() {
		if s, err = r.remoteSource(ctx, from, ""); err != nil {
			return s, err
		}
		s.Name = path.Join(s.Name, ".") + "/."
		r.names.add(from.Text, from.IsURL(), from.At, s)
		return s, nil
	}
	info, err := os.Stat(from.Path)
	if err != nil {
		return s, failure.Local.Wrap(err)
	}
	if !info.IsDir() {
		return s, failure.Usage.Errorf("sync %s: that is not a directory; put sends a file", console.Visible(from.Path))
	}
	if s, err = r.local.source(filepath.Join(from.Path, ".") + "/."); err != nil {
		return s, err
	}
	r.names.add(from.Text, false, filepath.FromSlash, s)
	return s, nil
}

// sameServer has a server copy its files itself if it has both directories. It refuses those of
// which one is in the other: copies would be copied again, or the source deleted.
func (r *run) sameServer(ctx context.Context, from, to remote.Location, c remote.Server, s *treecopy.Source, j *treecopy.Job) error {
	same, err := r.servers.Same(ctx, from, to)
	if err != nil || !same {
		return err
	}
	p, err := c.Source(ctx, from) // by the connection of the target
	if err != nil {
		return err
	}
	if treecopy.Nested(ctx, p.Tree, p.Name, j.To, j.Target) {
		return failure.Usage.Errorf("sync %v to %v: one is in the other", from, to)
	}
	s.Tree, s.Origin, j.Origin = p.Tree, to.Origin(), to.Origin()
	return nil
}
