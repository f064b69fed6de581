package treecopy

import (
	"fmt"
	"hash/maphash"
	"strings"
	"unicode/utf8"
)

// maxNames is how many names of one listing are remembered in order to find duplicates: about 16
// MiB.
const maxNames = 1 << 18

// maxTwice is how many duplicates a listing may have. Without this bound, a server could repeat a
// name forever.
const maxTwice = 1000

var namesSeed = maphash.MakeSeed()

// listedNames are the names of one listing so far.
type listedNames struct {
	seen  map[uint64]uint64   // maps the hash of the name in lower case to the hash of the name itself
	twice int                 // number of duplicates
	all   map[string]struct{} // all names in the listing: the other entries of the target are deleted; nil if nothing is deleted
}

func newListedNames(all bool) *listedNames {
	n := &listedNames{seen: map[uint64]uint64{}}
	if all {
		n.all = map[string]struct{}{}
	}
	return n
}

// note records a name of the listing.
func (n *listedNames) note(name string, v verdict, d *Deletion) {
	if n.all != nil && (v != excluded || !d.Excluded) {
		n.all[name] = struct{}{}
	}
}

// errTwice means that a listing contains a name twice.
var errTwice = fmt.Errorf("%w: the listing has the name twice", ErrConflict)

// errCase means that the target does not distinguish two names.
var errCase = fmt.Errorf("%w: another file or directory has this name but for upper and lower case, and the target ignores case", ErrConflict)

// claim returns an error for an entry that would replace another one of the same listing. folds
// reports whether names that differ in case only are one name in the target.
func (n *listedNames) claim(name string, folds func() bool) error {
	lower := name
	if utf8.ValidString(name) { // ToLower maps all invalid bytes to one character
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
