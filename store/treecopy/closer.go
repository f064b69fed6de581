package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/haul-project/haul/store"
)

// maxWaiting is the largest number of directories and symbolic links that may wait: see [waiting].
const maxWaiting = 1 << 20

// waiting counts the directories and symbolic links that were listed, but are not copied yet. A
// directory waits in memory until it is copied, so that its parent's listing need not stay open. A
// link waits until everything else in its directory is copied.
type waiting struct{ n atomic.Int64 }

func (w *waiting) add() error {
	if w.n.Add(1) > maxWaiting {
		w.n.Add(-1)
		return fmt.Errorf("%w: more than %d directories and symbolic links wait to be copied; copy the directories in it one by one", fs.ErrInvalid, maxWaiting)
	}
	return nil
}

func (w *waiting) remove(n int) { w.n.Add(-int64(n)) }

// A closer finishes directories: when everything else in a directory is copied, the closer makes
// the symbolic links in it and sets the directory's attributes.
type closer struct {
	*task
	dirs        *dirMaker
	listings    *listings
	links       *linkMaker
	checkpoints *checkpoints
	waiting     waiting
}

// finish records that an entry of d, or the listing of d, is done. When all of them are done, finish
// closes d, and records in the directory above that d is done.
func (c *closer) finish(d *dir) {
	for d != nil && d.pending.Add(-1) == 0 {
		c.close(d)
		d = d.parent
	}
}

// close finishes a directory when everything else in it is done. Links are made only now, because
// otherwise files could be written through them. The attributes are set last, because each change
// in the directory changes its times.
func (c *closer) close(d *dir) {
	c.listings.forget(d)
	if c.ctx.Err() != nil {
		return
	}
	inParallel(len(d.links), func(i int) { c.links.copy(d.links[i]) })
	c.waiting.remove(len(d.links))
	d.links = nil
	switch {
	case c.to.can.ImpliedDirs:
		c.endImplied(d)
	case d.made && d.info != nil && !c.opts.DryRun && !d.held:
		c.checkpoints.end(d) // before the attributes, because the new mode may forbid removing the checkpoint
		c.setAttrs(d)
	}
}

// setAttrs gives the copy of a directory the permissions and the times of the original, as the
// options say.
func (c *closer) setAttrs(d *dir) {
	if c.opts.NoClobber && !d.fresh {
		return
	}
	var a store.Attr
	want := c.dirMode(d.info)
	switch {
	case d.parent == nil && !d.fresh && d.checkpoint != "" && c.target.Mode().Perm() == want:
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
		// A tree cannot change the mode of its own root, so use the job's tree, which contains the
		// directory.
		err = c.whole.SetAttr(c.ctx, c.outside(d.to), store.Attr{Mode: a.Mode}, true)
		a.Mode = nil
	}
	if err == nil && a != (store.Attr{}) {
		err = c.to.SetAttr(c.ctx, d.to, a, true)
	}
	switch {
	case err == nil:
	// Another user owns the directory. This is counted, but is not a failure, because the contents
	// of the directory could be copied.
	case !d.fresh && errors.Is(err, fs.ErrPermission):
		c.report.kept()
	default:
		c.report.failed(d.item, fmt.Errorf("its permissions and times cannot be set: %w", err))
	}
}

// endImplied reports the outcome of a directory that exists in the target only if it contains
// files.
func (c *closer) endImplied(d *dir) {
	switch {
	case d.item == nil || !d.made || !d.fresh:
	case d.filled.Load():
		c.report.ended(d.item, Outcome{What: Made})
	case d.holds.Load(): // the directory contains files, but none of them was copied, and that was reported already
	default:
		c.report.ended(d.item, Outcome{What: Skipped, Err: ErrEmpty})
	}
}

// reopen makes a directory wait for one more call of finish. If the directory was done already,
// reopen makes its parent wait too.
func (c *closer) reopen(d *dir) {
	if d.pending.Add(1) == 1 && d.parent != nil {
		c.reopen(d.parent)
	}
}
