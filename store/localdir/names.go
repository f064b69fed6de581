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

// isTemp reports whether the last element of name is the name of a temporary file, or might be
// treated as one by a file system.
func isTemp(name string) bool {
	return tempname.May(name, tempname.Part, tempname.Keep, tempname.Checkpoint)
}

// checkOld returns an error if name cannot be the name of a file that callers may see.
func checkOld(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = fs.ErrNotExist
	}
	return err
}

// checkNew returns an error if a new file may not have the name.
func checkNew(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = rules.ErrReserved
	}
	return err
}

// checkMovable is checkOld for names that must not be the root.
func checkMovable(ctx context.Context, name string) error {
	err := checkOld(ctx, name)
	if err == nil && name == "." {
		err = rules.ErrRoot
	}
	return err
}

// resolve finds the directory of a file that is to be written, and the file's name in it. With
// follow, it follows symbolic links at the end of name. The caller closes dir, unless there is an
// error.
func (d *Dir) resolve(name string, follow bool) (dir directory, base string, err error) {
	for range maxLinks + 1 {
		parent, base := path.Split(name)
		dir, base, err := d.openParent(parent, base)
		if err != nil || !follow {
			return dir, base, err
		}
		link, err := dir.Readlink(base)
		if err != nil { // not a link
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
		// Join, but do not clean: the meaning of ".." depends on the links before it, which root
		// resolves.
		name = parent + link
	}
	return nil, "", syscall.ELOOP
}

// openParent opens parent, which is empty or ends in a slash.
func (p *pathCalls) openParent(parent, base string) (directory, string, error) {
	if base == "" || base == ".." { // a link may lead there
		return nil, "", store.ErrNotRegular
	}
	// With "." at the end, root opens parent only if it is a directory. Without it, root would open
	// a pipe of that name, and wait.
	dir, err := p.root.directory("./" + parent + ".")
	return dir, base, err
}
