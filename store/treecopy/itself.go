package treecopy

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// apart returns the sources that would not become themselves, nor go into themselves. Where
// the trees do not show that by the files, their paths do.
func (c *copier) apart(p *place, starts []start) (kept []start) {
	for _, s := range starts {
		if c.origin == "" || s.origin != c.origin {
			kept = append(kept, s)
			continue
		}
		if c.realTop == "" {
			c.realTop = c.realOf(given(c.to), p.name)
		}
		to, from := c.realTop, c.realOf(s.tree, s.name)
		if !p.exact && !s.contents {
			to = path.Join(to, s.as)
		}
		switch {
		case to == from:
			c.failedStart(s, fmt.Errorf("%w: the source and the target are one", fs.ErrInvalid))
		case s.isDir() && isBelow(to, from):
			c.failedStart(s, fmt.Errorf("%w: the target is in it", fs.ErrInvalid))
		default:
			kept = append(kept, s)
		}
	}
	return kept
}

// failedStart reports a source that is not copied.
func (c *copier) failedStart(s start, err error) {
	c.report.failed(&Item{From: s.name, As: s.shown, Of: s.index, Type: s.info.Mode().Type()}, err)
}

// holdsTarget reports whether a directory that a symbolic link of a source leads to is where
// all is copied to, or has that in it: there would be no end.
func (c *copier) holdsTarget(d *dir, real string) bool {
	return c.realTop != "" && real != "" && d.source.origin == c.origin && (real == c.realTop || isBelow(c.realTop, real))
}

// realOf returns the path of a name in a tree, without symbolic links as far as the tree can
// tell.
func (c *copier) realOf(tree any, name string) string {
	if r, ok := tree.(Resolver); ok {
		if real, err := r.RealPath(c.ctx, name); err == nil {
			return path.Clean(real)
		}
	}
	return path.Clean("/" + name)
}

// isBelow reports whether a path is below another.
func isBelow(name, dir string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
