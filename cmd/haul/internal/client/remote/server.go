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

// A Server is the tree of all files of a server. It uses the server's names, which may be absolute
// and contain "..". The interface is the same for all protocols.
type Server interface {
	store.Tree
	Capabilities() store.Capabilities

	// Path returns the name of a location on the server.
	Path(ctx context.Context, l Location) (string, error)

	// Source returns the place of a location's files. Target returns the place to copy files to:
	// the location's name or, for several files, a directory of that name.
	Source(ctx context.Context, l Location) (Place, error)
	Target(ctx context.Context, l Location, several bool) (Place, error)

	// List lists a directory. With details, the entries include all sizes and times that the
	// server reports.
	List(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error)

	Close() error
}

// Begin begins a file of that name. The file appears when it is complete. With inPlace, it is
// written in place if the server supports that.
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

// An openUpload is an upload that writes a file in place.
type openUpload struct{ store.Handle }

// Commit waits until the server has all data.
func (u openUpload) Commit() error { return u.Handle.Close() }

// A Place is a name in a tree of a server.
type Place struct {
	Tree store.Tree
	Dir  string // the tree's directory on the server: "", or a name that ends in a slash
	Name string // in the tree
}

// inRoot returns the name of an absolute path relative to the root directory. It keeps a trailing /
// or /., because that has a meaning.
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

// ofSeveral returns the place as a directory for several files. The directory may be new.
func (p Place) ofSeveral() Place {
	if p.Name != "" && !strings.HasSuffix(p.Name, "/") {
		p.Name += "/"
	}
	return p
}

// targetOf returns the place of a copy's target, on a server whose directories exist as soon as
// they contain a file. dir is the place's name if the user wrote it as a directory, and ""
// otherwise.
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

// Find returns the names that a location stands for: all matches of a pattern, or else the
// location's own name, which it does not look up.
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

// Describe describes a name that [Find] returned. With follow it follows a symbolic link. It asks
// the server only if a listing has not described the name yet.
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

// An Intent says what a connection is for, as far as that is known.
type Intent struct {
	First  string // bytes of one file that will be moved; sftpclient.FirstSize for all of First
	Expect int64  // bytes of one file to be moved; sftpclient.FirstSize for all of First
}
