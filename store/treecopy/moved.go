package treecopy

import (
	"io/fs"
	"path"

	"github.com/haul-project/haul/store"
)

const (
	// minMoved is the smallest file that is searched under other names in the target. A smaller
	// file is copied in the time that comparing hashes takes.
	minMoved = smallFile + 1

	// maxPostponed bounds the files that wait for the search.
	maxPostponed = 1 << 17

	// maxAlike is how many files of the target with the same size, time and name are compared with
	// a file that may have moved, and how many with the same size and time and any name. There may
	// be thousands, as in an unpacked archive, and both sides read the whole file to compute its
	// hash.
	maxAlike = 4
)

// A looks holds the properties that a file keeps when it moves.
type looks struct {
	size, seconds int64
	base          string // the last element of its name; "" for any
}

func looksOf(fi fs.FileInfo, base string) looks {
	return looks{fi.Size(), fi.ModTime().Unix(), base}
}

// movedFiles handles the files that the target may already have under another name. Only after the
// walk is it known whether it has, so they are copied after that.
type movedFiles struct {
	*extras
	dirs   *dirMaker
	closer *closer
	files  *fileCopier

	walked    bool    // the walk is over: nothing more is postponed
	postponed []*file // mu: files that the target does not have, or has under another name
}

// postpone reports whether a file is copied only after the walk, because the target may have it
// under another name.
func (m *movedFiles) postpone(f *file) bool {
	d := f.dir
	missing := d.fresh || d.there != nil && d.there[path.Base(f.to)] == nil
	if m.walked || m.top.fresh || m.to.can.OwnTimes || !missing || f.info.Size() < minMoved || f.info.ModTime().IsZero() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.postponed) == maxPostponed {
		return false
	}
	m.postponed = append(m.postponed, f)
	return true
}

// find maps postponed files to the extra entries with the same content. It keeps those entries from
// deletion.
func (m *movedFiles) find() map[*file]*extra {
	there := map[looks][]*extra{}
	for _, level := range m.toDelete {
		for _, x := range level {
			if !x.info.Mode().IsRegular() {
				continue
			}
			for _, base := range []string{path.Base(x.name), ""} {
				if k := looksOf(x.info, base); len(there[k]) < maxAlike {
					there[k] = append(there[k], x)
				}
			}
		}
	}
	found := make([]*extra, len(m.postponed))
	if len(there) > 0 {
		inParallel(len(found), func(i int) { found[i] = m.oldName(m.postponed[i], there) })
	}
	moved := map[*file]*extra{}
	for i, x := range found {
		if x != nil && !x.keep {
			x.keep = true
			moved[m.postponed[i]] = x
		}
	}
	return moved
}

// oldName returns the extra file that has the same content as f. It returns nil if there is no such
// file, or if the two sides cannot compare the contents without moving them.
func (m *movedFiles) oldName(f *file, there map[looks][]*extra) *extra {
	for _, base := range []string{path.Base(f.to), ""} {
		for _, x := range there[looksOf(f.info, base)] {
			if m.ctx.Err() == nil && m.sameContent(f, x) {
				return x
			}
		}
	}
	return nil
}

func (m *movedFiles) sameContent(f *file, x *extra) bool {
	src, err := f.open(m.ctx)
	if err != nil {
		return false
	}
	defer src.Close()
	var dst store.File
	if dst, err = m.to.openDescribed(m.ctx, x.name, x.info); err != nil {
		return false
	}
	defer dst.Close()
	same, err := m.equalCheaply(src, dst, f.info.Size())
	return err == nil && same
}

// rename gives files in the target their new names. If renaming a file fails, the file stays
// postponed, and the extra entry is deleted.
func (m *movedFiles) rename(moved map[*file]*extra) {
	left := m.postponed[:0]
	for _, f := range m.postponed {
		x := moved[f]
		if x == nil || !m.renameFile(f, x) {
			if left = append(left, f); x != nil {
				x.keep = false
			}
		}
	}
	m.postponed = left
}

// renameFile renames a file in the target, and reports whether it succeeded.
func (m *movedFiles) renameFile(f *file, x *extra) bool {
	if m.dirs.need(f.dir) != nil {
		return false
	}
	out := Outcome{What: Moved, Was: x.item.To}
	if !m.opts.DryRun {
		if m.to.Rename(m.ctx, x.name, f.to, false) != nil {
			return false
		}
		f.old = x.info
		if err := m.files.updateAttrs(f); err != nil {
			out.What, out.Err = Failed, err
		}
	}
	f.dir.fill()
	m.report.fileEnded(f.item, out)
	m.closer.finish(f.dir)
	return true
}
