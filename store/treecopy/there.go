package treecopy

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/haul-project/haul/store"
)

const (
	// listBatch is the number of entries of a directory that are read at once.
	listBatch = 256

	// maxThere is the largest number of entries in a directory of the target that are kept from its
	// listing. In larger directories, files are looked up one by one. maxAllThere is the largest
	// number of entries that are kept of all directories together.
	maxThere    = 10_000
	maxAllThere = 100_000
)

// listings finds out which entries the target already has. It lists a directory if that costs less
// than looking up each name.
type listings struct {
	*task
	held atomic.Int64 // number of entries in dir.there of all directories

	// The next fields are for Options.Delete, which requires all listings.

	// must means that every directory of the target has to be listed, because an entry that has
	// another type than the source's entry of the same name must be deleted.
	must     bool
	one      int               // largest number of entries that are kept of one directory
	all      int64             // largest number of entries that are kept of all directories together
	unlisted func(*dir, error) // called if a directory that must be listed cannot be listed
}

func newListings(t *task) *listings { return &listings{task: t, one: maxThere, all: maxAllThere} }

// list lists a directory of the target, if one request lists hundreds of files. If there are too
// many entries, or if listing fails, files are looked up one by one instead.
func (l *listings) list(d *dir) {
	if !l.to.can.CheapListings && !l.must {
		return
	}
	there := map[string]fs.FileInfo{}
	entries, err := l.to.OpenDir(l.ctx, d.to)
	switch {
	case err == nil:
		err = l.read(entries, there)
		_ = entries.Close()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		l.held.Add(-int64(len(there)))
		if l.must {
			l.unlisted(d, err)
		}
		return
	}
	d.there = there
}

// errTooMany says that a directory has too many entries for its listing to be kept.
var errTooMany = errors.New("too many entries")

// read reads a listing to its end, and adds its entries to the map `there`.
func (l *listings) read(entries store.Entries, there map[string]fs.FileInfo) error {
	into := make([]fs.FileInfo, listBatch)
	for {
		n, err := entries.Next(into)
		for _, fi := range into[:n] {
			old := there[fi.Name()]
			switch {
			case old != nil && !old.IsDir():
				continue // a file and a directory have the same name: keep the file, which Lstat describes too
			case old == nil && len(there) == l.one:
				return errTooMany
			case old == nil && l.held.Add(1) > l.all:
				l.held.Add(-1)
				return errTooMany
			}
			there[fi.Name()] = fi
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lookUp describes the entry `name` of the target, which is in the copy of d. d is nil for a file
// that becomes the target itself. `cleared` says that the listing's entry of that name is, or will
// be, deleted.
func (l *listings) lookUp(d *dir, name string, cleared bool) (fs.FileInfo, error) {
	switch {
	case cleared && l.opts.DryRun:
		return nil, fs.ErrNotExist
	case d == nil || d.there == nil || cleared:
		return l.to.Lstat(l.ctx, name)
	}
	fi := d.there[path.Base(name)]
	switch {
	case fi == nil:
		return nil, fs.ErrNotExist
	case fi.Mode().Type() == fs.ModeIrregular: // the listing does not say what the entry is
		return l.to.Lstat(l.ctx, name)
	}
	return fi, nil
}

// forget frees the listing of a directory of the target.
func (l *listings) forget(d *dir) {
	l.held.Add(-int64(len(d.there)))
	d.there = nil
}
