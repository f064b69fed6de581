package treecopy

import (
	"io/fs"
	"path"

	"github.com/haul-project/haul/store"
)

const (
	// minMoved is the size, in bytes, from which a file is searched for under other names in the
	// target. Copying a smaller file takes no longer than comparing hashes.
	minMoved = smallFile + 1

	// maxPostponed is the largest number of files that wait for this search.
	maxPostponed = 1 << 17

	// maxAlike limits the comparisons for a file that may have moved. It is compared with up to
	// maxAlike extra files of the target that have its size, time and name, and then with up to
	// maxAlike that have its size and time, whatever their names. There may be thousands of these,
	// for example from an unpacked archive, and to compute a hash each side has to read its whole
	// file.
	maxAlike = 4
)

// A looks holds the properties that a file keeps when it is moved.
type looks struct {
	size, seconds int64
	base          string // last element of the file's name; "" matches any name
}

func looksOf(fi fs.FileInfo, base string) looks {
	return looks{fi.Size(), fi.ModTime().Unix(), base}
}

// movedFiles handles the files that the target may already have under another name. Only after the
// walk is it known whether the target has them, so these files are postponed until then.
type movedFiles struct {
	*extras
	dirs   *dirMaker
	closer *closer
	files  *fileCopier

	walked    bool    // the walk is over, so no more files are postponed
	postponed []*file // files that the target lacks, or has under another name; guarded by mu
}

// postpone reports whether a file must wait until after the walk, because the target may have it
// under another name. If so, it keeps the file in postponed.
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

// find returns, for each postponed file, an extra entry with the same content, if there is one. It
// marks these entries to be kept.
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

// oldName returns an extra file with the same content as f. It returns nil if there is no such
// file, or if the contents cannot be compared without transferring them.
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

// rename renames the moved files in the target. If that fails for a file, the file stays postponed,
// and the extra entry is deleted.
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

// renameFile renames an extra entry to the new name of f, and reports whether that succeeded.
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
