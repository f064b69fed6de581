package remote

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/internal/glob"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A Server has files, which go by the names that the server uses. It is the same for
// all protocols.
type Server interface {
	glob.Tree
	Readlink(ctx context.Context, name string) (string, error)
	Remove(ctx context.Context, name string) error // a file, and never a directory

	// Path returns the name of a location.
	Path(ctx context.Context, l Location) (string, error)

	// Source returns where a location is found, and Target where files are copied to: to
	// the name of the location, or, of several, below it.
	Source(ctx context.Context, l Location) (Place, error)
	Target(ctx context.Context, l Location, several bool) (Place, error)

	// List lists a directory. With details it has the sizes and times of all entries, as
	// far as the server reports them.
	List(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error)

	// Open opens a file to be read from its start, and Create begins one that appears when
	// it is whole, or is written where it is.
	Open(ctx context.Context, name string) (store.File, error)
	Create(ctx context.Context, name string, inPlace bool) (store.Upload, error)

	// HasModes reports whether files have permissions.
	HasModes() bool

	Close() error
}

// A Renamer can give files other names, on one server.
type Renamer interface {
	Rename(ctx context.Context, from, to string) error // and replace what has the name
	Move(ctx context.Context, from, to string) error   // and replace nothing
}

// A Linker can give files further names, and make symbolic links.
type Linker interface {
	Link(ctx context.Context, from, to string) error
	Symlink(ctx context.Context, target, name string) error
}

// A Chmoder can set permissions. It follows symbolic links.
type Chmoder interface {
	Chmod(ctx context.Context, name string, mode fs.FileMode) error
}

// A DirMaker can make directories.
type DirMaker interface {
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error
	MkdirAll(ctx context.Context, name string, perm fs.FileMode) error
}

// A DirRemover can remove directories, with all that is in them.
type DirRemover interface {
	RemoveAll(ctx context.Context, name string) error
}

// A SpaceTeller knows how much room there is.
type SpaceTeller interface {
	Space(ctx context.Context, name string) (store.Space, error)
}

// An OwnerNamer knows the names of users and groups.
type OwnerNamer interface {
	OwnerNames(ctx context.Context, uids, gids []uint32) (users, groups []string, err error)
}

// A Tree is what is copied from, and to.
type Tree interface {
	treecopy.SourceTree
	treecopy.TargetTree
}

// A Place is a name in a tree of a server.
type Place struct {
	Tree Tree
	Dir  string // what the server calls the tree: "", or a name that ends in a slash
	Name string // in the tree
}

// inRoot returns what an absolute name is called in the tree of everything: there
// is nothing above that. An end of / or /. is kept, for it has a meaning.
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

// ofSeveral returns a place for several files: it is a directory, or becomes one.
func (p Place) ofSeveral() Place {
	if p.Name != "" && !strings.HasSuffix(p.Name, "/") {
		p.Name += "/"
	}
	return p
}

// targetOf returns the place of a location that files are sent to, on a server whose directories
// come with their files, and the name there that the user says is a directory's; "" for none.
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

// Find returns what a location stands for: its own name, not looked up yet, or all that
// it matches as a pattern.
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

// Describe describes what [Find] returned, or with follow what that leads to. The server
// is asked unless a listing has told already.
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
