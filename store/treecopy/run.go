package treecopy

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// Copy runs a job. It returns when everything is done, or when ctx has ended. In the second case,
// files that are not complete are removed, or kept for Continue under temporary names.
//
// Copy returns nil if everything was copied, or skipped as intended. If some entries were not
// copied, it returns an [*IncompleteError]. Any other error means that the copy did not begin, that
// ctx ended, that Options.Fatal returned true, or that deletions were refused. If entries had
// failed before, the error is an [*IncompleteError] that also contains the other error.
func Copy(ctx context.Context, j Job) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c, err := newCopier(ctx, stop, &j)
	if err != nil {
		return Result{}, err
	}
	err = c.run(j)
	switch {
	case ctx.Err() != nil:
		err = c.report.err(context.Cause(ctx))
	case err == nil:
		err = c.report.err(nil)
	}
	return c.report.result(), err
}

// A copier runs one [Copy]. It decides which names the sources get in the target, and its fields do
// the work.
type copier struct {
	*task
	placer      *placer
	checkpoints *checkpoints
	leftovers   *leftovers
	closer      *closer
	queue       *queue
	walker      *walker
}

// newCopier returns a copier for a job. The function stop cancels ctx.
func newCopier(ctx context.Context, stop context.CancelCauseFunc, j *Job) (*copier, error) {
	t, err := newTask(ctx, stop, j)
	if err != nil {
		return nil, err
	}
	var (
		listings    = newListings(t)
		checkpoints = &checkpoints{t}
		leftovers   = newLeftovers(t)
		dirs        = &dirMaker{task: t, listings: listings}
		links       = &linkMaker{t, dirs, listings}
		closer      = &closer{task: t, dirs: dirs, listings: listings, links: links, checkpoints: checkpoints}
		queue       = newQueue(t, &fileCopier{t, dirs, listings}, closer)
		walker      = newWalker(t, listings, leftovers, dirs, closer, queue)
	)
	if o := &t.opts; o.Delete != nil {
		if len(j.Sources) != 1 || !o.Recursive || o.NoClobber {
			return nil, fmt.Errorf("copy to %s: %w: deletions take one directory as the source, Recursive, and no NoClobber", printable(j.Target), fs.ErrInvalid)
		}
		walker.mirror = newMirror(walker, *o.Delete)
	}
	return &copier{t, &placer{t}, checkpoints, leftovers, closer, queue, walker}, nil
}

// run copies everything. It returns an error if the copy could not begin, or if deletions were
// refused. Errors of entries are only reported.
func (c *copier) run(j Job) error {
	p, err := c.placer.findTarget(j.Target)
	if err != nil {
		return err
	}
	starts, err := c.placer.findSources(j.Sources)
	if err != nil || len(starts) == 0 {
		return err
	}
	if err := c.checkpoints.find(p, len(j.Sources), starts); err != nil {
		return err
	}
	if err := p.placeSources(len(j.Sources), starts); err != nil {
		return err
	}
	if err := c.walker.mirror.check(p, starts); err != nil {
		return err
	}
	if starts = c.placer.apart(p, starts); len(starts) == 0 {
		return nil
	}
	if c.opts.DryRun && p.info == nil && !c.to.can.ImpliedDirs {
		if err := c.placer.lookAbove(p.name); err != nil {
			return err
		}
	}
	if p.exact && !starts[0].isDir() {
		defer c.leftovers.running.Wait()
		c.leftovers.removeFrom(path.Dir(p.name))
		c.queue.run(func() { c.beginFile(starts[0], p) })
		return nil
	}
	top, end, err := c.enter(p, starts)
	if err != nil {
		return err
	}
	if top.fresh {
		defer c.removeEmpty(p.name, top.checkpoint)
	}
	if end != nil {
		defer end.Close()
	}
	defer c.leftovers.running.Wait()
	if !top.fresh {
		c.leftovers.removeFrom(top.to)
	}
	c.walker.mirror.begin(&starts[0], top)
	c.queue.run(func() {
		for _, s := range starts {
			if c.ctx.Err() == nil {
				c.beginBelow(s, p, top)
			}
		}
		c.walker.walks.Wait()
		c.walker.mirror.prepare()
		c.report.foundAll()
	})
	refused := c.walker.mirror.complete()
	c.closer.finish(top)
	if refused != nil {
		return c.report.err(refused)
	}
	return nil
}

