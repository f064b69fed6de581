package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/glob"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// A server has files, which go by the names that the server uses. It is the same for
// all protocols; what only some of them can do is an interface of its own.
type server interface {
	glob.Tree
	Readlink(ctx context.Context, name string) (string, error)
	Remove(ctx context.Context, name string) error // a file

	// path returns the name of a location.
	path(ctx context.Context, l location) (string, error)

	// place returns the directory whose tree a location is looked up in, "" or one
	// that ends in a slash, and its name there.
	place(ctx context.Context, l location) (dir, name string, err error)
	tree(dir string) tree

	// list lists a directory. With details it has the sizes and times of all entries, as
	// far as the server tells them.
	list(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error)

	// open opens a file to be read from its start, and create begins one that appears when
	// it is whole, or is written where it is.
	open(ctx context.Context, name string) (store.File, error)
	create(ctx context.Context, name string, here bool) (store.Upload, error)

	tellsModes() bool
}

// A tree is what is copied from, and to.
type tree interface {
	treecopy.SourceTree
	treecopy.TargetTree
}

// servers are the connections of one command, one for each server that it names.
type servers struct {
	ssh *remotes
	web *webs
}

// close ends all connections, and leaves the terminal as it was.
func (s *servers) close() {
	s.web.close()
	s.ssh.close()
}

// connect returns the server of a location. first is the file that is going to be read
// there first, if that is known. One goroutine at a time may call it.
func (s *servers) connect(ctx context.Context, l location, first string) (server, error) {
	switch l.protocol {
	case ofSFTP:
		c, err := s.ssh.connect(ctx, l, first)
		if err != nil {
			return nil, err
		}
		return c, nil
	case ofHTTP:
		c, err := s.web.connect(l, first)
		if err != nil {
			return nil, err
		}
		return webServer{c}, nil
	}
	return nil, failure.Usage.Errorf("location %v: its protocol is not one of SFTP and HTTP", l)
}

// onServers runs a command on locations that are all of one protocol. w is nil for a
// command that HTTP has no method for.
func onServers(cmd *cobra.Command, f *sshFlags, w *webFlags, words []string, run func(context.Context, *servers, []location) error) error {
	list, err := parseLocations(words)
	if err != nil {
		return err
	}
	for _, l := range list {
		if l.protocol != list[0].protocol || !works(cmd.Name(), l.protocol) {
			return notServed(cmd.Name(), list[0], l)
		}
	}
	if err := onlyFlagsOf(list[0].protocol, cmd); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if w == nil {
		w = &webFlags{login: &f.loginFlags}
	}
	stderr := cmd.ErrOrStderr()
	s := newServers(f, w, stderr, false, func(text string) { fmt.Fprintln(stderr, "haul:", text) })
	defer s.close()
	return run(cmd.Context(), s, list)
}

// newServers returns an empty set of connections. What servers have to say goes to say;
// it may be called by several goroutines. With quiet, warnings alone do.
func newServers(f *sshFlags, w *webFlags, stderr io.Writer, quiet bool, say func(text string)) *servers {
	s := &servers{ssh: f.remotes(stderr, func(text string) {
		if !quiet {
			say(console.VisibleLines(text))
		}
	})}
	s.web = w.webs(say, s.ssh.asker)
	s.web.quiet = quiet
	return s
}

// notServed refuses a location that a command has no use for, or not beside the first.
func notServed(command string, first, l location) error {
	switch {
	case works(command, l.protocol), l.remote() && command == "probe":
		return failure.Usage.Errorf("%s %v and %v: all locations of one command have to be of the same protocol", command, first, l)
	case l.protocol == ofTFTP:
		over, advice := "SFTP and HTTP", ""
		if !works(command, ofHTTP) {
			over = "SFTP"
		}
		if command == "stat" {
			advice = `; "haul probe" prints the size of a file`
		}
		return failure.Usage.Errorf("%s %v: TFTP can only get and put single files; %s works over %s%s", command, l, command, over, advice)
	case l.protocol == ofHTTP:
		return failure.Usage.Errorf("%s %v: HTTP has no way to %s", command, l, httpLacks[command])
	}
	return failure.Usage.Errorf("%s %v: that is a local file; write sftp://HOST/PATH, https://HOST/PATH or HOST:PATH", command, l)
}

