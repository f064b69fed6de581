package treecopy

import (
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
)

// A start is an entry of the source tree at which a copy starts: a source, or a match of its
// pattern.
type start struct {
	tree     *tree
	name     string
	as       string // name of its copy, if the target is a directory
	origin   string
	info     fs.FileInfo
	contents bool // only its contents are copied, not the directory itself
	shown    string
	index    int   // index of its Source in Job.Sources
	err      error // reason why it cannot be copied; nil if it can
}

// showAs returns the name for messages of an entry that is s or below s. It returns "" if messages
// use the entry's own name.
func (s *start) showAs(name string) string {
	if s == nil || s.shown == "" {
		return ""
	}
	if name == s.name {
		return s.shown
	}
	return path.Join(s.shown, s.below(name))
}

// below returns a name in the tree relative to s.
func (s *start) below(name string) string {
	if s.name == "." {
		return name
	}
	return strings.TrimPrefix(name, s.name+"/")
}

// display returns the name of s for messages.
func (s *start) display() string {
	if s.shown != "" {
		return s.shown
	}
	return s.name
}

func (s start) isDir() bool { return s.info.IsDir() }

// A file is a file or a symbolic link that is to be copied.
type file struct {
	item   *Item
	source *start // the start at or below which it was found
	dir    *dir   // its directory; nil if the file becomes the target itself
	tree   *tree
	from   string
	to     string
	info   fs.FileInfo // description of the source
	listed bool        // info may be passed to openDescribed
	old    fs.FileInfo // entry of this name in the target; nil if there is no such entry
	opened fs.FileInfo // description of the source when it was opened; nil for a remote file

	cleared bool // the target had an entry of another kind with this name, which is or will be deleted
	started bool // the hook Hooks.Started was called for this file
	created bool // this copy created the file in place; a further attempt starts over
}

// A dir is a directory that is to be copied. It is finished when everything in it is finished.
type dir struct {
	item   *Item
	parent *dir // nil for the directory that everything is copied to
	source *start
	tree   *tree
	from   string
	to     string
	info   fs.FileInfo // description of the source; nil if the attributes are not copied
	origin dirIdentity

	depth    int
	followed int  // number of symbolic links that were followed on the way to it
	made     bool // the directory exists in the target
	fresh    bool // this copy made it in the target, so it contains only files of this copy
	// checkpoint is the name of the checkpoint in the target, if the target is an unfinished copy
	// of the only source; otherwise "".
	checkpoint string

	cleared bool      // the target had an entry of another kind with this name, which is or will be deleted
	lazy    bool      // it is made only when the first file is about to be copied into it
	making  sync.Once // ensures that a lazy directory is made only once
	unmade  error     // error from making a lazy directory
	held    bool      // its attributes are set only after the deletions

	// there holds the entries that the directory had in the target at first, by name; nil if they
	// were not listed.
	there map[string]fs.FileInfo

	pending atomic.Int64 // number of entries that are not finished, plus one for its listing
	links   []*file      // symbolic links to make at the end; added while the directory is listed
	holds   atomic.Bool  // it contains files, directly or further below
	filled  atomic.Bool  // at least one of these files was copied
}

// hold records that d, and so each directory above, contains files.
func (d *dir) hold() {
	for d != nil && !d.holds.Swap(true) {
		d = d.parent
	}
}

// fill records that a file in d, or further below, was copied.
func (d *dir) fill() {
	for d != nil && !d.filled.Swap(true) {
		d = d.parent
	}
}
