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
	as       string // name of the copy, if the target is a directory
	origin   string
	info     fs.FileInfo
	contents bool // the start is a directory, of which only the contents are copied
	shown    string
	index    int   // index of its Source in Job.Sources
	err      error // reason why the start cannot be copied; nil if it can
}

// showAs returns the name under which messages show an entry that is s or below s. It returns "" if
// they show the entry's own name.
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
	source *start // the start at or below which the file was found
	// dir is the directory that the file is copied into; nil if the file is the only one, and is
	// copied to the target's own name.
	dir    *dir
	tree   *tree
	from   string
	to     string
	info   fs.FileInfo // description of the source
	listed bool        // info comes from the tree itself, so it may be passed to openDescribed
	old    fs.FileInfo // entry in the target that has the name `to`; nil if there is no such entry
	opened fs.FileInfo // description of the source when it was opened; nil for a remote file

	// cleared says that the target had an entry of another kind with the name `to`, which is or
	// will be deleted.
	cleared bool
	started bool // the hook Hooks.Started was called for this file
	created bool // an earlier attempt of this copy created the file in place; the next one starts over
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
	followed int  // number of symbolic links that were followed on the way to the directory
	made     bool // the directory exists in the target
	fresh    bool // this copy makes or made it in the target, so it contains only files of this copy
	// checkpoint is the name of the checkpoint in the target, if the target is an unfinished copy
	// of the only source; otherwise "".
	checkpoint string

	// cleared says that the target had an entry of another kind with the name `to`, which is or
	// will be deleted.
	cleared bool
	lazy    bool      // the directory is made only when the first file is about to be copied into it
	making  sync.Once // ensures that a lazy directory is made only once
	unmade  error     // error from making a lazy directory
	held    bool      // the directory's attributes are set only after the deletions

	// there holds the entries that the directory had in the target before anything was copied into
	// it, by name; nil if they were not listed.
	there map[string]fs.FileInfo

	pending atomic.Int64 // number of entries that are not finished, plus one until the listing is done
	links   []*file      // symbolic links to make after all other entries; added during the listing
	holds   atomic.Bool  // the source of the directory contains files, directly or further below
	filled  atomic.Bool  // at least one file in it, directly or further below, was copied
}

// hold records that d, and so each directory above it, contains files.
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
