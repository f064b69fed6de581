package treecopy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/haul-project/haul/store"
)

const (
	// maxThere is how many entries the listing of a directory of the target may have that
	// takes the place of looking its files up one by one, and maxAllThere how many those
	// listings have together that are held at a time.
	maxThere    = 10_000
	maxAllThere = 100_000
)

// listTarget lists what the target of a directory has, where a listing describes hundreds of
// files by one request. If there is too much, or it cannot be listed, the files are looked up.
func (c *copier) listTarget(d *dir) {
	l, ok := given(c.to).(interface {
		OpenDir(ctx context.Context, name string) (store.Entries, error)
	})
	must := c.mirror.needsTypes()
	if !ok || !c.features.CheapListings && !must {
		return
	}
	there := map[string]fs.FileInfo{}
	entries, err := l.OpenDir(c.ctx, d.to)
	switch {
	case err == nil:
		err = c.readThere(entries, there)
		_ = entries.Close()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		c.there.Add(-int64(len(there)))
		if must {
			c.mirror.unlisted(d, err)
		}
		return
	}
	d.there = there
}

// errTooMany says that a directory has more than it is worth to list.
var errTooMany = errors.New("too many entries")

// readThere reads a listing to its end.
func (c *copier) readThere(entries store.Entries, there map[string]fs.FileInfo) error {
	one, all := c.mirror.room()
	into := make([]fs.FileInfo, listBatch)
	for {
		n, err := entries.Next(into)
		for _, fi := range into[:n] {
			old := there[fi.Name()]
			switch {
			case old != nil && !old.IsDir():
				continue // a file and a directory of one name: Lstat describes the file
			case old == nil && len(there) == one:
				return errTooMany
			case old == nil && c.there.Add(1) > all:
				c.there.Add(-1)
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

// lookUp describes what has a name in the target of d, which is there already. d is nil for
// a file that becomes the target. cleared says that what had the name at first is deleted.
func (c *copier) lookUp(d *dir, name string, cleared bool) (fs.FileInfo, error) {
	switch {
	case cleared && c.opts.DryRun:
		return nil, fs.ErrNotExist
	case d == nil || d.there == nil || cleared:
		return c.to.Lstat(c.ctx, name)
	}
	fi := d.there[path.Base(name)]
	switch {
	case fi == nil:
		return nil, fs.ErrNotExist
	case fi.Mode().Type() == fs.ModeIrregular: // the listing does not describe it
		return c.to.Lstat(c.ctx, name)
	}
	return fi, nil
}

// forgetThere ends the use of what listTarget has found.
func (c *copier) forgetThere(d *dir) {
	c.there.Add(-int64(len(d.there)))
	d.there = nil
}
