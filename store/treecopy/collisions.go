package treecopy

import (
	"context"
	"fmt"
	"hash/maphash"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store/filter"
)

// maxNames is how many names of one listing are remembered, to find those that
// are there twice: 16 MiB of them or so.
const maxNames = 1 << 18

// maxTwice is how many names a listing may have twice before it is given up: a
// server can repeat one without end.
const maxTwice = 1000

var namesSeed = maphash.MakeSeed()

// listedNames are the files and directories of one listing so far.
type listedNames struct {
	seen  map[uint64]uint64   // by the hash of the name without regard to case, that of the name itself
	twice int                 // names that were there before
	all   map[string]struct{} // whatever has a name: what else the target has is to be deleted; nil if nothing is
}

func newListedNames(all bool) *listedNames {
	n := &listedNames{seen: map[uint64]uint64{}}
	if all {
		n.all = map[string]struct{}{}
	}
	return n
}

// note notes that the listing has a name.
func (n *listedNames) note(name string, v filter.Verdict, d *Deletion) {
	if n.all != nil && (v != filter.Skip || !d.Excluded) {
		n.all[name] = struct{}{}
	}
}

// errTwice says that a listing has a name twice.
var errTwice = fmt.Errorf("%w: the listing has the name twice", ErrConflict)

// errCase says that two names are one for the target.
var errCase = fmt.Errorf("%w: another file or directory has this name but for upper and lower case, and the target ignores case", ErrConflict)

// checkTwice returns an error for an entry that would replace another one of the
// same listing.
func (c *copier) checkTwice(d *dir, names *listedNames, name string) error {
	lower := name
	if utf8.ValidString(name) { // to ToLower, all other bytes are one letter
		lower = strings.ToLower(name)
	}
	folded, exact := maphash.String(namesSeed, lower), maphash.String(namesSeed, name)
	first, there := names.seen[folded]
	switch {
	case !there:
		if len(names.seen) < maxNames {
			names.seen[folded] = exact
		}
	case first == exact:
		names.twice++
		return errTwice
	case c.foldsCase(d):
		return errCase
	}
	return nil
}

// foldsCase reports whether the target takes names that differ in case for one, as
// file systems of Windows and macOS do. It is asked once, with a directory that is
// made for it; a target that makes none is assumed to distinguish them.
func (c *copier) foldsCase(d *dir) bool {
	c.foldsOnce.Do(func() {
		if c.features.ImpliedDirs || c.opts.DryRun {
			return
		}
		name := path.Join(d.to, tempname.New(tempname.Random(), tempname.Case))
		if c.to.Mkdir(c.ctx, name, ownerAll) != nil {
			return
		}
		_, err := c.to.Lstat(c.ctx, path.Join(d.to, strings.ToUpper(path.Base(name))))
		c.folds = err == nil
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), removeTime)
		defer cancel()
		_ = c.to.RemoveDir(ctx, name)
	})
	return c.folds
}
