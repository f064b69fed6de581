package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

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

// placeSources decides whether the sources, of which so many were named, go below p, or
// the one becomes it.
func (p *place) placeSources(named int, starts []start) error {
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
