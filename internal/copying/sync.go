package copying

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
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
	source, err := r.syncSource(ctx, from)
	if err != nil {
		return err
	}
	j := treecopy.Job{Sources: []treecopy.Source{source}}
	if to.IsRemote() {
		c, err := r.servers.Connect(ctx, to, remote.Intent{})
		if err != nil {
			return err
		}
		p, err := c.Target(ctx, to, true)
		if err != nil {
			return err
		}
		if err := r.checkNested(ctx, from, to, source, p); err != nil {
			return err
		}
		r.names.targetAt, j.To, j.Target = to.At, p.Tree, p.Name
	} else {
		p, err := r.local.target(strings.TrimRight(filepath.ToSlash(to.Path), "/")+"/", false)
		if err != nil {
			return err
		}
		r.names.targetAt, r.names.toLocal, j.To, j.Target = p.at, true, p.tree, p.name
	}
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

// checkNested refuses directories of one server of which one is in the other: copies would be
// copied again, or the source deleted.
func (r *run) checkNested(ctx context.Context, from, to remote.Location, s treecopy.Source, p remote.Place) error {
	if !from.IsRemote() {
		return nil
	}
	same, err := r.servers.Same(ctx, from, to)
	if err != nil || !same {
		return err
	}
	source := realPath(ctx, s.Tree, strings.TrimSuffix(s.Name, "/."))
	target := realPath(ctx, p.Tree, path.Join(p.Name, "."))
	if isBelow(source, target) || isBelow(target, source) {
		return failure.Usage.Errorf("sync %v to %v: one is in the other", from, to)
	}
	return nil
}

// realPath returns where a name of a tree leads, as far as the tree reports it. Of a name that
// is not there yet it asks for the directory above.
func realPath(ctx context.Context, tree treecopy.SourceTree, name string) string {
	r, ok := tree.(treecopy.Resolver)
	if !ok {
		return path.Join("/", name)
	}
	real, err := r.RealPath(ctx, name)
	if err != nil && path.Dir(name) != name {
		return path.Join(realPath(ctx, tree, path.Dir(name)), path.Base(name))
	}
	return path.Join("/", real)
}

// isBelow reports whether a path is a directory, or below it.
func isBelow(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
