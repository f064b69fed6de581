package treecopy

import (
	"fmt"
	"hash/maphash"
	"strings"
	"unicode/utf8"
)

// maxNames is the largest number of names of one listing that are remembered to find duplicates.
// This many names take some 16 MiB of memory.
const maxNames = 1 << 18

// maxTwice is the largest number of duplicates in one listing. Without this limit, a server could
// repeat a name forever.
const maxTwice = 1000

var namesSeed = maphash.MakeSeed()

// listedNames holds the names that a listing has contained so far.
type listedNames struct {
	seen  map[uint64]uint64   // maps the hash of each name in lower case to the hash of the name itself
	twice int                 // number of names that the listing contained twice
	all   map[string]struct{} // all names so far, if other entries of the target are to be deleted; otherwise nil
}

func newListedNames(all bool) *listedNames {
	n := &listedNames{seen: map[uint64]uint64{}}
	if all {
		n.all = map[string]struct{}{}
	}
	return n
}

// note records a name of the listing, if the entry of that name must not be deleted from the
// target.
func (n *listedNames) note(name string, v verdict, d *Deletion) {
	if n.all != nil && (v != excluded || !d.Excluded) {
		n.all[name] = struct{}{}
	}
}

// errTwice says that a listing contains the same name twice.
var errTwice = fmt.Errorf("%w: the listing has the name twice", ErrConflict)

// errCase says that the target ignores case, so that two names of the source are the same there.
var errCase = fmt.Errorf("%w: another file or directory has this name but for upper and lower case, and the target ignores case", ErrConflict)

// claim returns an error if an entry would replace an earlier entry of the same listing in the
// target. The function folds reports whether the target ignores case in names.
func (n *listedNames) claim(name string, folds func() bool) error {
	lower := name
	if utf8.ValidString(name) { // ToLower would map all invalid bytes to the same character
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
