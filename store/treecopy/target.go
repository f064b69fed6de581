package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/store"
)

// A target is a [TargetTree] with all that is asked of one without ImpliedDirs.
type target interface {
	TargetTree
	editor
}

type editor interface {
	OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error)
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error
	Remove(ctx context.Context, name string) error
	RemoveDir(ctx context.Context, name string) error
	Rename(ctx context.Context, from, to string, replace bool) error
	Symlink(ctx context.Context, target, name string) error
	Readlink(ctx context.Context, name string) (string, error)
	SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error
}

// target returns the target, or why it cannot have what the options ask for.
func (j *Job) target() (target, error) {
	if j.To == nil {
		return nil, fmt.Errorf("copy to %s: %w: no tree", printable(j.Target), fs.ErrInvalid)
	}
	if t, ok := j.To.(target); ok {
		return t, nil
	}
	o := &j.Options
	if !j.To.Features().ImpliedDirs || o.InPlace || o.PreserveMode || o.fileTimes() || o.Links == KeepLinks {
		return nil, fmt.Errorf("copy to %s: %w: the target takes whole files only, without permissions and times, and no symbolic links", printable(j.Target), errors.ErrUnsupported)
	}
	return struct { // of the editor nothing is asked
		TargetTree
		editor
	}{TargetTree: j.To}, nil
}

// A place is where things go.
type place struct {
	name  string      // in the job's tree
	info  fs.FileInfo // of what it leads to; nil if there is nothing yet
	slash bool        // it must be a directory
	exact bool        // the one source becomes it, rather than going below it
	below bool        // it was said that sources go below it: by a slash
	mark  string      // that it has of an earlier copy; "" for none
}

// findTarget looks what the target is.
func (c *copier) findTarget(target string) (*place, error) {
	name, slash, _, err := cleanName(target)
	if err != nil {
		return nil, fmt.Errorf("copy to %s: %w", printable(target), err)
	}
	p := &place{name: name, slash: slash || name == ".", below: strings.HasSuffix(target, "/") || strings.HasSuffix(target, "/.")}
	fi, err := c.to.Stat(c.ctx, name)
	switch {
	case err == nil:
		p.info = fi
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("look at the target: %w", err)
	}
	if p.slash && p.info != nil && !p.info.IsDir() {
		return nil, fmt.Errorf("copy to %s: that names a directory, and a file %w", printable(target), ErrConflict)
	}
	return p, nil
}

// lookAbove returns the error that a copy would run into if the directory that its
// target goes into is not there.
func (c *copier) lookAbove(name string) error {
	above := path.Dir(name)
	fi, err := c.to.Stat(c.ctx, above)
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%w: not a directory", fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("copy to %s: the directory %s: %w", printable(name), printable(above), err)
	}
	return nil
}

// settle decides whether the sources, of which so many were named, go below p, or
// the one becomes it.
func (p *place) settle(named int, starts []start) error {
	if p.exact {
		return nil // an earlier copy has decided it
	}
	isDir := p.info != nil && p.info.IsDir()
	if !p.slash && !isDir {
		switch {
		case named > 1 || len(starts) > 1:
			if p.info == nil {
				return fmt.Errorf("copy to %s: several sources go into a directory, and there is none of that name; a slash behind the name makes it: %w", printable(p.name), fs.ErrNotExist)
			}
			return fmt.Errorf("copy to %s: several sources go into a directory, and a file %w", printable(p.name), ErrConflict)
		case p.info != nil && starts[0].isDir():
			return fmt.Errorf("copy %s to %s: the first is a directory, and %w", printable(starts[0].display()), printable(p.name), inTheWay(p.info))
		}
		p.exact = true
		return nil
	}
	if len(starts) == 1 && starts[0].contents && p.info == nil {
		p.exact = true
		return nil
	}
	first := make(map[string]*start, len(starts))
	for i := range starts {
		s := &starts[i]
		as := s.as
		if s.contents {
			as = "."
		}
		if other := first[as]; other != nil {
			return fmt.Errorf("%s and %s would both become %s: %w; copy them to different directories",
				printable(other.display()), printable(s.display()), printable(path.Join(p.name, as)), errSameName)
		}
		first[as] = s
	}
	return nil
}

// errSameName says that two sources would become the same.
var errSameName error = sameNameError{}

type sameNameError struct{}

func (sameNameError) Error() string        { return "same name twice" }
func (sameNameError) Is(target error) bool { return target == ErrConflict }

// cleanName returns a name as package store wants it, and whether it ended in a
// slash, or in a slash and a dot.
func cleanName(name string) (clean string, slash, dot bool, err error) {
	dot = name == "" || name == "." || strings.HasSuffix(name, "/.")
	slash = dot || strings.HasSuffix(name, "/")
	if name == "" {
		return ".", slash, dot, nil
	}
	clean = path.Clean(name)
	switch {
	case strings.HasPrefix(clean, "/"):
		return "", false, false, fmt.Errorf("%w: a name in a tree does not begin with a slash", fs.ErrInvalid)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", false, false, fmt.Errorf("%w: it leads out of the tree", fs.ErrInvalid)
	case strings.IndexByte(clean, 0) >= 0:
		return "", false, false, fmt.Errorf("%w: a NUL in a name", fs.ErrInvalid)
	}
	return clean, slash, dot, nil
}
