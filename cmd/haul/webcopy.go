package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// webSource returns a location on a web server as a source.
func (r *copyRun) webSource(l location, first string) (treecopy.Source, error) {
	if l.path == "" && !r.recursive {
		return treecopy.Source{}, usagef("get %v: the URL names no file; -r fetches all that the server lists", l)
	}
	if first != "" {
		first = l.webName() // as the tree will be asked
	}
	c, err := r.webs.connect(l, first)
	if err != nil {
		return treecopy.Source{}, err
	}
	return treecopy.Source{Tree: c, Name: l.path, Origin: fmt.Sprintf("%q", l.site)}, nil
}

// replacedOnWeb reports whether an error says that a web server has another
// version of a file by now, of which what it says may be shorter.
func replacedOnWeb(err error) bool {
	return errors.Is(err, webclient.ErrChanged) || errors.Is(err, treecopy.ErrChanged)
}

// onlyHTTP refuses flags that mean nothing for files that are sent over HTTP.
func (r *copyRun) onlyHTTP() error {
	for _, f := range []struct {
		set       bool
		name, why string
	}{
		{r.preserve, "--preserve", "HTTP cannot set permissions or times"},
		{r.sparse, "--sparse", "HTTP sends every byte of a file"},
		{treecopy.Unchanged(r.unchanged) == treecopy.SizeAndTime, "--unchanged", "over HTTP a file has the time of its upload, which says nothing of its content; --unchanged=hash compares that"},
		{r.inPlace, "--in-place", "HTTP has no way to change a part of a file"},
		{r.fsync, "--fsync", "HTTP has no way to ask for that"},
		{r.links == linksFlag(treecopy.KeepLinks), "--links keep", "HTTP has no symbolic links"},
	} {
		if f.set {
			return usagef("%s: %s", f.name, f.why)
		}
	}
	return nil
}

// webTarget returns where on a web server files are sent to.
func (r *copyRun) webTarget(to location, several bool) (store.Tree, string, error) {
	c, err := r.webs.connect(to, "")
	if err != nil {
		return nil, "", err
	}
	name := to.path
	if several && !to.isDirName() {
		name += "/"
	}
	t := webTree{Client: c}
	if several || to.isDirName() {
		t.dir = to.webName()
	}
	return t, name, nil
}

// A webTree is a web server that files are sent to. Not all of those tell what
// they have, and some know of no directories.
type webTree struct {
	*webclient.Client
	dir string // a name that the user says is a directory's; "" for none
}

// Stat takes what the server will not tell for missing: if it is there, the PUT
// will tell.
func (t webTree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == t.dir {
		return assumedDir(path.Base(name)), nil
	}
	fi, err := t.Client.Stat(ctx, name)
	if err != nil && !errors.Is(err, webclient.ErrLogin) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported)) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fi, err
}

// Lstat is Stat.
func (t webTree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return t.Stat(ctx, name)
}

// An assumedDir is a directory that is said to be there.
type assumedDir string

func (d assumedDir) Name() string     { return string(d) }
func (assumedDir) Size() int64        { return 0 }
func (assumedDir) Mode() fs.FileMode  { return fs.ModeDir | 0o755 }
func (assumedDir) ModTime() time.Time { return time.Time{} }
func (assumedDir) IsDir() bool        { return true }
func (assumedDir) Sys() any           { return nil }

// getWebStream fetches one file to standard output, a pipe or a device, which
// messages call name.
func (r *copyRun) getWebStream(ctx context.Context, from location, local, name string) error {
	if from.isDirName() {
		return usagef("get %v: that is a directory; only a file can go to %s", from, name)
	}
	file := from.webName()
	c, err := r.webs.connect(from, file)
	if err != nil {
		return err
	}
	f, err := c.Open(ctx, file)
	if err != nil {
		return asRemote(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return asRemote(err)
	}
	to := r.stdout
	if local != "-" {
		pipe, err := openPipe(ctx, local)
		if err != nil {
			return err
		}
		defer pipe.Close()
		to = pipe
	}
	show := r.newProgress(local != "-" || !console.IsTerminal(r.stdout))
	line := show.Begin(console.Visible(path.Base(file)))
	w := &pacedWriter{ctx: ctx, w: to, note: func(n int64) { line.Update(n, max(info.Size(), 0)) }}
	w.pace.Set(int64(r.limit))
	n, err := readAll(f, w, name)
	if replacedOnWeb(err) {
		err = fmt.Errorf("%w; %s", err, afterReplaced(n, name))
	}
	line.End(n, err)
	show.Wait()
	return err
}

// afterReplaced says what to do about a file that has another version before all of it
// has gone to a stream, which messages call name. The rest is of no use to what is there.
func afterReplaced(sent int64, name string) string {
	if sent == 0 {
		return "nothing has gone to " + name + ": run it again"
	}
	return fmt.Sprintf("%d bytes of what it was before have gone to %s, which cannot take them back: "+
		"discard them and run it again, or fetch to a file, for which haul begins anew by itself", sent, name)
}

// readAll writes a remote file to w, which messages call name.
func readAll(f store.File, w io.Writer, name string) (at int64, err error) {
	buf := make([]byte, streamBytes)
	for {
		n, err := f.ReadAt(buf, at)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				if errors.Is(err, context.Canceled) {
					return at, err
				}
				return at, localError{fmt.Errorf("write %s: %w", name, err)}
			}
			at += int64(n)
		}
		if err == io.EOF {
			return at, nil
		}
		if err != nil {
			return at, asRemote(err)
		}
	}
}

// putWebStream sends standard input to a file on a web server.
func (r *copyRun) putWebStream(ctx context.Context, to location) error {
	if err := r.onlyHTTP(); err != nil {
		return err
	}
	if to.isDirName() || strings.HasSuffix(to.path, "/..") {
		return usagef("put - %v: standard input has no name; give the file one", to)
	}
	c, err := r.webs.connect(to, "")
	if err != nil {
		return err
	}
	name := to.webName()
	return r.showStream(ctx, name, func() (store.Upload, error) { return c.Create(ctx, name, store.Create{}) })
}
