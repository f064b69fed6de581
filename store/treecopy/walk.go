package treecopy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/filter"
)

const (
	// listBatch is how many entries of a directory are taken at once.
	listBatch = 256

	// maxDepth is how many directories may be below each other.
	maxDepth = 1000

	// maxFollowed is how many symbolic links to directories may be below each
	// other. It bounds loops where directories cannot be distinguished.
	maxFollowed = 8

	// maxAside is how many directories and symbolic links of all directories are
	// kept at a time: a directory until its turn comes, so that no listing stays
	// open for it, and a link until all else in its directory is there.
	maxAside = 1 << 20
)

// child returns a directory in another. It counts as under way.
func (c *copier) child(parent *dir, source *start, from, base string, fi fs.FileInfo) *dir {
	d := &dir{
		parent: parent, source: source, tree: source.tree, from: from, to: path.Join(parent.to, base), info: fi,
		depth: parent.depth + 1, followed: parent.followed, origin: parent.origin.below(base, fi),
	}
	d.item = c.dirItem(source, from, d.to, fi.ModTime())
	d.pending.Store(1)
	parent.pending.Add(1)
	return d
}

// finish notes that something in d is done, or its listing is.
func (c *copier) finish(d *dir) {
	for d != nil && d.pending.Add(-1) == 0 {
		c.closeDir(d)
		d = d.parent
	}
}

// spawn copies a directory, besides others as long as there are not too many.
func (c *copier) spawn(d *dir) {
	select {
	case c.slots <- struct{}{}:
		c.walks.Go(func() {
			c.walk(d)
			<-c.slots
		})
	default:
		c.walk(d)
	}
}

// walk makes a directory, and hands over what is in it. It opens the listing first:
// nothing is made of a directory that cannot be read.
func (c *copier) walk(d *dir) {
	defer c.finish(d)
	if c.ctx.Err() != nil || !d.made && c.tooManyDirs(d) {
		return
	}
	entries, err := c.openDir(d)
	if err != nil {
		c.unlisted(d, err)
		return
	}
	if !d.made {
		if err := c.makeDir(d); err != nil {
			_ = entries.Close()
			c.report.failed(d.item, err)
			return
		}
		if d.made && !d.fresh {
			c.sweep(d.to)
		}
	}
	if d.item != nil && d.made { // else it is not copied itself
		c.reportMade(d)
	}
	if !d.fresh {
		c.listTarget(d)
	}
	names := newListedNames(c.mirror.compares(d))
	below, err := c.list(d, entries, names)
	switch {
	case err != nil:
		c.unlisted(d, err)
	case names.all != nil && c.ctx.Err() == nil:
		c.mirror.findExtra(d, names.all)
	}
	for i, b := range below {
		below[i] = nil // it need not stay until the last one is done
		c.aside.Add(-1)
		c.spawn(b)
	}
}

// openDir opens the listing of a directory, again with fewer files open if these may be
// why it cannot.
func (c *copier) openDir(d *dir) (entries store.Entries, err error) {
	err = c.smallLimit.try(false, func() error {
		entries, err = d.tree.OpenDir(c.ctx, d.from)
		return notOpened(d.tree, err)
	})
	return entries, err
}

// unlisted reports a directory that cannot be listed, or not to its end.
func (c *copier) unlisted(d *dir, err error) {
	item := d.item
	if item == nil {
		item = c.dirItem(d.source, d.from, d.to, time.Time{})
	}
	c.report.failed(item, err)
	if c.features.ImpliedDirs {
		d.item = nil // more is not known of it
	}
}

// tooManyDirs ends the copy once there are more directories than Options.MaxDirs.
// A server can make up directories without end, and one whose links lead in a
// circle has them.
func (c *copier) tooManyDirs(d *dir) bool {
	if c.dirs.Add(1) <= c.opts.MaxDirs {
		return false
	}
	c.report.stop(&EntryError{From: d.item.shown(), To: d.item.To, Err: fmt.Errorf("%w: it is directory %d; copy the directories above it one by one", ErrTooManyDirs, c.opts.MaxDirs+1)})
	return true
}

