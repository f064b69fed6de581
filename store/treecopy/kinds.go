package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
)

// maxFollowed is the largest number of symbolic links to directories that are followed one below
// the other. If the tree cannot identify directories, only this limit stops a loop.
const maxFollowed = 8

// A kind says how to copy entries of one type.
type kind struct {
	claims bool // no other entry of the listing may have the same name in the target
	waits  bool // the entry is kept for later: see [waiting]

	// check returns the reason why an entry cannot be copied, or nil. If check is nil, all entries
	// of the kind can be copied.
	check func(w *walker, b *batch, e *entry) error
	add   func(w *walker, b *batch, e *entry) // passes the entry on to be copied, later or at once
}

// kinds maps types of entries to kinds.
type kinds map[fs.FileMode]kind

// kindsFor returns the kinds for Options.Links. A link that is followed has the type of its target.
// Entries of other types are not copied: see other.
func kindsFor(l Links) kinds {
	file := kind{claims: true, add: (*walker).addFile}
	k := kinds{
		0:                file,
		fs.ModeIrregular: file, // the server does not report the type, so try to copy a file
		fs.ModeDir:       {claims: true, waits: true, check: (*walker).checkDir, add: (*walker).addDir},
	}
	if l == KeepLinks { // links are made last, and never replace anything
		k[fs.ModeSymlink] = kind{waits: true, add: (*walker).addLink}
	}
	return k
}

// other is the kind for types that are not copied, such as devices.
var other = kind{add: (*walker).skip}

// An entry is an entry of a listing, while the walker decides what to do with it.
type entry struct {
	*file
	name    string // name in the listing
	led     ledTo  // result of looking the entry up; the zero value if that was not necessary
	verdict verdict
}

// A batch holds entries of a directory that were listed together, while they are passed on.
type batch struct {
	dir   *dir
	names *listedNames // names that the listing of dir has contained so far
	files []*file
	bytes int64  // total size of files
	below []*dir // subdirectories from this batch and the earlier ones
	full  error  // error if too many entries wait: see [waiting]
	entry entry  // entry that is being handled
}

// take passes on those entries of list that are to be copied, and reports the others.
func (w *walker) take(b *batch, list []fs.FileInfo) {
	b.files, b.bytes = nil, 0
	errs := make([]error, len(list))
	w.lookAt(b.dir, list, errs)
	for i, fi := range list {
		e := &b.entry
		w.describe(e, b.dir, fi)
		if !w.admit(b, e, errs[i]) {
			continue
		}
		k, ok := w.kinds[e.info.Mode().Type()]
		if !ok {
			k = other
		}
		if err := w.checkEntry(b, e, &k); err != nil {
			w.report.failed(e.item, err)
			continue
		}
		if k.waits {
			if b.full == nil {
				b.full = w.closer.waiting.add()
			}
			if b.full != nil {
				continue
			}
		}
		k.add(w, b, e)
	}
	w.queueFiles(b)
}

// describe sets e to the entry fi of the listing of d.
func (w *walker) describe(e *entry, d *dir, fi fs.FileInfo) {
	f := &file{dir: d, source: d.source, tree: d.tree, from: path.Join(d.from, fi.Name()), to: path.Join(d.to, fi.Name()), info: fi, listed: true}
	*e = entry{file: f, name: fi.Name()}
	if e.led, _ = fi.(ledTo); e.led.FileInfo != nil {
		f.info, f.listed = e.led.FileInfo, false
	}
	f.item = w.fileItem(f)
}

// admit reports whether an entry is to be copied. `looked` is the error from looking the entry up,
// or nil.
func (w *walker) admit(b *batch, e *entry, looked error) bool {
	if tempname.Is(e.name) {
		return false
	}
	if !isElement(e.name) {
		e.item.From, e.item.As, e.item.To = b.dir.from+"/"+e.name, "", ""
		w.report.failed(e.item, fmt.Errorf("%w: %.200q in the listing of %s", ErrUnsafeName, e.name, printable(b.dir.from)))
		return false
	}
	e.verdict = w.opts.Filter.match(b.dir.source.below(e.from), e.info.IsDir())
	b.names.note(e.name, e.verdict, w.opts.Delete)
	switch {
	case e.verdict == excluded:
		w.report.excluded()
		return false
	case looked != nil:
		w.report.failed(e.item, looked)
		return false
	}
	return true
}

// checkEntry returns the reason why an entry cannot be copied, or nil.
func (w *walker) checkEntry(b *batch, e *entry, k *kind) error {
	if k.claims {
		if err := b.names.claim(e.name, func() bool { return w.dirs.foldsCase(b.dir) }); err != nil {
			return err
		}
	}
	if k.check == nil {
		return nil
	}
	return k.check(w, b, e)
}

// checkDir returns an error for a directory reached through a symbolic link, if copying it would
// never end.
func (w *walker) checkDir(b *batch, e *entry) error {
	d := b.dir
	switch {
	case (e.led.link || d.followed > 0) && d.leadsBack(e.led.origin(d, e.info)):
		return errLoop
	case e.led.link && w.holdsTarget(d, e.led.real):
		return fmt.Errorf("%w: it leads to the directory that is copied to", errLoop)
	case e.led.link && d.followed == maxFollowed:
		return fmt.Errorf("%w: more than %d symbolic links below each other", fs.ErrInvalid, maxFollowed)
	}
	return nil
}

// addDir keeps a directory in memory until it is its turn to be copied.
func (w *walker) addDir(b *batch, e *entry) {
	d := w.child(b.dir, b.dir.source, e.from, e.name, e.info)
	d.lazy = e.verdict == entered
	if e.led.link {
		d.followed++
		d.origin = e.led.origin(b.dir, e.info)
	}
	resume := func() { w.closer.waiting.remove(1); w.spawn(d) }
	if !w.mirror.blocks(b.dir, d.item, &d.cleared, resume) {
		b.below = append(b.below, d)
	}
}

// addLink keeps a symbolic link in memory until everything else in its directory is copied.
func (w *walker) addLink(b *batch, e *entry) {
	d, f := b.dir, e.file
	resume := func() { d.links = append(d.links, f); w.closer.finish(d) }
	if w.mirror.blocks(d, f.item, &f.cleared, resume) {
		d.pending.Add(1)
		return
	}
	d.links = append(d.links, f)
}

// addFile adds a file to the batch. [walker.queueFiles] queues the batch's files.
func (w *walker) addFile(b *batch, e *entry) {
	b.files = append(b.files, e.file)
	b.bytes = addSizes(b.bytes, e.item.Size)
}

// skip reports an entry as not copied.
func (w *walker) skip(_ *batch, e *entry) {
	w.report.ended(e.item, Outcome{What: Skipped, Err: notCopied(e.info.Mode().Type())})
}

// queueFiles queues the files of a batch. It first counts all of them as pending; otherwise the
// directory could count as finished before all its files are queued.
func (w *walker) queueFiles(b *batch) {
	if len(b.files) > 0 {
		b.dir.hold()
	}
	w.report.found(int64(len(b.files)), b.bytes)
	b.dir.pending.Add(int64(len(b.files)))
	for _, f := range b.files {
		if !w.mirror.blocks(b.dir, f.item, &f.cleared, func() { w.queue.add(f) }) && !w.mirror.postpone(f) {
			w.queue.add(f)
		}
	}
}

// notCopied returns the reason why entries of a type are skipped.
func notCopied(t fs.FileMode) error {
	if t == fs.ModeSymlink {
		return errSkippedLink
	}
	return store.ErrNotRegular
}

var errSkippedLink = errors.New("a symbolic link")
