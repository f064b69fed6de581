package treecopy

import (
	"context"
	"fmt"
	"io"
	"path"
	"sync"
)

// Copy copies what j says, and returns when all is done or ctx has ended: then
// what was under way is gone, or kept for Continue, and nothing half has a name.
//
// A nil error says that everything was copied or skipped as it should be. An
// [*IncompleteError] says that something was not. Any other error means that
// the copy did not begin, or that ctx has ended, or that an error was
// Options.Fatal, or that deletions were refused; if something had failed before that, an [*IncompleteError] has
// both.
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

// run copies everything, or returns why that could not begin.
func (c *copier) run(j Job) error {
	p, err := c.findTarget(j.Target)
	if err != nil {
		return err
	}
	starts, err := c.findSources(j.Sources)
	if err != nil || len(starts) == 0 {
		return err
	}
	if err := c.findUnfinished(p, len(j.Sources), starts); err != nil {
		return err
	}
	if err := p.placeSources(len(j.Sources), starts); err != nil {
		return err
	}
	if err := c.mirror.check(p, starts); err != nil {
		return err
	}
	if starts = c.apart(p, starts); len(starts) == 0 {
		return nil
	}
	if c.opts.DryRun && p.info == nil && !c.features.ImpliedDirs {
		if err := c.lookAbove(p.name); err != nil {
			return err
		}
	}
	if p.exact && !starts[0].isDir() {
		defer c.sweeps.Wait()
		c.sweep(path.Dir(p.name))
		c.startWorkers(func() { c.beginFile(starts[0], p) })
		return nil
	}
	top, end, err := c.enter(p, starts)
	if err != nil {
		return err
	}
	if top.fresh {
		defer c.removeEmpty(p.name, top.mark)
	}
	if end != nil {
		defer end.Close()
	}
	defer c.sweeps.Wait()
	if !top.fresh {
		c.sweep(top.to)
	}
	c.mirror.begin(&starts[0], top)
	c.startWorkers(func() {
		for _, s := range starts {
			if c.ctx.Err() == nil {
				c.beginBelow(s, p, top)
			}
		}
		c.walks.Wait()
		c.mirror.prepare()
		c.report.foundAll()
	})
	refused := c.mirror.complete()
	c.finish(top)
	if refused != nil {
		return c.report.err(refused)
	}
	return nil
}

// startWorkers copies the files that feed finds, until it returns and all are
// done.
func (c *copier) startWorkers(feed func()) {
	var work sync.WaitGroup
	for range c.opts.Parallel {
		work.Go(func() {
			for f := range c.large {
				c.copyInTurn(f, false)
			}
		})
	}
	c.startSmall(&work)
	feed()
	close(c.small)
	close(c.large)
	work.Wait()
}

// startSmall starts a worker for small files. With its first file it starts the next one,
// as long as more are worth having.
func (c *copier) startSmall(work *sync.WaitGroup) {
	work.Go(func() {
		for f := range c.small {
			if c.smallLimit.startAnother(f.tree) {
				c.startSmall(work)
			}
			c.copyInTurn(f, true)
		}
	})
}

// copyInTurn copies a file once there are few enough on their way. If it cannot be opened
// as too many are, it is tried again with fewer.
func (c *copier) copyInTurn(f *file, small bool) {
	if c.files != nil {
		c.files <- struct{}{}
		defer func() { <-c.files }()
	}
	var out Outcome
	err := c.smallLimit.try(small, func() (err error) {
		out, err = c.copyFile(f)
		return err
	})
	c.ended(f, out, err)
	c.finish(f.dir)
}

// enter opens the directory that all goes below, and makes it if it is missing.
// A tree that can do so opens it as a tree of its own: then no name leads out of
// it whatever becomes of it meanwhile. The caller closes end, if there is one.
func (c *copier) enter(p *place, starts []start) (top *dir, end io.Closer, err error) {
	top = &dir{to: p.name, made: true, mark: p.mark}
	top.pending.Store(1)
	perm := 0o777 &^ c.opts.Umask
	if p.exact {
		// The source that becomes the target gives it its attributes.
		top.info, top.fresh = starts[0].info, p.info == nil
		top.item = c.dirItem(&starts[0], starts[0].name, p.name, top.info.ModTime())
		perm = c.dirMode(top.info)
	}
	if c.target = p.info; p.info == nil {
		top.fresh = true
		if c.opts.DryRun || c.features.ImpliedDirs {
			return top, nil, nil
		}
		if top.mark, err = c.makeTop(p, starts, perm|ownerAll); err != nil {
			return nil, nil, err
		}
		if c.target, err = c.to.Stat(c.ctx, p.name); err != nil {
			return nil, nil, fmt.Errorf("look at the target directory: %w", err)
		}
	}
	if p.mark != "" && !c.opts.DryRun {
		c.renewMark(path.Join(p.name, p.mark))
	}
	sub, ok := given(c.to).(Subtree)
	if !ok {
		return top, nil, nil
	}
	tree, end, err := sub.Sub(c.ctx, p.name)
	if err != nil {
		return nil, nil, fmt.Errorf("open the target directory: %w", err)
	}
	c.to, c.prefix, top.to, c.contained = tree, p.name, ".", true
	return top, end, nil
}

// removeEmpty removes the directory that the copy has made as its target, with its
// mark, if the copy failed and nothing has come to be in it.
func (c *copier) removeEmpty(name, mark string) {
	succeeded := c.ctx.Err() == nil && c.report.err(nil) == nil
	if succeeded || c.opts.DryRun || c.features.ImpliedDirs || mark != "" && c.landed.Load() {
		return // a mark stays with what is kept
	}
	c.removeMarked(name, mark)
}

// beginFile begins with the one file that becomes the target.
func (c *copier) beginFile(s start, p *place) {
	f := &file{source: &s, tree: s.tree, from: s.name, to: p.name, info: s.info, listed: c.origin != "", old: p.info}
	f.item = c.fileItem(f)
	c.report.found(1, f.item.Size)
	c.report.foundAll()
	c.queue(f)
}

// beginBelow begins with a source that goes below the target, or whose contents
// do.
func (c *copier) beginBelow(s start, p *place, top *dir) {
	switch {
	case !s.isDir():
		f := &file{dir: top, source: &s, tree: s.tree, from: s.name, to: path.Join(top.to, s.as), info: s.info, listed: c.origin != ""}
		f.item = c.fileItem(f)
		c.report.found(1, f.item.Size)
		top.pending.Add(1)
		c.queue(f)
	case p.exact:
		top.source, top.tree, top.from, top.origin = &s, s.tree, s.name, c.identityOf(&s)
		top.pending.Add(1)
		c.spawn(top)
	case s.contents:
		d := &dir{parent: top, source: &s, tree: s.tree, from: s.name, to: top.to, made: true, fresh: top.fresh, origin: c.identityOf(&s)}
		d.pending.Store(1)
		top.pending.Add(1)
		c.spawn(d)
	default:
		d := c.child(top, &s, s.name, s.as, s.info)
		d.origin = c.identityOf(&s)
		c.spawn(d)
	}
}
