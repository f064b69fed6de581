package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
)

// A directory that becomes the target is there as soon as the copy begins. As with
// cp, the same copy would then put the source below it, and so would one that is
// to resume this one. Hence Continue has such a directory hold a mark, an empty
// file whose name says of which source it is the copy, until all is copied.
//
// The directory has another name until the mark is in it. So it never has its own
// name without the mark, at whatever moment the process is killed.

// markPerm keeps others from taking the mark for theirs. A client of package sftp
// removes files of such names and permissions once they are old.
const markPerm = 0o600

// markName returns the name of the mark of what is copied from a source, and with
// a target that of the directory until it has its own.
func markName(origin, source, target string) string {
	return tempname.New(tempname.Hash(fmt.Sprintf("haul tree\x00%q %q %q %q", who(), origin, source, target)), tempname.Record)
}

func (s *start) mark() string { return markName(s.origin, s.name, "") }

// findUnfinished looks whether the target is the unfinished copy of the one source, and
// then has that become the target again.
func (c *copier) findUnfinished(p *place, named int, starts []start) error {
	if !c.opts.Continue || c.features.ImpliedDirs || named != 1 || len(starts) != 1 || p.info == nil || !p.info.IsDir() {
		return nil
	}
	s := &starts[0]
	if !s.isDir() || p.below && !s.contents {
		return nil
	}
	fi, err := c.to.Lstat(c.ctx, path.Join(p.name, s.mark()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("look whether the target is an unfinished copy: %w", err)
	case fi.Mode().IsRegular():
		p.exact, p.mark = true, s.mark()
	}
	return nil
}

// makeTop makes the directory that is the target. If another copy is to be able to
// resume it, it holds a mark, whose name is returned.
func (c *copier) makeTop(p *place, starts []start, perm fs.FileMode) (mark string, err error) {
	if c.opts.Continue && p.exact {
		if err := c.makeMarked(p.name, &starts[0], perm); err == nil {
			return starts[0].mark(), nil
		}
		// A user who may only upload cannot rename directories, for one, and
		// cannot resume anything either.
	}
	if err := c.to.Mkdir(c.ctx, p.name, perm); err != nil {
		return "", fmt.Errorf("make the target directory: %w", err)
	}
	return "", nil
}

// makeMarked makes a directory with a mark in it, or nothing.
func (c *copier) makeMarked(name string, s *start, perm fs.FileMode) error {
	aside := path.Join(path.Dir(name), markName(s.origin, s.name, path.Base(name)))
	err := c.to.Mkdir(c.ctx, aside, perm)
	if errors.Is(err, fs.ErrExist) {
		// It is from a process that was killed just then, or it is a directory
		// that is not empty, and cannot be used.
		c.removeMarked(aside, s.mark())
		err = c.to.Mkdir(c.ctx, aside, perm)
	}
	if err != nil {
		return err
	}
	h, err := c.to.OpenFile(c.ctx, path.Join(aside, s.mark()), store.Access{Write: true, Create: true, Exclusive: true, Perm: markPerm})
	if err == nil {
		err = h.Close()
	}
	if err == nil {
		err = c.to.Rename(c.ctx, aside, name, false)
	}
	if err != nil {
		c.removeMarked(aside, s.mark())
	}
	return err
}

// removeMarked removes a directory and the mark in it, if it has one, even if the
// context has ended. One in which there is more stays.
func (c *copier) removeMarked(dir, mark string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), removeTime)
	defer cancel()
	if mark != "" {
		_ = c.whole.Remove(ctx, path.Join(dir, mark))
	}
	_ = c.whole.RemoveDir(ctx, dir)
}

// renewMark keeps a mark from being taken for an old one. That it cannot is no
// matter of this copy.
func (c *copier) renewMark(mark string) {
	now := time.Now()
	_ = c.to.SetAttr(c.ctx, mark, store.Attr{AccessTime: now, ModTime: now}, false)
}

// unmark removes the mark once all that was to be copied is.
func (c *copier) unmark(d *dir) {
	if d.mark != "" && c.report.err(nil) == nil {
		_ = c.to.Remove(c.ctx, path.Join(d.to, d.mark)) // if this fails, the next copy resumes it, and finds all there
	}
}

// sweep removes what earlier copies left in a directory of the target, besides
// all else. That it cannot is no matter of this copy.
func (c *copier) sweep(dir string) {
	s, ok := given(c.to).(Sweeper)
	if !ok || c.opts.DryRun {
		return
	}
	select {
	case c.sweepSlots <- struct{}{}:
		c.sweeps.Go(func() {
			_ = s.SweepDir(c.ctx, dir)
			<-c.sweepSlots
		})
	default:
		_ = s.SweepDir(c.ctx, dir)
	}
}
