package site

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/haul-project/haul/store"
)

// ReadDir lists a directory for a client that may read files in it, as ReadDir of [store.Tree]
// does; "." is the client's root. It leaves out entries that the client may not read, except for
// directories, because the client may be allowed to read files in them.
//
// With a [Site.Map] it returns errors.ErrUnsupported, since clients use names that differ from
// those of the files. It also returns that error if a store cannot list.
func (s *Site) ReadDir(ctx context.Context, c Client, name string) ([]fs.DirEntry, error) {
	fail := func(err error) ([]fs.DirEntry, error) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	switch {
	case s.Map != nil:
		return fail(errors.ErrUnsupported)
	case !store.ValidName(name):
		return fail(fs.ErrInvalid)
	}
	q := s.request(ctx, c, false)
	root, err := q.root()
	if err != nil {
		return nil, err
	}
	if root.Files == nil {
		return nil, &Refusal{Message: "only uploads are allowed"}
	}
	list := store.CapabilitiesOf(root.Files).ReadDir
	if list == nil {
		return fail(errors.ErrUnsupported)
	}
	p, err := q.ownPlace(root, place{store: root.Files, name: name})
	if err != nil {
		return nil, err
	}
	entries, err := list(ctx, path.Clean(p.name))
	if p.fallback != "" {
		entries, err = joined(entries, err, func() ([]fs.DirEntry, error) { return list(ctx, p.fallback) })
	}
	if err != nil {
		return nil, err
	}
	var kept []fs.DirEntry
	for _, e := range entries {
		if name == "." && root.PerClient.names(e.Name()) {
			continue // the root does not show the clients' own directories: see ownPlace
		}
		if !e.IsDir() && q.allowed(path.Join(name, e.Name())) != nil {
			continue
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// joined merges the entries of a directory in a client's own directory with those of the same
// directory in the common root. An own entry hides a common one of the same name. One of the two
// directories may be missing.
func joined(own []fs.DirEntry, ownErr error, all func() ([]fs.DirEntry, error)) ([]fs.DirEntry, error) {
	if ownErr != nil && !errors.Is(ownErr, fs.ErrNotExist) {
		return nil, ownErr
	}
	shared, err := all()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return own, ownErr
	case err != nil:
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range own {
		seen[e.Name()] = true
	}
	for _, e := range shared {
		if !seen[e.Name()] {
			own = append(own, e)
		}
	}
	slices.SortFunc(own, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return own, nil
}
