// Package copying is what haul get, put, sync and cp do: it copies files between this machine
// and a server, or on servers, from and to streams too, shows how that goes, and says in the words of the
// command line what became of it.
package copying

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store/treecopy"
)

// Get fetches what is at locations, all of one protocol, to a local name; "" is the
// current directory, and "-" standard output.
func Get(ctx context.Context, cfg Config, from []remote.Location, local string) error {
	if from[0].Protocol == remote.TFTP {
		return getTFTP(ctx, &cfg, from, local)
	}
	r := newRun(&cfg, from[0].Protocol, "get")
	defer r.close()
	if local == "-" || isPipe(local) {
		return r.getStream(ctx, from, local)
	}
	to, err := r.local.target(local, len(from) > 1)
	if err != nil {
		return err
	}
	r.names.targetAt, r.names.toLocal = to.at, true
	j := treecopy.Job{To: to.tree, Target: to.name}
	for _, l := range from {
		first := ""
		if len(from) == 1 && !r.Recursive {
			first = l.PlainName()
		}
		source, err := r.remoteSource(ctx, l, first)
		if err != nil {
			return err
		}
		r.names.add(l.Text, l.IsURL(), l.At, source)
		j.Sources = append(j.Sources, source)
	}
	return r.copy(ctx, j)
}

// Put sends local files to a location. "-" is standard input.
func Put(ctx context.Context, cfg Config, files []string, to remote.Location) error {
	if to.Protocol == remote.TFTP {
		return putTFTP(ctx, &cfg, files, to)
	}
	r := newRun(&cfg, to.Protocol, "put")
	defer r.close()
	if len(files) == 1 && files[0] == "-" {
		return r.putStream(ctx, to)
	}
	var j treecopy.Job
	for _, file := range files {
		sources, refused, err := r.local.sources(ctx, file)
		if err != nil {
			return err
		}
		for _, s := range refused {
			r.refuse(s)
		}
		for _, s := range sources {
			r.names.add(s.text, false, filepath.FromSlash, s.Source)
			j.Sources = append(j.Sources, s.Source)
		}
	}
	if len(j.Sources) == 0 {
		return r.explain(ctx, nil)
	}
	r.names.targetAt = to.At
	c, err := r.servers.Connect(ctx, to, r.toWrite(files))
	if err != nil {
		return err
	}
	p, err := c.Target(ctx, to, len(j.Sources)+len(r.refused) > 1)
	if err != nil {
		return err
	}
	j.To, j.Target = p.Tree, p.Name
	return r.copy(ctx, j)
}

// Cp copies what is at locations to another, all of one protocol. A server copies its files
// itself, if it can.
func Cp(ctx context.Context, cfg Config, from []remote.Location, to remote.Location) error {
	r := newRun(&cfg, to.Protocol, "cp")
	defer r.close()
	c, err := r.servers.Connect(ctx, to, remote.Intent{})
	if err != nil {
		return err
	}
	p, err := c.Target(ctx, to, len(from) > 1)
	if err != nil {
		return err
	}
	r.names.targetAt = to.At
	j := treecopy.Job{To: p.Tree, Origin: to.Origin(), Target: p.Name}
	for _, l := range from {
		same, err := r.servers.Same(ctx, l, to)
		if err != nil {
			return err
		}
		source, err := r.cpSource(ctx, l, c, same)
		if err != nil {
			return err
		}
		if same { // however it is spelled
			source.Origin = j.Origin
		}
		r.names.add(l.Text, l.IsURL(), l.At, source)
		j.Sources = append(j.Sources, source)
	}
	return r.copy(ctx, j)
}

// cpSource returns a location as a source, on the server of the target if it is the same.
func (r *run) cpSource(ctx context.Context, l remote.Location, target remote.Server, same bool) (treecopy.Source, error) {
	if !same {
		return r.remoteSource(ctx, l, "")
	}
	p, err := target.Source(ctx, l)
	return treecopy.Source{Tree: p.Tree, Name: p.Name}, err
}

// movesAll reports whether all of a file is going to be moved, as fast as it can be.
func (r *run) movesAll() bool {
	return !r.DryRun && !r.Continue && r.Unchanged == treecopy.Never && r.Limit == 0
}

// toRead says that a file is going to be read, if it is known which.
func (r *run) toRead(first string) remote.Intent {
	i := remote.Intent{First: first}
	if first != "" && r.movesAll() {
		i.Expect = sftpclient.FirstSize
	}
	return i
}

// toWrite says that local files are going to be written. It does not count those in
// directories.
func (r *run) toWrite(files []string) (i remote.Intent) {
	if !r.movesAll() {
		return i
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			i.Expect = max(i.Expect, info.Size())
		}
	}
	return i
}

// remoteSource returns a location as a source. first is the file that is going to
// be read there first, if that is known.
func (r *run) remoteSource(ctx context.Context, l remote.Location, first string) (treecopy.Source, error) {
	if l.Protocol == remote.HTTP && l.Path == "" && !r.Recursive {
		return treecopy.Source{}, failure.Usage.Errorf("%s %v: the URL names no file; -r fetches all that the server lists", r.names.verb, l)
	}
	c, err := r.servers.Connect(ctx, l, r.toRead(first))
	if err != nil {
		return treecopy.Source{}, err
	}
	p, err := c.Source(ctx, l)
	if err != nil {
		return treecopy.Source{}, err
	}
	return treecopy.Source{Tree: p.Tree, Name: p.Name, Origin: l.Origin()}, nil
}

// DefaultParallel is how many files are moved at once over TFTP, if Config does not say.
const DefaultParallel = 8

// A Config says how files are copied, and between what.
type Config struct {
	// Options are those of a copy over SFTP, HTTP or S3. Umask, FileTimes, Fatal and Replaced
	// are set here, and of Sync Recursive and, if it is Never, Unchanged.
	treecopy.Options

	Remote  remote.Config // Say and Quiet are set here
	Verbose bool          // print the name of each file
	Quiet   bool          // print nothing but errors

	// Events, if set, gets what is done, and then nothing is printed but errors.
	Events *events.Log

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}
