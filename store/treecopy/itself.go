package treecopy

import (
	"context"
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
			c.realTop = realOf(c.ctx, given(c.to), p.name)
		}
		to, from := c.realTop, realOf(c.ctx, s.tree, s.name)
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

// Nested reports whether two directories are one, or one is in the other. Their trees are of one
// user on one server. A name need not exist.
func Nested(ctx context.Context, aTree any, a string, bTree any, b string) bool {
	a, b = realOf(ctx, aTree, a), realOf(ctx, bTree, b)
	return a == b || isBelow(a, b) || isBelow(b, a)
}

// realOf returns the path of a name in a tree, without symbolic links as far as the tree can
// tell. Of a name that is not there it asks for the directory above.
func realOf(ctx context.Context, tree any, name string) string {
	name = path.Clean(name)
	r, ok := tree.(Resolver)
	if !ok {
		return path.Join("/", name)
	}
	real, err := r.RealPath(ctx, name)
	if above := path.Dir(name); err != nil && above != name {
		return path.Join(realOf(ctx, tree, above), path.Base(name))
	}
	return path.Join("/", real)
}

// isBelow reports whether a path is below another.
func isBelow(name, dir string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
