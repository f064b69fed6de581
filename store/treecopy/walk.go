package treecopy

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/haul-project/haul/store"
)

// A walker lists the directories of the sources, makes them in the target, and passes their entries
// on to be copied.
type walker struct {
	*task
	listings  *listings
	leftovers *leftovers
	dirs      *dirMaker
	closer    *closer
	queue     *queue
	mirror    mirroring

	kinds kinds
	// slots has a slot for each directory that is listed, except one: the goroutine that starts the
	// walk needs none.
	slots chan struct{}
	walks sync.WaitGroup
}

// newWalker returns a walker that does not delete anything in the target. For Options.Delete, the
// caller replaces its mirror.
func newWalker(t *task, l *listings, o *leftovers, m *dirMaker, c *closer, q *queue) *walker {
	w := &walker{task: t, listings: l, leftovers: o, dirs: m, closer: c, queue: q, mirror: noMirror{}, kinds: kindsFor(t.opts.Links)}
	lists := listsAtOnce
	if q.slots != nil {
		lists = min(lists, t.opts.Parallel)
	}
	// Subtract one, because the goroutine that starts the walk lists a directory itself.
	w.slots = make(chan struct{}, lists-1)
	return w
}

// mirroring makes the target the same as the source, for Options.Delete. It is implemented by
// [mirror] or, without that option, by [noMirror].
type mirroring interface {
	// check returns an error unless the copy puts the contents of exactly one directory into the
	// target.
	check(p *place, starts []start) error

	// begin sets the source and the directory that everything is copied to.
	begin(source *start, top *dir)

	// compares reports whether the target of a directory may have entries that the source does not
	// have. If so, the walker calls findExtra with the names in the source.
	compares(d *dir) bool
	findExtra(d *dir, names map[string]struct{})

	// blocks reports whether an entry of another kind has the name of item i in the target. If so,
	// it sets *cleared at once. The entry in the target is deleted later, and then resume is
	// called.
	blocks(d *dir, i *Item, cleared *bool, resume func()) bool

	// postpone reports whether a file waits until prepare is called, because the target may have it
	// under another name.
	postpone(f *file) bool

	// prepare is called when everything is listed, and complete when everything is copied. complete
	// returns an error if deletions were refused although nothing has failed.
	prepare()
	complete() error
}

// noMirror is the mirroring of a copy that does not delete anything.
type noMirror struct{}

func (noMirror) check(*place, []start) error            { return nil }
func (noMirror) begin(*start, *dir)                     {}
func (noMirror) compares(*dir) bool                     { return false }
func (noMirror) findExtra(*dir, map[string]struct{})    {}
func (noMirror) blocks(*dir, *Item, *bool, func()) bool { return false }
func (noMirror) postpone(*file) bool                    { return false }
func (noMirror) prepare()                               {}
func (noMirror) complete() error                        { return nil }

// child returns a directory below `parent`, which counts it as pending.
func (w *walker) child(parent *dir, source *start, from, base string, fi fs.FileInfo) *dir {
	d := &dir{
		parent: parent, source: source, tree: source.tree, from: from, to: path.Join(parent.to, base), info: fi,
		depth: parent.depth + 1, followed: parent.followed, origin: parent.origin.below(base, fi),
	}
	d.item = w.dirItem(source, from, d.to, fi.ModTime())
	d.pending.Store(1)
	parent.pending.Add(1)
	return d
}

// spawn copies a directory: in a new goroutine, if not too many are running, and otherwise in this
// one.
func (w *walker) spawn(d *dir) {
	select {
	case w.slots <- struct{}{}:
		w.walks.Go(func() {
			w.walk(d)
			<-w.slots
		})
	default:
		w.walk(d)
	}
}

// walk makes a directory and passes on its entries. It opens the listing first, so that a directory
// that cannot be read leaves nothing in the target.
func (w *walker) walk(d *dir) {
	defer w.closer.finish(d)
	if w.ctx.Err() != nil || !d.made && w.dirs.tooMany(d) {
		return
	}
	entries, err := w.openDir(d)
	if err != nil {
		w.unlisted(d, err)
		return
	}
	if !d.made {
		if err := w.dirs.make(d); err != nil {
			_ = entries.Close()
			w.report.failed(d.item, err)
			return
		}
		if d.made && !d.fresh {
			w.leftovers.removeFrom(d.to)
		}
	}
	if d.item != nil && d.made { // item is nil if only the directory's contents are copied
		w.dirs.reportMade(d)
	}
	if !d.fresh {
		w.listings.list(d)
	}
	names := newListedNames(w.mirror.compares(d))
	below, err := w.list(d, entries, names)
	switch {
	case err != nil:
		w.unlisted(d, err)
	case names.all != nil && w.ctx.Err() == nil:
		w.mirror.findExtra(d, names.all)
	}
	for i, b := range below {
		below[i] = nil // so that the memory of b can be freed before the last directory is done
		w.closer.waiting.remove(1)
		w.spawn(b)
	}
}

// openDir opens the listing of a directory. If that fails because too many files are open, it tries
// again when fewer are open.
func (w *walker) openDir(d *dir) (entries store.Entries, err error) {
	err = w.queue.smallLimit.try(false, func() error {
		entries, err = d.tree.OpenDir(w.ctx, d.from)
		return notOpened(d.tree, err)
	})
	return entries, err
}

// unlisted reports that a directory could not be listed completely.
func (w *walker) unlisted(d *dir, err error) {
	item := d.item
	if item == nil {
		item = w.dirItem(d.source, d.from, d.to, time.Time{})
	}
	w.report.failed(item, err)
	if w.to.can.ImpliedDirs {
		d.item = nil // nothing more is reported about it
	}
}

// list passes on the entries of a directory, and returns its subdirectories.
func (w *walker) list(d *dir, entries store.Entries, names *listedNames) (below []*dir, err error) {
	defer entries.Close()
	b := &batch{dir: d, names: names}
	into := make([]fs.FileInfo, listBatch)
	for {
		n, err := entries.Next(into)
		w.take(b, into[:n])
		switch {
		case w.ctx.Err() != nil, err == io.EOF:
			return b.below, nil
		case err != nil:
			return b.below, err
		case b.full != nil:
			return b.below, b.full
		case names.twice > maxTwice:
			return b.below, fmt.Errorf("%w: more than %d of them", errTwice, maxTwice)
		case len(names.all) > maxExtra:
			return b.below, fmt.Errorf("%w, of which some may have to be deleted in the target: more than %d", errTooMany, maxExtra)
		}
	}
}

// lookAt looks up entries about which the listing does not say enough: entries without a type, and
// symbolic links that are to be followed. It replaces these entries in list, and stores the error
// for an entry at the entry's index of errs.
func (w *walker) lookAt(d *dir, list []fs.FileInfo, errs []error) {
	var which []int
	for i, fi := range list {
		t := fi.Mode().Type()
		follow := t == fs.ModeSymlink && w.opts.Links == FollowLinks
		if (follow || t == fs.ModeIrregular) && isElement(fi.Name()) {
			which = append(which, i)
		}
	}
	inParallel(len(which), func(k int) {
		i := which[k]
		name := path.Join(d.from, list[i].Name())
		look := d.tree.Lstat
		if w.opts.Links == FollowLinks {
			look = d.tree.Stat
		}
		fi, err := look(w.ctx, name)
		if err != nil {
			errs[i] = err
			return
		}
		l := ledTo{FileInfo: fi, name: list[i].Name(), link: w.opts.Links == FollowLinks}
		if l.link && fi.IsDir() {
			l.real = w.realPath(d.tree, name)
		}
		list[i] = l
	})
}
