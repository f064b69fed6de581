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

// A Server gives access to all files of a server, by the server's own names, which may be absolute
// and contain "..". The interface is the same for all protocols.
type Server interface {
	store.Tree
	Capabilities() store.Capabilities

	// Path returns the name of a location on the server.
	Path(ctx context.Context, l Location) (string, error)

	// Source returns the place of a location's files. Target returns the place to copy files to:
	// the location's name or, if several is set, a directory of that name.
	Source(ctx context.Context, l Location) (Place, error)
	Target(ctx context.Context, l Location, several bool) (Place, error)

	// List lists a directory. If `details` is set, the entries include all sizes and times that the
	// server reports.
	List(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error)

	Close() error
}

// Begin begins an upload. The file gets the name `name` when the upload is complete. If inPlace is
// set, the data is written directly to the file of that name, if the server supports that.
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

// An openUpload is an upload that writes to the final file itself.
type openUpload struct{ store.Handle }

// Commit closes the file. It returns when the server has received all data.
func (u openUpload) Commit() error { return u.Handle.Close() }

// A Place is a file or directory on a server: a tree, and a name in the tree. The tree may begin
// below the root of the server.
type Place struct {
	Tree store.Tree
	Dir  string // the server's directory at which Tree begins: "", or a name that ends in a slash
	Name string // the name in Tree
}

// inRoot turns an absolute path into a name relative to the root directory. It keeps / or /. at the
// end, because that has a meaning.
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

// ofSeveral returns the place with a name that ends in a slash, because several files can only go
// into a directory. The directory need not exist.
func (p Place) ofSeveral() Place {
	if p.Name != "" && !strings.HasSuffix(p.Name, "/") {
		p.Name += "/"
	}
	return p
}

// targetOf returns the place of a copy's target, on a server whose directories exist as soon as
// they contain a file. dir is the place's name if the user typed it as a directory, and ""
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

// Find returns the names that a location stands for: the matches of a pattern or, without a
// pattern, the location's own name. It does not check whether that name exists.
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

// Describe returns a description of a name that [Find] has returned. If `follow` is set, it follows
// a symbolic link. It makes a request only if the listing that Find has read does not describe the
// file.
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

// An Intent says which files a connection will transfer, as far as that is known, so that the
// connection can be prepared for them.
type Intent struct {
	First  string // name of the file that will be read first; "" if it is not known
	Expect int64  // size of the largest file to transfer; sftpclient.FirstSize means the size of First
}
