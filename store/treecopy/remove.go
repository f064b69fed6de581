package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
)

// complete deletes what is extra, and copies what that was in the way of. It comes after all
// copies. It returns why nothing may be deleted, though nothing has failed.
func (m *mirror) complete() error {
	if m == nil {
		return nil
	}
	c := m.c
	m.checkListed()
	if m.mayDelete() && m.doomed != nil {
		m.removeAll()
	} else if n := max(m.doomedCount(), int64(len(m.extras))); n > 0 {
		c.report.undeleted(n)
	}
	blocks := m.blocks
	m.blocks = nil
	if m.mayDelete() && len(blocks) > 0 {
		c.openQueues()
		c.startWorkers(func() {
			for _, b := range blocks {
				b.copy()
			}
			c.walks.Wait()
		})
	} else {
		for _, b := range blocks {
			if !b.gone {
				c.report.failed(b.item, inTheWay(b.old))
			}
			c.finish(b.dir)
		}
	}
	for _, d := range m.held {
		d.held = false
		c.reopen(d)
	}
	for _, d := range m.held {
		c.finish(d)
	}
	return m.err
}

// checkListed reports a target that has files, and lists none: what is extra there cannot be found.
func (m *mirror) checkListed() {
	c := m.c
	r := c.report.result()
	if !c.features.ImpliedDirs || c.opts.DryRun || len(m.extras) > 0 || r.Copied+r.Same == 0 || !m.mayDelete() {
		return
	}
	entries, err := m.lister().OpenDir(c.ctx, m.top.to)
	if err == nil {
		err = entries.Close()
	}
	if err != nil {
		m.unlisted(m.top, err)
	}
}

// reopen has a directory finish again, and those that it is in after it.
func (c *copier) reopen(d *dir) {
	if d.pending.Add(1) == 1 && d.parent != nil {
		c.reopen(d.parent)
	}
}

// removeAll deletes what is to be deleted: first files and symbolic links, then directories, the
// deepest first.
func (m *mirror) removeAll() {
	var files []*extra
	dirs := make([][]*extra, len(m.doomed))
	for i, level := range m.doomed {
		for _, x := range level {
			switch {
			case x.keep:
			case x.info.IsDir():
				dirs[i] = append(dirs[i], x)
			default:
				files = append(files, x)
			}
		}
	}
	m.removeEach(files, m.lister().Remove)
	for _, level := range slices.Backward(dirs) {
		m.removeEach(level, m.removeDir)
	}
}

// reached returns an error if a symbolic link has taken the place of a directory, or of one that
// it is in: nothing is deleted through it. A directory is looked at once, or by a few at a time.
func (m *mirror) reached(dir string) error {
	if dir == m.top.to || m.c.features.ImpliedDirs {
		return nil
	}
	if known, ok := m.reach.Load(dir); ok {
		err, _ := known.(error)
		return err
	}
	err := m.reached(path.Dir(dir))
	if err == nil {
		var fi fs.FileInfo
		if fi, err = m.c.to.Lstat(m.c.ctx, dir); err == nil && !fi.IsDir() {
			err = inTheWay(fi)
		}
	}
	m.reach.Store(dir, err)
	return err
}

// removeEach deletes entries by remove, some at once. One that is gone by now is deleted.
func (m *mirror) removeEach(list []*extra, remove func(ctx context.Context, name string) error) {
	inParallel(len(list), func(i int) {
		if m.c.ctx.Err() != nil {
			return
		}
		x := list[i]
		err := m.reached(path.Dir(x.name))
		if err == nil && !m.c.opts.DryRun {
			err = remove(m.c.ctx, x.name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.c.report.failed(x.item, err)
			return
		}
		m.c.report.ended(x.item, Outcome{What: Deleted})
	})
}

// removeDir deletes a directory that is empty, but for what earlier copies left in it.
func (m *mirror) removeDir(ctx context.Context, name string) error {
	err := m.c.to.RemoveDir(ctx, name)
	if s, ok := given(m.c.to).(Sweeper); ok && errors.Is(err, fs.ErrExist) && s.SweepDir(ctx, name) == nil {
		err = m.c.to.RemoveDir(ctx, name)
	}
	return err
}
