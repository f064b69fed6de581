package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
)

// maxDepth is the largest number of directories that may be nested.
const maxDepth = 1000

// A dirMaker makes the directories of the target.
type dirMaker struct {
	*task
	listings *listings

	begun     atomic.Int64 // number of directories of the source so far, for Options.MaxDirs
	foldsOnce sync.Once
	folds     bool // the target ignores case in names; set by foldsCase
}

// tooMany counts a directory. If there are more directories than Options.MaxDirs, it ends the whole
// copy and returns true. Otherwise a copy would never end if a server invents directories, or if
// the links of a tree form a circle.
func (m *dirMaker) tooMany(d *dir) bool {
	if m.begun.Add(1) <= m.opts.MaxDirs {
		return false
	}
	m.report.stop(&EntryError{From: d.item.shown(), To: d.item.To, Err: fmt.Errorf("%w: it is directory %d; copy the directories above it one by one", errTooManyDirs, m.opts.MaxDirs+1)})
	return true
}

// make makes a directory in the target, unless it exists already or is lazy.
func (m *dirMaker) make(d *dir) error {
	there, err := m.find(d)
	switch {
	case err != nil:
		return err
	case there:
	case d.lazy:
		d.fresh = true
		return nil
	default:
		if err := m.need(d.parent); err != nil {
			return err
		}
		d.fresh = true
		if err := m.mkdir(d); err != nil {
			return err
		}
	}
	d.made = true
	m.landed.Store(true)
	return nil
}

// need makes a lazy directory in the target, if it does not exist yet, because an entry is about to
// be put into it.
func (m *dirMaker) need(d *dir) error {
	if d == nil || !d.lazy {
		return nil
	}
	d.making.Do(func() {
		if d.made {
			return
		}
		if d.unmade = m.need(d.parent); d.unmade != nil {
			return
		}
		if d.unmade = m.mkdir(d); d.unmade == nil {
			d.made = true
			m.landed.Store(true)
			m.reportMade(d)
		}
	})
	return d.unmade
}

// find reports whether the target already has a directory.
func (m *dirMaker) find(d *dir) (there bool, err error) {
	switch {
	case d.depth > maxDepth:
		return false, fmt.Errorf("%w: deeper than %d directories", fs.ErrInvalid, maxDepth)
	case m.target != nil && store.SameFile(d.info, m.target):
		return false, fmt.Errorf("%w: it is the directory that is copied to", fs.ErrInvalid)
	case d.parent.fresh:
		return false, nil
	}
	fi, err := m.listings.lookUp(d.parent, d.to, d.cleared)
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

// mkdir makes a directory that the target does not have.
func (m *dirMaker) mkdir(d *dir) error {
	if m.opts.DryRun || m.to.can.ImpliedDirs {
		return nil
	}
	err := m.to.Mkdir(m.ctx, d.to, m.dirMode(d.info)|ownerAll)
	if errors.Is(err, fs.ErrExist) {
		// The directory was created meanwhile, or the source's listing has the name twice.
		d.fresh = d.lazy // fresh of a lazy directory stays set, because other goroutines may be reading it
		fi, e := m.to.Lstat(m.ctx, d.to)
		switch {
		case e == nil && fi.IsDir():
			return nil
		case e == nil:
			return inTheWay(fi)
		}
	}
	return err
}

// reportMade reports that a directory was made, or that it existed already. If directories are
// implied in the target, a new directory is not reported here, but later by endImplied.
func (m *dirMaker) reportMade(d *dir) {
	switch {
	case !d.fresh:
		m.report.ended(d.item, Outcome{What: Present})
	case !m.to.can.ImpliedDirs:
		m.report.ended(d.item, Outcome{What: Made})
	}
}

// foldsCase reports whether the target ignores case in names, as file systems of Windows and macOS
// do. The first call finds out, by making a directory with a random name. If directories are
// implied in the target, foldsCase returns false.
func (m *dirMaker) foldsCase(d *dir) bool {
	m.foldsOnce.Do(func() {
		if m.to.can.ImpliedDirs || m.opts.DryRun {
			return
		}
		name := path.Join(d.to, tempname.New(tempname.Random(), tempname.Case))
		if m.to.Mkdir(m.ctx, name, ownerAll) != nil {
			return
		}
		_, err := m.to.Lstat(m.ctx, path.Join(d.to, strings.ToUpper(path.Base(name))))
		m.folds = err == nil
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), removeTime)
		defer cancel()
		_ = m.to.RemoveDir(ctx, name)
	})
	return m.folds
}
