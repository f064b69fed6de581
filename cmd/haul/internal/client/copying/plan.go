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
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store/treecopy"
)

// plan determines the sources and the target of the job, and their names for messages. It checks
// local files first, because mistakes there can be found without a connection.
func (r *run) plan(ctx context.Context, from []remote.Location, to remote.Location) (err error) {
	if !to.IsRemote() {
		if err := r.planLocalTarget(to, len(from) > 1); err != nil {
			return err
		}
	}
	if !from[0].IsRemote() {
		if err := r.planLocalSources(ctx, from); err != nil || len(r.job.Sources) == 0 {
			return err
		}
	}
	var target remote.Server // nil if the target is local
	if to.IsRemote() {
		if target, err = r.planTarget(ctx, from, to); err != nil {
			return err
		}
	}
	if from[0].IsRemote() {
		return r.planSources(ctx, from, to, target)
	}
	return nil
}

// planLocalTarget plans a copy to a local file or directory.
func (r *run) planLocalTarget(to remote.Location, several bool) error {
	name := to.Path
	if r.verb == Sync {
		name = strings.TrimRight(filepath.ToSlash(name), "/") + "/"
	}
	p, err := r.local.target(name, several)
	if err != nil {
		return err
	}
	r.job.To, r.job.Target = p.tree, p.name
	r.names.targetAt, r.names.toLocal = p.at, true
	return nil
}

// planLocalSources plans a copy of local files and directories. It leaves out those that must not be
// copied, and records errors about them.
func (r *run) planLocalSources(ctx context.Context, from []remote.Location) error {
	for _, l := range from {
		sources, refused, err := r.localSources(ctx, l.Path)
		if err != nil {
			return err
		}
		for _, s := range refused {
			r.refuse(s)
		}
		for _, s := range sources {
			r.names.add(s.text, false, filepath.FromSlash, s.Source)
			r.job.Sources = append(r.job.Sources, s.Source)
		}
	}
	return nil
}

// localSources returns the sources for a local name. For haul sync, the only source is the contents
// of the directory.
func (r *run) localSources(ctx context.Context, name string) ([]localSource, []refusedSource, error) {
	if r.verb != Sync {
		return r.local.sources(ctx, name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, failure.Local.Wrap(err)
	}
	if !info.IsDir() {
		return nil, nil, failure.Usage.Errorf("sync %s: that is not a directory; put sends a file", console.Visible(name))
	}
	s, err := r.local.source(filepath.Join(name, ".") + "/.")
	return []localSource{{s, name}}, nil, err
}

// planTarget plans a copy to a server, and connects to it.
func (r *run) planTarget(ctx context.Context, from []remote.Location, to remote.Location) (remote.Server, error) {
	c, err := r.servers.Connect(ctx, to, r.toWrite(from))
	if err != nil {
		return nil, err
	}
	several := r.verb == Sync || max(len(from), len(r.job.Sources)+len(r.refused)) > 1
	p, err := c.Target(ctx, to, several)
	if err != nil {
		return nil, err
	}
	r.job.To, r.job.Target = p.Tree, p.Name
	if from[0].IsRemote() {
		r.job.Origin = to.Origin()
	}
	r.names.targetAt = to.At
	return c, nil
}

// planSources plans a copy from servers. It connects to a server only once, even if both a source and
// the target are on it: then the server itself copies the files, if it can.
func (r *run) planSources(ctx context.Context, from []remote.Location, to remote.Location, target remote.Server) error {
	for _, l := range from {
		same := false
		if target != nil {
			var err error
			if same, err = r.servers.Same(ctx, l, to); err != nil {
				return err
			}
		}
		c := target // use the target's connection, even if the two locations spell the server differently
		if !same {
			var err error
			if c, err = r.connectSource(ctx, l, len(from) == 1); err != nil {
				return err
			}
		}
		p, err := c.Source(ctx, l)
		if err != nil {
			return err
		}
		s := treecopy.Source{Tree: p.Tree, Name: p.Name, Origin: l.Origin()}
		if same {
			s.Origin = r.job.Origin
		}
		if r.verb == Sync {
			if same && treecopy.Nested(ctx, p.Tree, p.Name, r.job.To, r.job.Target) {
				// Without this check, sync would copy the copies again, or delete the source.
				return failure.Usage.Errorf("sync %v to %v: one is in the other", l, to)
			}
			s.Name = path.Join(s.Name, ".") + "/."
		}
		r.names.add(l.Text, l.IsURL(), l.At, s)
		r.job.Sources = append(r.job.Sources, s)
	}
	return nil
}

// connectSource connects to the server of a source. `only` says that there are no other sources.
func (r *run) connectSource(ctx context.Context, l remote.Location, only bool) (remote.Server, error) {
	if l.Protocol == remote.HTTP && l.Path == "" && !r.Recursive {
		return nil, failure.Usage.Errorf("%s %v: the URL names no file; -r fetches all that the server lists", r.verb, l)
	}
	var to remote.Intent
	if r.verb == Get && only && !r.Recursive {
		to = r.toRead(l.PlainName())
	}
	return r.servers.Connect(ctx, l, to)
}

// toRead returns the Intent for reading files. first is the name of the first file, or "" if that
// is not known.
func (r *run) toRead(first string) remote.Intent {
	i := remote.Intent{First: first}
	if first != "" && r.movesAll() {
		i.Expect = sftpclient.FirstSize
	}
	return i
}

// toWrite returns the Intent for writing local files to a server. It contains the size of the
// largest file in from, not counting files in directories.
func (r *run) toWrite(from []remote.Location) (i remote.Intent) {
	if from[0].IsRemote() || !r.movesAll() {
		return i
	}
	for _, l := range from {
		if info, err := os.Stat(l.Path); err == nil && info.Mode().IsRegular() {
			i.Expect = max(i.Expect, info.Size())
		}
	}
	return i
}
