// Package glob finds the names in a [store.Tree], local or on a server, that match a pattern.
//
// The elements of a pattern are separated by slashes. In an element, "*", "?", "[...]" and "\" have
// the meaning that they have in [path.Match]. The element "**" stands for any number of directories,
// including zero; at the end of a pattern it stands for all names below. A name that begins with a
// dot is matched only by an element that begins with a dot, and "**" does not enter directories with
// such names. "**" does not follow symbolic links; other elements do. A pattern that ends in a slash
// matches only directories, and symbolic links to directories.
package glob

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
	"sync"

	"github.com/haul-project/haul/store"
)

const (
	// MaxMatches is how many names one pattern may match. It is bounded because they are held in
	// memory.
	MaxMatches = 1 << 20

	// maxDirs is how many directories may be listed for one pattern.
	maxDirs = 1 << 18

	// maxDepth is how many directories deep a pattern is followed.
	maxDepth = 1000

	// listBatch is how many entries of a directory are read at once.
	listBatch = 256

	// lookupsAtOnce is how many names are looked up at the same time.
	lookupsAtOnce = 16
)

// metaChars are the characters that make a name a pattern.
const metaChars = `*?[\`

// HasMeta reports whether a name may be a pattern.
func HasMeta(name string) bool { return strings.ContainsAny(name, metaChars) }

// A Tree has the methods of a [store.Tree] that are needed to expand a pattern.
type Tree interface {
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)
	OpenDir(ctx context.Context, name string) (store.Entries, error)
}

// A Match is an entry that a pattern matches.
type Match struct {
	Name string      // name of the entry within the tree
	Info fs.FileInfo // as described by Lstat, or by the listing of its directory
}

// Expand returns the entries that a name stands for, sorted by name. If there is an entry with
// exactly that name, it returns only that entry. Otherwise the name is a pattern, and Expand returns
// all entries that match it. A directory that cannot be listed contributes no matches.
//
// If nothing matches, the error is the first error from listing a directory, if there was one.
// Otherwise it wraps fs.ErrNotExist and, for a malformed pattern, path.ErrBadPattern too. If there
// are more than MaxMatches matches, Expand returns an error.
func Expand(ctx context.Context, tree Tree, name string) ([]Match, error) {
	dirs := strings.HasSuffix(name, "/")
	name = path.Clean(name)
	x := expansion{tree: tree, ctx: ctx}
	fi, err := tree.Lstat(ctx, name)
	switch {
	case err == nil:
		x.found = []Match{{name, fi}}
	case !HasMeta(name) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid):
		return nil, err
	default:
		if err := x.match(name); err != nil {
			return nil, err
		}
	}
	x.lookUp(dirs)
	if len(x.found) > 0 {
		return x.found, nil
	}
	if x.err == nil {
		x.err = noMatch{}
	}
	return nil, x.err
}

// noMatch is the error if no name matches a pattern. For errors.Is it is [fs.ErrNotExist]. It does
// not wrap that error, because the message would then say the same thing twice.
type noMatch struct{}

func (noMatch) Error() string        { return "no name matches" }
func (noMatch) Is(target error) bool { return target == fs.ErrNotExist }

// badPattern means that no entry has the name that was passed to Expand, and that this name is not
// a valid pattern either.
type badPattern struct{}

func (badPattern) Error() string {
	return `no such name, and no pattern: it has a [ without ], or ends in \`
}
func (badPattern) Is(target error) bool {
	return target == fs.ErrNotExist || target == path.ErrBadPattern
}

// An expansion is the state of one call of Expand.
type expansion struct {
	tree Tree
	ctx  context.Context

	found []Match // the matches so far; Info is nil if no listing has described the entry
	dirs  int     // number of listed directories
	err   error   // the first error from listing a directory
}

// match finds the entries that a pattern matches.
func (x *expansion) match(pattern string) error {
	elems := strings.Split(pattern, "/")
	elems = slices.CompactFunc(elems, func(a, b string) bool { return a == "**" && b == "**" })
	for _, e := range elems {
		if _, err := path.Match(e, ""); err != nil {
			return badPattern{}
		}
	}
	if err := x.below(".", elems, 0); err != nil {
		return err
	}
	if x.ctx.Err() != nil {
		return context.Cause(x.ctx)
	}
	slices.SortFunc(x.found, func(a, b Match) int { return cmp.Compare(a.Name, b.Name) })
	x.found = slices.CompactFunc(x.found, func(a, b Match) bool { return a.Name == b.Name })
	return nil
}

// below finds the entries of a directory, and of directories below it, that match the elements of a
// pattern. depth is the number of directories above.
func (x *expansion) below(dir string, elems []string, depth int) error {
	if depth > maxDepth {
		x.note(errTooDeep)
		return nil
	}
	for len(elems) > 1 && !HasMeta(elems[0]) { // a fixed name needs no listing
		dir, elems = path.Join(dir, elems[0]), elems[1:]
		depth++
	}
	elem, rest := elems[0], elems[1:]
	switch {
	case !HasMeta(elem):
		return x.add(path.Join(dir, elem), nil)
	case elem == "**" && len(rest) == 0:
		return x.anyDepth(dir, []string{"*"}, depth)
	case elem == "**":
		return x.anyDepth(dir, rest, depth)
	}
	var into []string
	err := x.each(dir, func(fi fs.FileInfo) error {
		if !matches(elem, fi.Name()) {
			return nil
		}
		name := join(dir, fi.Name())
		if len(rest) == 0 {
			return x.add(name, fi)
		}
		if fi.IsDir() || fi.Mode().Type() != 0 { // a symbolic link may lead to a directory
			into = append(into, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range into {
		if err := x.below(name, rest, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// anyDepth handles "**": it finds the entries of a directory, and of all directories below it, that
// match elems, the elements after the "**".
func (x *expansion) anyDepth(dir string, elems []string, depth int) error {
	if depth > maxDepth {
		x.note(errTooDeep)
		return nil
	}
	one := len(elems) == 1 // if so, one listing yields both the matches and the directories to enter
	if !one {
		if err := x.below(dir, elems, depth); err != nil {
			return err
		}
	}
	var into []string
	err := x.each(dir, func(fi fs.FileInfo) error {
		name := join(dir, fi.Name())
		if fi.IsDir() && !hidden(fi.Name()) {
			into = append(into, name)
		}
		if one && matches(elems[0], fi.Name()) {
			return x.add(name, fi)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range into {
		if err := x.anyDepth(name, elems, depth+1); err != nil {
			return err
		}
	}
	return nil
}

var errTooDeep = fmt.Errorf("deeper than %d directories", maxDepth)

// matches reports whether one element of a pattern matches a name.
func matches(elem, name string) bool {
	if hidden(name) && !hidden(elem) {
		return false
	}
	ok, _ := path.Match(elem, name)
	return ok
}

// hidden reports whether a name, or an element of a pattern, begins with a dot.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// each calls f for each entry of a directory whose name is valid, until f returns an error. If the
// directory cannot be listed, each records the error and returns nil.
func (x *expansion) each(dir string, f func(fs.FileInfo) error) error {
	if x.dirs++; x.dirs > maxDirs {
		return fmt.Errorf("the pattern leads into more than %d directories", maxDirs)
	}
	list, err := x.tree.OpenDir(x.ctx, dir)
	if err != nil {
		x.note(err)
		return nil
	}
	defer list.Close()
	into := make([]fs.FileInfo, listBatch)
	for {
		n, err := list.Next(into)
		for _, fi := range into[:n] {
			if name := fi.Name(); name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				continue // the server is faulty or hostile
			}
			if err := f(fi); err != nil {
				return err
			}
		}
		if err == nil {
			err = x.ctx.Err()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			x.note(err)
			return nil
		}
	}
}

// join returns the name, within the tree, of the entry `name` of the directory `dir`. It does not
// use [path.Join], which is slow for deep names, because both names are clean already.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

func (x *expansion) add(name string, fi fs.FileInfo) error {
	if len(x.found) == MaxMatches {
		return fmt.Errorf("more than %d names match", MaxMatches)
	}
	x.found = append(x.found, Match{name, fi})
	return nil
}

// lookUp looks up the matches that were not found in a listing, and drops those that do not exist.
// If dirs is set, it also drops matches that are neither directories nor links to directories.
func (x *expansion) lookUp(dirs bool) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, lookupsAtOnce)
	for i := range x.found {
		m := &x.found[i]
		if m.Info != nil && (!dirs || !mayLead(m.Info)) {
			continue
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if err := x.describe(m, dirs); err != nil {
				m.Info = nil
				mu.Lock()
				defer mu.Unlock()
				x.note(err)
			}
		})
	}
	wait.Wait()
	x.found = slices.DeleteFunc(x.found, func(m Match) bool {
		return m.Info == nil || dirs && !m.Info.IsDir() && !mayLead(m.Info)
	})
}

// mayLead reports whether an entry may be a symbolic link, which may lead to a directory.
func mayLead(fi fs.FileInfo) bool {
	return fi.Mode().Type() == fs.ModeSymlink || fi.Mode().Type() == fs.ModeIrregular
}

// describe looks up a match. If dirs is set and the match may be a link, describe also returns an
// error if the link does not lead to a directory.
func (x *expansion) describe(m *Match, dirs bool) (err error) {
	if m.Info == nil {
		if m.Info, err = x.tree.Lstat(x.ctx, m.Name); err != nil {
			return err
		}
	}
	if !dirs || !mayLead(m.Info) {
		return nil
	}
	fi, err := x.tree.Stat(x.ctx, m.Name)
	if err == nil && !fi.IsDir() {
		err = fs.ErrNotExist
	}
	return err
}

// note records err in x.err if it is the first error. It ignores errors that only say that a name
// does not exist.
func (x *expansion) note(err error) {
	if x.err == nil && !errors.Is(err, fs.ErrNotExist) {
		x.err = err
	}
}
