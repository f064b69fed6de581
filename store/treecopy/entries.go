package treecopy

import (
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
)

// A start is a source that exists.
type start struct {
	tree     *tree
	name     string
	as       string // its name below a directory
	origin   string
	info     fs.FileInfo
	contents bool // what is in it goes below the target, rather than itself
	shown    string
	index    int   // among the sources
	err      error // why it cannot be copied
}

// showAs returns what messages call what has a name in the tree, or "" if that is
// its name.
func (s *start) showAs(name string) string {
	if s == nil || s.shown == "" {
		return ""
	}
	if name == s.name {
		return s.shown
	}
	return path.Join(s.shown, s.below(name))
}

// below returns what comes behind the source in a name in its tree.
func (s *start) below(name string) string {
	if s.name == "." {
		return name
	}
	return strings.TrimPrefix(name, s.name+"/")
}

// display returns what messages call it.
func (s *start) display() string {
	if s.shown != "" {
		return s.shown
	}
	return s.name
}

func (s start) isDir() bool { return s.info.IsDir() }

// A file is a file, or a symbolic link, on its way.
type file struct {
	item   *Item
	source *start // where it comes from
	dir    *dir   // nil if it becomes the target itself
	tree   *tree
	from   string
	to     string
	info   fs.FileInfo // of the source
	listed bool        // that is how its directory lists it
	old    fs.FileInfo // what has the target's name; nil if nothing does
	opened fs.FileInfo // of the source, when it was opened; nil if it is remote

	cleared bool // what is in its way will be deleted, or is
	started bool // the hook Started was called
	created bool // it has its name, in place, and may have to be begun anew
}

// A dir is a directory on its way. It is finished when all that is in it is.
type dir struct {
	item   *Item
	parent *dir // nil at the top
	source *start
	tree   *tree
	from   string
	to     string
	info   fs.FileInfo // of the source; nil if its attributes are not to be copied
	origin dirIdentity

	depth      int
	followed   int    // symbolic links above it
	made       bool   // its target is there
	fresh      bool   // it was made just now: nothing is in it but what this copy put there
	checkpoint string // in the target, which is the copy of the one source and not finished; "" for none

	cleared bool      // what is in its way will be deleted, or is
	lazy    bool      // it is made with the first file that is copied to it
	making  sync.Once // of a lazy one
	unmade  error     // why a lazy one could not be made
	held    bool      // it gets attributes last, when what is to be deleted is

	there map[string]fs.FileInfo // what its target had at first, by name; nil if that was not listed

	pending atomic.Int64 // what is in it and not done, and its listing
	links   []*file      // symbolic links to be made; until it is listed
	holds   atomic.Bool  // there are files in it, or further below
	filled  atomic.Bool  // one of them was copied
}

// hold notes that there are files in d.
func (d *dir) hold() {
	for d != nil && !d.holds.Swap(true) {
		d = d.parent
	}
}

// fill notes that a file in d was copied.
func (d *dir) fill() {
	for d != nil && !d.filled.Swap(true) {
		d = d.parent
	}
}
