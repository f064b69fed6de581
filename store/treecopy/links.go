package treecopy

import (
	"errors"
	"io/fs"

	"github.com/haul-project/haul/store"
)

// A linkMaker makes symbolic links in the target.
type linkMaker struct {
	*task
	dirs     *dirMaker
	listings *listings
}

// copy makes a symbolic link and reports the outcome.
func (l *linkMaker) copy(f *file) {
	if l.ctx.Err() != nil {
		return
	}
	out, err := l.try(f)
	if err != nil {
		l.report.failed(f.item, err)
		return
	}
	l.landed.Store(true)
	l.report.ended(f.item, out)
}

func (l *linkMaker) try(f *file) (out Outcome, err error) {
	text, err := f.tree.Readlink(l.ctx, f.from)
	if err != nil {
		return out, err
	}
	if err := l.dirs.need(f.dir); err != nil {
		return out, err
	}
	fi, err := l.listings.lookUp(nil, f.to, f.cleared)
	switch {
	case err == nil && l.opts.NoClobber:
		return existing, nil
	case err == nil && fi.Mode().Type() != fs.ModeSymlink:
		return out, inTheWay(fi)
	case err == nil:
		if old, err := l.to.Readlink(l.ctx, f.to); err == nil && old == text {
			return Outcome{What: Same}, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return out, err
	}
	if l.opts.DryRun {
		return Outcome{What: Copied}, nil
	}
	if err == nil {
		if err := l.to.Remove(l.ctx, f.to); err != nil {
			return out, err
		}
	}
	if err := l.to.Symlink(l.ctx, text, f.to); err != nil {
		return out, err
	}
	if l.opts.fileTimes() {
		var a store.Attr
		a.AccessTime, a.ModTime = timesOf(f.info)
		if a.ModTime.IsZero() {
			return Outcome{What: Copied}, nil
		}
		if err := l.to.SetAttr(l.ctx, f.to, a, false); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return out, err
		}
	}
	return Outcome{What: Copied}, nil
}
