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

// isTemp reports whether the last element of name is that of an upload under way, or
// might be for a file system.
func isTemp(name string) bool {
	return tempname.May(name, tempname.Part, tempname.Keep, tempname.Mark)
}

// checkOld returns an error if name cannot be that of something that exists,
// as far as callers may see.
func checkOld(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = fs.ErrNotExist
	}
	return err
}

// checkNew returns an error if nothing may be given the name.
func checkNew(ctx context.Context, name string) error {
	err := rules.CheckName(ctx, name)
	if err == nil && isTemp(name) {
		err = rules.ErrReserved
	}
	return err
}

// checkMovable is checkOld for what shall not be the root.
func checkMovable(ctx context.Context, name string) error {
	err := checkOld(ctx, name)
	if err == nil && name == "." {
		err = rules.ErrRoot
	}
	return err
}

// resolve finds the directory of a file that is to be written, and the name it
// has there, following symbolic links at the end of name if follow says so. The
// caller closes dir, unless there is an error.
func (d *Dir) resolve(name string, follow bool) (dir directory, base string, err error) {
	for range maxLinks + 1 {
		parent, base := path.Split(name)
		dir, base, err := d.openParent(parent, base)
		if err != nil || !follow {
			return dir, base, err
		}
		link, err := dir.Readlink(base)
		if err != nil { // no link
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
		// Joined but not cleaned: what ".." means depends on the links
		// before it, and root knows.
		name = parent + link
	}
	return nil, "", syscall.ELOOP
}

// openParent opens parent, which is empty or ends in a slash.
func (p *pathCalls) openParent(parent, base string) (directory, string, error) {
	if base == "" || base == ".." { // where a link may lead
		return nil, "", store.ErrNotRegular
	}
	// Asked for what is in parent, root opens parent as a directory only. Asked
	// for parent itself, it would open a pipe of that name, and wait.
	dir, err := p.root.directory("./" + parent + ".")
	return dir, base, err
}
