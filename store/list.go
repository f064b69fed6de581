package store

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
)

// maxEntries is how many entries a directory may have to be listed.
const maxEntries = 65536

// errManyEntries answers who wants to list a directory of more.
var errManyEntries = fmt.Errorf("more than %d entries in one directory: spread them over several", maxEntries)

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

// ReadDir lists a directory: see [Lister]. An entry's Info is looked up when
// it is asked for, and fails if the entry has gone by then.
func (d *DirStore) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := check(ctx, name); err != nil {
		return nil, d.fail("readdir", name, err)
	}
	entries, err := d.readDir(ctx, name, maxEntries)
	if err != nil {
		return nil, d.fail("readdir", name, err)
	}
	sortEntries(entries)
	return entries, nil
}

func (d *DirStore) readDir(ctx context.Context, name string, most int) ([]fs.DirEntry, error) {
	if err := d.hook("readdir"); err != nil {
		return nil, err
	}
	// Asked for what is in name, root opens name as a directory only, and
	// never a pipe or a device.
	f, err := d.root.OpenFile(name+"/.", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []fs.DirEntry
	for {
		batch, err := f.ReadDir(dirBatch)
		for _, e := range batch {
			if isTemp(e.Name()) {
				continue
			}
			if len(list) == most {
				return nil, errManyEntries
			}
			list = append(list, dirEntry{e, d, path.Join(name, e.Name())})
		}
		if err == io.EOF {
			return list, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

// A dirEntry looks itself up through the root. The os package's own would use a
// path, which may have become a link meanwhile.
type dirEntry struct {
	fs.DirEntry
	store *DirStore
	path  string
}

// Info describes the entry, and not what a link leads to.
func (e dirEntry) Info() (fs.FileInfo, error) {
	fi, err := e.store.root.Lstat(e.path)
	if err != nil {
		return nil, e.store.fail("stat", e.path, err)
	}
	return fi, nil
}

func sortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
}
