package remote

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/internal/glob"
	"github.com/haul-project/haul/store"
)

// A Server is a tree of all files of a server, under the names that the server uses: they may be
// absolute, and contain "..". Its interface is the same for all protocols.
type Server interface {
	store.Tree
	Capabilities() store.Capabilities

	// Path returns the name of a location.
	Path(ctx context.Context, l Location) (string, error)

	// Source returns where a location is found, and Target where files are copied to: the
	// name of the location or, for several files, below it.
	Source(ctx context.Context, l Location) (Place, error)
	Target(ctx context.Context, l Location, several bool) (Place, error)

	// List lists a directory. With details it has the sizes and times of all entries, as
	// far as the server reports them.
	List(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error)

	Close() error
}

// Begin begins a file of that name. It appears when it is whole or, if the server supports that, it is
// written in place.
func Begin(ctx context.Context, s Server, name string, inPlace bool) (store.Upload, error) {
	if inPlace {
		h, err := s.OpenFile(ctx, name, store.Access{Write: true, Create: true, Truncate: true, Perm: store.UserPerm()})
		if err == nil {
			return openUpload{h}, nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
	}
	return s.Create(ctx, name, store.Create{Perm: store.UserPerm()})
}

// An openUpload is a file that is written in place, as an upload.
type openUpload struct{ store.Handle }

// Commit waits until the server has all that was written.
func (u openUpload) Commit() error { return u.Handle.Close() }

// A Place is a name in a tree of a server.
type Place struct {
	Tree store.Tree
	Dir  string // name of the tree on the server: "", or a name that ends in a slash
	Name string // in the tree
}

// inRoot returns the name of an absolute path in the tree of the root directory. It keeps a
// trailing / or /., which has a meaning.
func inRoot(name string) string {
	end := ""
	for _, e := range []string{"/.", "/"} {
		if strings.HasSuffix(name, e) {
			end = e
			break
		}
	}
	if clean := strings.TrimPrefix(path.Clean(name), "/"); clean != "" {
		return clean + end
	}
	return ""
}

// ofSeveral returns a place for several files: an existing or a new directory.
func (p Place) ofSeveral() Place {
	if p.Name != "" && !strings.HasSuffix(p.Name, "/") {
		p.Name += "/"
	}
	return p
}

// targetOf returns the place of a location that files are sent to, on a server whose directories
// exist from their first file on. dir is the name there if the user wrote it as a directory,
// otherwise "".
func targetOf(l Location, several bool) (p Place, dir string) {
	p.Name = inRoot("/" + l.Path)
	if several {
		p = p.ofSeveral()
	}
	if several || l.IsDirName() {
		dir = l.webName()
	}
	return p, dir
}

// Find returns the names that a location stands for: its own name, not looked up yet, or all
// matches of a pattern.
func Find(ctx context.Context, c Server, l Location) ([]glob.Match, error) {
	name, err := c.Path(ctx, l)
	if err != nil || !glob.HasMeta(name) {
		return []glob.Match{{Name: name}}, err
	}
	p, err := c.Source(ctx, l)
	if err != nil {
		return nil, err
	}
	found, err := glob.Expand(ctx, p.Tree, p.Name)
	if err != nil {
		return nil, failure.Remote.Errorf("%v: %w", l, err)
	}
	for i := range found {
		found[i].Name = p.Dir + found[i].Name
	}
	return found, nil
}

// Describe describes a name that [Find] returned, and with follow follows a symbolic link. It asks
// the server unless a listing has described it already.
func Describe(ctx context.Context, c Server, m glob.Match, follow bool) (fs.FileInfo, error) {
	ask, unclear := c.Lstat, fs.ModeIrregular
	if follow {
		ask, unclear = c.Stat, unclear|fs.ModeSymlink
	}
	if m.Info != nil && m.Info.Mode()&unclear == 0 {
		return m.Info, nil
	}
	return ask(ctx, m.Name)
}