// enter opens the directory that everything is copied to, and makes the directory if it is missing.
// If the tree can open that directory as a separate tree (Sub), no name leads out of the directory,
// even if a symbolic link replaces it meanwhile. If `end` is not nil, the caller closes it after the
// copy.
func (c *copier) enter(p *place, starts []start) (top *dir, end io.Closer, err error) {
	top = &dir{to: p.name, made: true, checkpoint: p.checkpoint}
	top.pending.Store(1)
	perm := 0o777 &^ c.opts.Umask
	if p.exact {
		// The source that becomes the target also determines the target's attributes.
		top.info, top.fresh = starts[0].info, p.info == nil
		top.item = c.dirItem(&starts[0], starts[0].name, p.name, top.info.ModTime())
		perm = c.dirMode(top.info)
	}
	if c.target = p.info; p.info == nil {
		top.fresh = true
		if c.opts.DryRun || c.to.can.ImpliedDirs {
			return top, nil, nil
		}
		if top.checkpoint, err = c.checkpoints.make(p, starts, perm|ownerAll); err != nil {
			return nil, nil, err
		}
		if c.target, err = c.to.Stat(c.ctx, p.name); err != nil {
			return nil, nil, fmt.Errorf("look at the target directory: %w", err)
		}
	}
	if p.checkpoint != "" && !c.opts.DryRun {
		c.checkpoints.renew(path.Join(p.name, p.checkpoint))
	}
	if c.to.can.Sub == nil {
		return top, nil, nil
	}
	sub, end, err := c.to.can.Sub(c.ctx, p.name)
	if err != nil {
		return nil, nil, fmt.Errorf("open the target directory: %w", err)
	}
	c.to, c.prefix, top.to, c.contained = newTree(sub), p.name, ".", true
	return top, end, nil
}

// removeEmpty removes the target directory, with its checkpoint, if this copy made it and failed
// before anything else was put into it.
func (c *copier) removeEmpty(name, checkpoint string) {
	succeeded := c.ctx.Err() == nil && c.report.err(nil) == nil
	if succeeded || c.opts.DryRun || c.to.can.ImpliedDirs || checkpoint != "" && c.landed.Load() {
		return // entries that another copy can resume stay, and so does the checkpoint
	}
	c.checkpoints.remove(name, checkpoint)
}

// beginFile queues the only file, which becomes the target itself.
func (c *copier) beginFile(s start, p *place) {
	f := &file{source: &s, tree: s.tree, from: s.name, to: p.name, info: s.info, listed: c.origin != "", old: p.info}
	f.item = c.fileItem(f)
	c.report.found(1, f.item.Size)
	c.report.foundAll()
	c.queue.add(f)
}

// beginBelow begins to copy a source below the target, or only its contents.
func (c *copier) beginBelow(s start, p *place, top *dir) {
	switch {
	case !s.isDir():
		f := &file{dir: top, source: &s, tree: s.tree, from: s.name, to: path.Join(top.to, s.as), info: s.info, listed: c.origin != ""}
		f.item = c.fileItem(f)
		c.report.found(1, f.item.Size)
		top.pending.Add(1)
		c.queue.add(f)
	case p.exact:
		top.source, top.tree, top.from, top.origin = &s, s.tree, s.name, c.identityOf(&s)
		top.pending.Add(1)
		c.walker.spawn(top)
	case s.contents:
		d := &dir{parent: top, source: &s, tree: s.tree, from: s.name, to: top.to, made: true, fresh: top.fresh, origin: c.identityOf(&s)}
		d.pending.Store(1)
		top.pending.Add(1)
		c.walker.spawn(d)
	default:
		d := c.walker.child(top, &s, s.name, s.as, s.info)
		d.origin = c.identityOf(&s)
		c.walker.spawn(d)
	}
}
