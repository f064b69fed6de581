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
	contents bool // only its contents go below the target, not the directory itself
	shown    string
	index    int   // among the sources
	err      error // why the source cannot be copied
}

// showAs returns the name for messages of an entry of the tree, or "" if messages use the entry's
// own name.
func (s *start) showAs(name string) string {
	if s == nil || s.shown == "" {
		return ""
	}
	if name == s.name {
		return s.shown
	}
	return path.Join(s.shown, s.below(name))
}

// below returns a name of the tree relative to the source.
func (s *start) below(name string) string {
	if s.name == "." {
		return name
	}
	return strings.TrimPrefix(name, s.name+"/")
}

// display returns the name of the source for messages.
func (s *start) display() string {
	if s.shown != "" {
		return s.shown
	}
	return s.name
}

func (s start) isDir() bool { return s.info.IsDir() }

// A file is a file or a symbolic link that is being copied.
type file struct {
	item   *Item
	source *start // the source that it belongs to
	dir    *dir   // nil if it becomes the target itself
	tree   *tree
	from   string
	to     string
	info   fs.FileInfo // of the source
	listed bool        // info comes from the listing of its directory
	old    fs.FileInfo // the entry with this name in the target; nil if the target has no such entry
	opened fs.FileInfo // of the source, when it was opened; nil if it is remote

	cleared bool // an entry of another kind with its name will be deleted, or has been deleted
	started bool // the hook Started was called
	created bool // it was created in place, and may have to be copied from the start
}

// A dir is a directory that is being copied. It is finished when everything in it is finished.
type dir struct {
	item   *Item
	parent *dir // nil at the top
	source *start
	tree   *tree
	from   string
	to     string
	info   fs.FileInfo // of the source; nil if its attributes are not copied
	origin dirIdentity

	depth      int
	followed   int    // symbolic links above it
	made       bool   // its target exists
	fresh      bool   // this copy made it, so it contains only files of this copy
	checkpoint string // name of the checkpoint in the target, if the target is the unfinished copy of the only source; otherwise ""

	cleared bool      // an entry of another kind with its name will be deleted, or has been deleted
	lazy    bool      // it is made when the first file is about to be copied to it
	making  sync.Once // makes a lazy directory
	unmade  error     // why a lazy directory could not be made
	held    bool      // its attributes are set last, after deletions

	there map[string]fs.FileInfo // the entries that its target had at first, by name; nil if they were not listed

	pending atomic.Int64 // its unfinished entries, and its listing
	links   []*file      // symbolic links to make; added until it is listed
	holds   atomic.Bool  // there are files in it or below
	filled  atomic.Bool  // one of them was copied
}

// hold records that there are files in d.
func (d *dir) hold() {
	for d != nil && !d.holds.Swap(true) {
		d = d.parent
	}
}

// fill records that a file in d was copied.
func (d *dir) fill() {
	for d != nil && !d.filled.Swap(true) {
		d = d.parent
	}
}