// works reports whether a command works over a protocol.
func works(command string, p protocol) bool {
	return p == ofSFTP || p == ofHTTP && httpLacks[command] == ""
}

// httpLacks are the commands that HTTP has no method for.
var httpLacks = map[string]string{
	"mv": "rename a file; get it and put it", "mkdir": "make a directory alone; put makes it with a file", "df": "tell how much room there is",
}

// at returns the server of a location and its name there.
func (s *servers) at(ctx context.Context, l location) (server, string, error) {
	c, err := s.connect(ctx, l, "")
	if err != nil {
		return nil, "", err
	}
	name, err := c.path(ctx, l)
	return c, name, err
}

// find returns the server of a location and what the location stands for there: its own
// name, not looked up yet, or all that it matches as a pattern.
func (s *servers) find(ctx context.Context, l location) (server, []glob.Match, error) {
	c, err := s.connect(ctx, l, "")
	if err != nil {
		return nil, nil, err
	}
	found, err := matches(ctx, c, l)
	return c, found, err
}

func matches(ctx context.Context, c server, l location) ([]glob.Match, error) {
	name, err := c.path(ctx, l)
	if err != nil || !glob.HasMeta(name) {
		return []glob.Match{{Name: name}}, err
	}
	dir, pattern, err := c.place(ctx, l)
	if err != nil {
		return nil, err
	}
	found, err := glob.Expand(ctx, c.tree(dir), pattern)
	switch {
	case errors.Is(err, path.ErrBadPattern):
		return nil, failure.Usage.Errorf("location %q: %w", l.text, err)
	case err != nil:
		return nil, failure.Remote.Errorf("%v: %w", l, err)
	}
	for i := range found {
		found[i].Name = dir + found[i].Name
	}
	return found, nil
}

// look describes what find returned, or with follow what that leads to. The server is
// asked unless a listing has told already.
func look(ctx context.Context, c server, m glob.Match, follow bool) (fs.FileInfo, error) {
	ask, unclear := c.Lstat, fs.ModeIrregular
	if follow {
		ask, unclear = c.Stat, unclear|fs.ModeSymlink
	}
	if m.Info != nil && m.Info.Mode()&unclear == 0 {
		return m.Info, nil
	}
	return ask(ctx, m.Name)
}

// entries describes all that a location stands for, or with follow what that leads to.
func (s *servers) entries(ctx context.Context, l location, follow bool) (c server, list []listed, errs []error) {
	c, found, err := s.find(ctx, l)
	if err != nil {
		return nil, nil, []error{err}
	}
	for _, m := range found {
		fi, err := look(ctx, c, m, follow)
		if err == nil && l.isDirName() && fi.Mode().IsRegular() {
			err = fmt.Errorf("%v: is not a directory", l)
		}
		if err != nil {
			errs = append(errs, failure.Remote.Wrap(err))
			continue
		}
		list = append(list, listed{FileInfo: fi, path: m.Name, shown: m.Name, modeless: !c.tellsModes()})
	}
	return c, list, errs
}

// A webServer is a server of HTTP. There are no modes, links or owners, and a file is
// removed alone.
type webServer struct{ *webclient.Client }

func (w webServer) tree(string) tree { return w.Client }
func (webServer) tellsModes() bool   { return false }

func (webServer) path(_ context.Context, l location) (string, error) { return l.webName(), nil }

func (webServer) place(_ context.Context, l location) (dir, name string, err error) {
	return "", inRoot("/" + l.path), nil
}

func (w webServer) open(ctx context.Context, name string) (store.File, error) {
	return w.Open(ctx, name)
}

func (w webServer) create(ctx context.Context, name string, _ bool) (store.Upload, error) {
	return w.Create(ctx, name, store.Create{})
}

// listBatch is how many entries of a directory are taken at once.
const listBatch = 256

func (w webServer) list(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error) {
	if !details {
		return w.ReadDir(ctx, dir)
	}
	entries, err := w.OpenDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer entries.Close()
	var list []fs.DirEntry
	batch := make([]fs.FileInfo, listBatch)
	for {
		n, err := entries.Next(batch)
		for _, fi := range batch[:n] {
			list = append(list, fs.FileInfoToDirEntry(fi))
		}
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
