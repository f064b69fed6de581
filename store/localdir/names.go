package localdir

import (
	"context"
	"io/fs"
	"path"
	"syscall"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// isTemp reports whether the last element of name is the name of a temporary file, or a name that a
// file system might treat as the same.
func isTemp(name string) bool {
	return tempname.May(name, tempname.Part, tempname.Keep, tempname.Checkpoint)
}

// checkOld returns an error if name is invalid, or is the name of a temporary file, which callers
// cannot see.
func checkOld(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = fs.ErrNotExist
	}
	return err
}

// checkNew returns an error if name is invalid or reserved for a temporary file, and so cannot be
// given to a new file.
func checkNew(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = rules.ErrReserved
	}
	return err
}

// checkMovable is like checkOld, but also returns an error for the root.
func checkMovable(ctx context.Context, name string) error {
	err := checkOld(ctx, name)
	if err == nil && name == "." {
		err = rules.ErrRoot
	}
	return err
}

// resolve opens the directory of a file that is to be written, and returns that directory and the
// file's name in it. With follow, it follows symbolic links at the end of name. The caller must
// close dir, unless there is an error.
func (d *Dir) resolve(name string, follow bool) (dir directory, base string, err error) {
	for range maxLinks + 1 {
		parent, base := path.Split(name)
		dir, base, err := d.openParent(parent, base)
		if err != nil || !follow {
			return dir, base, err
		}
		link, err := dir.Readlink(base)
		if err != nil { // the name is not a link, or does not exist
			return dir, base, nil
		}
		_ = dir.Close()
		link, absolute, err := linkText(link)
		switch {
		case err != nil, absolute && !d.LinksFromRoot:
			return nil, "", rules.ErrOutside
		case absolute:
			parent = ""
		}
		// The names are joined but not cleaned: the meaning of ".." depends on the links before it,
		// and root resolves these.
		name = parent + link
	}
	return nil, "", syscall.ELOOP
}

// openParent opens the directory `parent`, which is empty or ends in a slash, and returns the open
// directory together with base. It returns an error if base cannot be the name of a file.
func (p *pathCalls) openParent(parent, base string) (directory, string, error) {
	if base == "" || base == ".." { // the text of a link may end like this
		return nil, "", store.ErrNotRegular
	}
	// With "." at the end, root opens parent only if it is a directory. Without it, root would open
	// a pipe of that name, and wait for its other end.
	dir, err := p.root.directory("./" + parent + ".")
	return dir, base, err
}
