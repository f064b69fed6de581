package store

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
)

// maxEntries is how many entries a directory may have to be listed.
const maxEntries = 65536

// A Lister is a [Store] whose directories can be listed.
type Lister interface {
	// ReadDir returns the entries of a directory, sorted by name; that of
	// the root is ".". Entries are as the directory has them: a symbolic
	// link is a link, and Stat returns where it leads. Uploads under way do
	// not show. A name of no directory is fs.ErrNotExist; a directory of more
	// than 65536 entries is an error, as a list is held in memory.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
}

var _ Lister = (*DirStore)(nil)

func sortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
}

// errManyEntries answers who wants to list a directory of more.
var errManyEntries = fmt.Errorf("more than %d entries in one directory: spread them over several", maxEntries)