// setAside counts a directory or a link that is kept for later.
func (c *copier) setAside() error {
	if c.aside.Add(1) > maxAside {
		c.aside.Add(-1)
		return fmt.Errorf("%w: more than %d directories and symbolic links wait to be copied; copy the directories in it one by one", fs.ErrInvalid, maxAside)
	}
	return nil
}

// makeDir makes the target of a directory, unless it is there, or is to be made later.
func (c *copier) makeDir(d *dir) error {
	there, err := c.findDir(d)
	switch {
	case err != nil:
		return err
	case there:
	case d.lazy:
		d.fresh = true
		return nil
	default:
		if err := c.needDir(d.parent); err != nil {
			return err
		}
		d.fresh = true
		if err := c.mkdir(d); err != nil {
			return err
		}
	}
	d.made = true
	c.landed.Store(true)
	return nil
}

// needDir makes a directory that is made later, if it is not there: something is to be put
// into it.
func (c *copier) needDir(d *dir) error {
	if d == nil || !d.lazy {
		return nil
	}
	d.making.Do(func() {
		if d.made {
			return
		}
		if d.unmade = c.needDir(d.parent); d.unmade != nil {
			return
		}
		if d.unmade = c.mkdir(d); d.unmade == nil {
			d.made = true
			c.landed.Store(true)
			c.reportMade(d)
		}
	})
	return d.unmade
}

