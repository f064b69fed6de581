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
	// listBatch is how many entries of a directory are read at once.
	listBatch = 256

	// maxThere is the largest number of entries of a directory of the target that is listed; in
	// larger ones, files are looked up one by one. maxAllThere bounds the entries of all such
	// listings in memory.
	maxThere    = 10_000
	maxAllThere = 100_000
)

// listings finds the entries that the target already has. If listing a directory costs less than
// looking up each name, it lists the directory.
type listings struct {
	*task
	held atomic.Int64 // entries of all dir.there

	// The next fields are set to mirror the source, which requires every listing.
	must     bool // list every target, because the types of its entries decide which of them are in the way
	one      int  // largest number of entries of one directory
	all      int64
	unlisted func(*dir, error) // called if a directory that must be listed cannot be listed
}

func newListings(t *task) *listings { return &listings{task: t, one: maxThere, all: maxAllThere} }

// list lists the target of a directory, if one request lists hundreds of files. If there are too
// many entries, or listing fails, the files are looked up one by one.
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

// errTooMany means that a directory has too many entries for its listing to be worthwhile.
var errTooMany = errors.New("too many entries")

// read reads a listing to its end.
func (l *listings) read(entries store.Entries, there map[string]fs.FileInfo) error {
	into := make([]fs.FileInfo, listBatch)
	for {
		n, err := entries.Next(into)
		for _, fi := range into[:n] {
			old := there[fi.Name()]
			switch {
			case old != nil && !old.IsDir():
				continue // a file and a directory of one name: Lstat describes the file
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

// lookUp describes an entry of the target of d, which exists already. d is nil for a file that
// becomes the target. cleared says that the entry that originally had the name was deleted.
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
	case fi.Mode().Type() == fs.ModeIrregular: // the listing does not describe it
		return l.to.Lstat(l.ctx, name)
	}
	return fi, nil
}

// forget frees the listing of a directory's target.
func (l *listings) forget(d *dir) {
	l.held.Add(-int64(len(d.there)))
	d.there = nil
}
