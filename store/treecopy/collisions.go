package treecopy

import (
	"fmt"
	"hash/maphash"
	"strings"
	"unicode/utf8"
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
func (n *listedNames) note(name string, v verdict, d *Deletion) {
	if n.all != nil && (v != excluded || !d.Excluded) {
		n.all[name] = struct{}{}
	}
}

// errTwice says that a listing has a name twice.
var errTwice = fmt.Errorf("%w: the listing has the name twice", ErrConflict)

// errCase says that two names are one for the target.
var errCase = fmt.Errorf("%w: another file or directory has this name but for upper and lower case, and the target ignores case", ErrConflict)

// claim returns an error for an entry that would replace another one of the same listing. folds
// reports whether names that differ in case only are one name in the target.
func (n *listedNames) claim(name string, folds func() bool) error {
	lower := name
	if utf8.ValidString(name) { // to ToLower, all other bytes are one letter
		lower = strings.ToLower(name)
	}
	folded, exact := maphash.String(namesSeed, lower), maphash.String(namesSeed, name)
	first, there := n.seen[folded]
	switch {
	case !there:
		if len(n.seen) < maxNames {
			n.seen[folded] = exact
		}
	case first == exact:
		n.twice++
		return errTwice
	case folds():
		return errCase
	}
	return nil
}