// findDir reports whether the target has a directory.
func (c *copier) findDir(d *dir) (there bool, err error) {
	switch {
	case d.depth > maxDepth:
		return false, fmt.Errorf("%w: deeper than %d directories", fs.ErrInvalid, maxDepth)
	case c.target != nil && store.SameFile(d.info, c.target):
		return false, fmt.Errorf("%w: it is the directory that is copied to", fs.ErrInvalid)
	case d.parent.fresh:
		return false, nil
	}
	fi, err := c.lookUp(d.parent, d.to, d.cleared)
	switch {
	case err == nil && fi.IsDir():
		return true, nil
	case err == nil:
		return false, inTheWay(fi)
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, err
}

// mkdir makes the target of a directory that was missing.
func (c *copier) mkdir(d *dir) error {
	if c.opts.DryRun || c.features.ImpliedDirs {
		return nil
	}
	err := c.to.Mkdir(c.ctx, d.to, c.dirMode(d.info)|ownerAll)
	if errors.Is(err, fs.ErrExist) {
		// It came between, or the listing has it twice.
		d.fresh = d.lazy // others read that of a lazy one by now
		fi, e := c.to.Lstat(c.ctx, d.to)
		switch {
		case e == nil && fi.IsDir():
			return nil
		case e == nil:
			return inTheWay(fi)
		}
	}
	return err
}

// reportMade reports that a directory was made, unless that is yet to be seen, or that it
// was there.
func (c *copier) reportMade(d *dir) {
	switch {
	case !d.fresh:
		c.report.ended(d.item, Outcome{What: Present})
	case !c.features.ImpliedDirs:
		c.report.ended(d.item, Outcome{What: Made})
	}
}

// endImplied reports what became of a directory that comes to be with its files.
func (c *copier) endImplied(d *dir) {
	switch {
	case d.item == nil || !d.made || !d.fresh:
	case d.filled.Load():
		c.report.ended(d.item, Outcome{What: Made})
	case d.holds.Load(): // what became of its files is reported
	default:
		c.report.ended(d.item, Outcome{What: Skipped, Err: ErrEmpty})
	}
}

// list hands the files of a directory over, and returns the directories in it.
func (c *copier) list(d *dir, entries store.Entries, names *listedNames) (below []*dir, err error) {
	defer entries.Close()
	into := make([]fs.FileInfo, listBatch)
	for {
		n, err := entries.Next(into)
		some, e := c.take(d, into[:n], names)
		below = append(below, some...)
		switch {
		case c.ctx.Err() != nil, err == io.EOF:
			return below, nil
		case err != nil:
			return below, err
		case e != nil:
			return below, e
		case names.twice > maxTwice:
			return below, fmt.Errorf("%w: more than %d of them", errTwice, maxTwice)
		case len(names.all) > maxExtra:
			return below, fmt.Errorf("%w, of which some may have to be deleted in the target: more than %d", errTooMany, maxExtra)
		}
	}
}

// take hands over the files among some entries of a directory, and returns the
// directories. Behind an error those that are missing are left out. names are those
// that the listing had before.
func (c *copier) take(d *dir, list []fs.FileInfo, names *listedNames) (below []*dir, err error) {
	leads := make([]error, len(list)) // why it is not known what a link leads to
	c.lookAt(d, list, leads)
	var files []*file
	var bytes int64
	for i, fi := range list {
		f := &file{dir: d, source: d.source, tree: d.tree, from: path.Join(d.from, fi.Name()), to: path.Join(d.to, fi.Name()), info: fi, listed: true}
		led, _ := fi.(ledTo)
		if led.FileInfo != nil {
			f.info, f.listed = led.FileInfo, false
		}
		f.item = c.fileItem(f)
		if tempname.Is(fi.Name()) {
			continue
		}
		if !isElement(fi.Name()) {
			f.item.From, f.item.As, f.item.To = d.from+"/"+fi.Name(), "", ""
			c.report.failed(f.item, fmt.Errorf("%w: %.200q in the listing of %s", ErrUnsafeName, fi.Name(), printable(d.from)))
			continue
		}
		verdict := c.opts.Filter.Match(d.source.below(f.from), f.info.IsDir())
		names.note(fi.Name(), verdict, c.opts.Delete)
		if verdict == filter.Skip {
			c.report.excluded()
			continue
		}
		if leads[i] != nil {
			c.report.failed(f.item, leads[i])
			continue
		}
		t := f.info.Mode().Type()
		if t == 0 || t == fs.ModeIrregular || t == fs.ModeDir { // links are made last, and replace nothing
			if twice := c.checkTwice(d, names, fi.Name()); twice != nil {
				c.report.failed(f.item, twice)
				continue
			}
		}
		switch {
		case t == fs.ModeDir && (led.link || d.followed > 0) && d.leadsBack(led.origin(d, f.info)):
			c.report.failed(f.item, ErrLoop)
		case t == fs.ModeDir && led.link && c.holdsTarget(d, led.real):
			c.report.failed(f.item, fmt.Errorf("%w: it leads to the directory that is copied to", ErrLoop))
		case t == fs.ModeDir && led.link && d.followed == maxFollowed:
			c.report.failed(f.item, fmt.Errorf("%w: more than %d symbolic links below each other", fs.ErrInvalid, maxFollowed))
		case err != nil && (t == fs.ModeDir || t == fs.ModeSymlink): // there is no room for it either
		case t == fs.ModeDir:
			if err = c.setAside(); err != nil {
				break
			}
			b := c.child(d, d.source, f.from, fi.Name(), f.info)
			b.lazy = verdict == filter.Enter
			if led.link {
				b.followed++
				b.origin = led.origin(d, f.info)
			}
			if !c.mirror.blocked(d, b.item, &b.cleared, func() { c.aside.Add(-1); c.spawn(b) }) {
				below = append(below, b)
			}
		case t == fs.ModeSymlink && c.opts.Links == KeepLinks:
			if err = c.setAside(); err != nil {
				break
			}
			if !c.mirror.blocked(d, f.item, &f.cleared, func() { d.links = append(d.links, f); c.finish(d) }) {
				d.links = append(d.links, f)
			} else {
				d.pending.Add(1)
			}
		case t == 0, t == fs.ModeIrregular: // or so one may hope
			files = append(files, f)
			bytes = addSizes(bytes, f.item.Size)
		default:
			c.report.ended(f.item, Outcome{What: Skipped, Err: notCopied(t)})
		}
	}
	if len(files) > 0 {
		d.hold()
	}
	c.report.found(int64(len(files)), bytes)
	d.pending.Add(int64(len(files)))
	for _, f := range files {
		if !c.mirror.blocked(d, f.item, &f.cleared, func() { c.queue(f) }) && !c.mirror.postpone(f) {
			c.queue(f)
		}
	}
	return below, err
}

// notCopied says why something is skipped.
func notCopied(t fs.FileMode) error {
	if t == fs.ModeSymlink {
		return errSkippedLink
	}
	return store.ErrNotRegular
}

var errSkippedLink = errors.New("a symbolic link")

// lookAt replaces the entries whose listing does not say enough: those that the
// server has not described, and symbolic links that are to be followed.
func (c *copier) lookAt(d *dir, list []fs.FileInfo, errs []error) {
	var which []int
	for i, fi := range list {
		t := fi.Mode().Type()
		follow := t == fs.ModeSymlink && c.opts.Links == FollowLinks
		if (follow || t == fs.ModeIrregular) && isElement(fi.Name()) {
			which = append(which, i)
		}
	}
	inParallel(len(which), func(k int) {
		i := which[k]
		name := path.Join(d.from, list[i].Name())
		look := d.tree.Lstat
		if c.opts.Links == FollowLinks {
			look = d.tree.Stat
		}
		fi, err := look(c.ctx, name)
		if err != nil {
			errs[i] = err
			return
		}
		l := ledTo{FileInfo: fi, name: list[i].Name(), link: c.opts.Links == FollowLinks}
		if l.link && fi.IsDir() {
			l.real = c.realPath(d.tree, name)
		}
		list[i] = l
	})
}

// closeDir makes the links of a directory in which all else is done, and gives
// the directory its attributes: what is done in it would change its times.
func (c *copier) closeDir(d *dir) {
	c.forgetThere(d)
	if c.ctx.Err() != nil {
		return
	}
	inParallel(len(d.links), func(i int) { c.copyLink(d.links[i]) })
	c.aside.Add(-int64(len(d.links)))
	d.links = nil
	if c.features.ImpliedDirs {
		c.endImplied(d)
		return
	}
	if !d.made || d.info == nil || c.opts.DryRun || d.held {
		return
	}
	c.unmark(d) // that would change its times too, and its mode may forbid it
	if c.opts.NoClobber && !d.fresh {
		return
	}
	var a store.Attr
	want := c.dirMode(d.info)
	switch {
	case d.parent == nil && !d.fresh && d.mark != "" && c.target.Mode().Perm() == want:
	case d.fresh && want|ownerAll != want || c.opts.PreserveMode && !d.fresh:
		a.Mode = &want
	}
	if c.opts.PreserveTimes {
		a.AccessTime, a.ModTime = timesOf(d.info)
	}
	if a.Mode == nil && a.ModTime.IsZero() {
		return
	}
	err := error(nil)
	if d.parent == nil && a.Mode != nil {
		// No tree has the mode of its root changed.
		err = c.whole.SetAttr(c.ctx, c.outside(d.to), store.Attr{Mode: a.Mode}, true)
		a.Mode = nil
	}
	if err == nil && a != (store.Attr{}) {
		err = c.to.SetAttr(c.ctx, d.to, a, true)
	}
	switch {
	case err == nil:
	case !d.fresh && errors.Is(err, fs.ErrPermission): // another user owns it: what is in it is copied nevertheless
		c.report.kept()
	default:
		c.report.failed(d.item, fmt.Errorf("its permissions and times cannot be set: %w", err))
	}
}

// queue hands a file over to be copied.
func (c *copier) queue(f *file) {
	files := c.small
	if f.item.Size > smallFile {
		files = c.large
	}
	select {
	case files <- f:
	case <-c.ctx.Done():
		c.finish(f.dir)
	}
}
