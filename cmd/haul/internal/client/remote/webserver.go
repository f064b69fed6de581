package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web/webclient"
)

// A webServer is an HTTP server. It has no modes, links or owners, and removes files one at a time.
type webServer struct {
	store.Tree
	client *webclient.Client
}

func (w webServer) Close() error { return w.client.Close() }

// Path returns the name of a location on the server.
func (webServer) Path(_ context.Context, l Location) (string, error) { return l.webName(), nil }

// Source returns the location's place below the root.
func (w webServer) Source(_ context.Context, l Location) (Place, error) {
	return Place{Tree: w.Tree, Name: inRoot("/" + l.Path)}, nil
}

// Target does the same as Source. In addition, if the user typed the name of a directory, Target
// assumes that the directory exists.
func (w webServer) Target(_ context.Context, l Location, several bool) (Place, error) {
	p, dir := targetOf(l, several)
	p.Tree = webTree{w.Tree, dir}
	return p, nil
}

// Capabilities returns the capabilities of files over HTTP.
func (w webServer) Capabilities() store.Capabilities { return store.CapabilitiesOf(w.Tree) }

// listBatch is how many entries of a directory are read at once.
const listBatch = 256

// List lists a directory. If `details` is set, it may make a request for each entry, to find out
// the size and the time.
func (w webServer) List(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error) {
	if !details {
		return w.ReadDir(ctx, dir)
	}
	return listAll(w.OpenDir(ctx, dir))
}

// listAll returns the entries of an open directory, or err if the directory could not be opened.
func listAll(entries store.Entries, err error) ([]fs.DirEntry, error) {
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

// A webTree is a web server as the target of a copy. It makes assumptions, because some web servers
// do not report which files they have, and some have no directories.
type webTree struct {
	store.Tree
	dir string // name of the target, if the user typed it as a directory; otherwise ""
}

// Capabilities returns the capabilities of the server.
func (t webTree) Capabilities() store.Capabilities { return store.CapabilitiesOf(t.Tree) }

// Stat describes a file. If the server refuses the request, Stat reports the file as missing. If
// the file exists after all, the later PUT reports that.
func (t webTree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == t.dir {
		return assumedDir(path.Base(name)), nil
	}
	fi, err := t.Tree.Stat(ctx, name)
	if err != nil && !errors.Is(err, webclient.ErrLogin) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported)) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fi, err
}

// Lstat is the same as Stat, because HTTP has no symbolic links.
func (t webTree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return t.Stat(ctx, name)
}

// An assumedDir is the description of a directory that is assumed to exist. The string is its name.
type assumedDir string

func (d assumedDir) Name() string     { return string(d) }
func (assumedDir) Size() int64        { return 0 }
func (assumedDir) Mode() fs.FileMode  { return fs.ModeDir | 0o755 }
func (assumedDir) ModTime() time.Time { return time.Time{} }
func (assumedDir) IsDir() bool        { return true }
func (assumedDir) Sys() any           { return nil }
