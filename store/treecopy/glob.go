package treecopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/haul-project/haul/store"
)

// patternChars are those that make a pattern of a name.
const patternChars = `*?[\`

// A glob finds what a pattern matches.
type glob struct {
	tree store.Tree
	ctx  context.Context
	dirs bool // only directories

	found []match
	err   error // the first that kept it from looking somewhere
}

// A match has the name, and what that leads to.
type match struct {
	name string
	info fs.FileInfo
}

// match finds what a pattern matches, in order of the names. An error means that
// it is none, or matches too much.
func (g *glob) match(pattern string) error {
	elems := strings.Split(pattern, "/")
	elems = slices.CompactFunc(elems, func(a, b string) bool { return a == "**" && b == "**" })
	for _, e := range elems {
		if _, err := path.Match(e, ""); err != nil {
			return fmt.Errorf("%w, and no file has that name", err)
		}
	}
	if err := g.below(".", elems, 0); err != nil {
		return err
	}
	slices.SortFunc(g.found, func(a, b match) int { return cmp.Compare(a.name, b.name) })
	g.found = slices.CompactFunc(g.found, func(a, b match) bool { return a.name == b.name })
	return nil
}

// below finds what the elements of a pattern match in a directory.
func (g *glob) below(dir string, elems []string, depth int) error {
	if depth > maxDepth {
		g.note(fmt.Errorf("deeper than %d directories", maxDepth))
		return nil
	}
	// What is no pattern needs no listing.
	for len(elems) > 1 && !strings.ContainsAny(elems[0], patternChars) {
		dir, elems = path.Join(dir, elems[0]), elems[1:]
		depth++
	}
	elem, rest := elems[0], elems[1:]
	switch {
	case !strings.ContainsAny(elem, patternChars):
		return g.add(path.Join(dir, elem), nil)
	case elem == "**" && len(rest) == 0:
		rest, elem = nil, "*" // all that is below, each in its directory
		return g.anyDepth(dir, []string{elem}, depth)
	case elem == "**":
		return g.anyDepth(dir, rest, depth)
	}
	var into []string
	err := g.each(dir, func(fi fs.FileInfo) error {
		name := fi.Name()
		if hidden(name) && !hidden(elem) {
			return nil
		}
		if ok, _ := path.Match(elem, name); !ok {
			return nil
		}
		name = path.Join(dir, name)
		if len(rest) == 0 {
			return g.add(name, fi)
		}
		if fi.IsDir() || fi.Mode().Type() != 0 { // a link may lead to one
			into = append(into, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range into {
		if err := g.below(name, rest, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// anyDepth finds what elements match in a directory, and in all below it.
// Symbolic links are not followed there.
func (g *glob) anyDepth(dir string, elems []string, depth int) error {
	if err := g.below(dir, elems, depth); err != nil {
		return err
	}
	var into []string
	err := g.each(dir, func(fi fs.FileInfo) error {
		if fi.IsDir() && !hidden(fi.Name()) {
			into = append(into, path.Join(dir, fi.Name()))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range into {
		if depth >= maxDepth {
			g.note(fmt.Errorf("deeper than %d directories", maxDepth))
			return nil
		}
		if err := g.anyDepth(name, elems, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// hidden reports whether a name, or a pattern, begins with a dot.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// each calls f with the entries of a directory. What cannot be listed matches
// nothing.
func (g *glob) each(dir string, f func(fs.FileInfo) error) error {
	list, err := g.tree.OpenDir(g.ctx, dir)
	if err != nil {
		g.note(err)
		return nil
	}
	defer list.Close()
	into := make([]fs.FileInfo, listBatch)
	for {
		n, err := list.Next(into)
		for _, fi := range into[:n] {
			if unsafeName(fi.Name()) != nil {
				continue
			}
			if err := f(fi); err != nil {
				return err
			}
		}
		if err == nil {
			err = g.ctx.Err()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			g.note(err)
			return nil
		}
	}
}

// add adds a match. What listed says of a file or a directory is true of what it
// leads to.
func (g *glob) add(name string, listed fs.FileInfo) error {
	fi := listed
	if fi == nil || fi.Mode().Type() != 0 && !fi.IsDir() {
		var err error
		if fi, err = g.tree.Stat(g.ctx, name); err != nil {
			g.note(err)
			return nil
		}
	}
	if g.dirs && !fi.IsDir() {
		return nil
	}
	if len(g.found) == maxMatches {
		return fmt.Errorf("more than %d names match: copy the directory as a whole", maxMatches)
	}
	g.found = append(g.found, match{name, fi})
	return nil
}

func (g *glob) note(err error) {
	if g.err == nil && !errors.Is(err, fs.ErrNotExist) {
		g.err = err
	}
}
