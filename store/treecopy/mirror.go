package treecopy

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/text/unicode/norm"
)

// A mirror deletes the entries of the target that the source does not have.
//
// While the source is listed, findExtra compares each directory of the target with the directory of
// the source. When everything is listed, prepare decides which extra entries to delete. After
// everything is copied, complete deletes them. If anything has failed by then, nothing is deleted.
type mirror struct {
	*extras
	moved *movedFiles
	w     *walker

	filled atomic.Bool // the source has at least one entry
}

func newMirror(w *walker, d Deletion) *mirror {
	x := &extras{task: w.task, Deletion: d}
	l := w.listings
	l.must, l.one, l.all, l.unlisted = !w.to.can.ImpliedDirs, maxExtra, maxExtra, x.unlisted
	return &mirror{extras: x, moved: &movedFiles{extras: x, dirs: w.dirs, closer: w.closer, files: w.queue.files}, w: w}
}

func (m *mirror) check(p *place, starts []start) error {
	if len(starts) == 1 && starts[0].isDir() && (p.exact || starts[0].contents) {
		return nil
	}
	return fmt.Errorf("copy %s to %s: %w: only the contents of one directory can have all else deleted", printable(starts[0].display()), printable(p.name), fs.ErrInvalid)
}

func (m *mirror) begin(source *start, top *dir) { m.source, m.top = source, top }

func (m *mirror) compares(d *dir) bool { return !d.fresh }

func (m *mirror) findExtra(d *dir, names map[string]struct{}) {
	if len(names) > 0 {
		m.filled.Store(true)
	}
	var found []*extra
	find := func(fi fs.FileInfo) error {
		if _, ok := names[fi.Name()]; !ok {
			if x := m.add(d, fi); x != nil {
				found = append(found, x)
			}
		}
		return nil
	}
	var err error
	switch {
	case d.there != nil:
		for _, fi := range d.there {
			if e := m.entry(d.to, fi, find); err == nil {
				err = e
			}
		}
	case m.to.can.ImpliedDirs: // any other target was listed before, and a failure was reported then
		err = m.eachEntry(d.to, find)
	}
	if err != nil {
		m.unlisted(d, err)
	}
	if len(found) == 0 {
		return
	}
	same := make(map[string]string, len(names))
	for name := range names {
		same[fold(name)] = name
	}
	for _, x := range found {
		x.variant = same[fold(x.info.Name())]
	}
}

func (m *mirror) blocks(d *dir, i *Item, cleared *bool, resume func()) bool {
	old := d.there[path.Base(i.To)]
	if old == nil || old.Mode().Type() == i.Type || old.Mode().Type() == fs.ModeIrregular {
		return false
	}
	x := m.add(d, old)
	if x == nil {
		return false // the entry of the target must stay, so the source's entry cannot be copied
	}
	x.inWay, *cleared = true, true
	m.mu.Lock()
	m.blocked = append(m.blocked, &block{item: i, dir: d, old: old, resume: resume})
	m.mu.Unlock()
	return true
}

func (m *mirror) postpone(f *file) bool { return m.moved.postpone(f) }

// prepare decides which entries to delete, and renames files of the target that were only moved in
// the source. Then it queues the postponed files that it has not renamed. Meanwhile, other goroutines
// copy files.
func (m *mirror) prepare() {
	m.moved.walked = true
	if len(m.list) > 0 && m.mayDelete() {
		m.confirm()
		m.expand()
		if m.mayDelete() {
			m.decide()
		}
	}
	for _, f := range m.moved.postponed {
		m.w.queue.add(f)
	}
	m.moved.postponed = nil
}

// decide refuses deletions that are probably a mistake. If they are not refused, it renames files
// that were only moved.
func (m *mirror) decide() {
	moved := m.moved.find()
	n := m.deletions()
	switch {
	case n <= 0:
	case !m.filled.Load() && !m.EmptySource:
		m.refused = ErrEmptySource
	case m.Max >= 0 && n > m.Max:
		m.refused = fmt.Errorf("%w: %d files and directories are not in the source, and at most %d may be deleted", ErrTooManyDeletions, n, m.Max)
	}
	if m.refused == nil {
		m.moved.rename(moved)
	}
}

// complete deletes the extra entries, and then copies the entries that had to wait for that.
func (m *mirror) complete() error {
	m.checkListed()
	if m.mayDelete() && m.toDelete != nil {
		(&remover{extras: m.extras}).removeAll()
	} else if n := max(m.deletions(), int64(len(m.list))); n > 0 {
		m.report.undeleted(n)
	}
	m.resumeBlocked()
	for _, d := range m.held {
		d.held = false
		m.w.closer.reopen(d)
	}
	for _, d := range m.held {
		m.w.closer.finish(d)
	}
	return m.refused
}

// resumeBlocked copies the entries that waited for deletions. If nothing may be deleted, it reports
// these entries as failed.
func (m *mirror) resumeBlocked() {
	blocked := m.blocked
	m.blocked = nil
	if m.mayDelete() && len(blocked) > 0 {
		m.w.queue.open()
		m.w.queue.run(func() {
			for _, b := range blocked {
				b.resume()
			}
			m.w.walks.Wait()
		})
		return
	}
	for _, b := range blocked {
		if !b.gone {
			m.report.failed(b.item, inTheWay(b.old))
		}
		m.w.closer.finish(b.dir)
	}
}

// checkListed reports a failure if the target has files but cannot be listed: then it cannot be
// searched for extra entries, and nothing may be deleted.
func (m *mirror) checkListed() {
	r := m.report.result()
	if !m.to.can.ImpliedDirs || m.opts.DryRun || len(m.list) > 0 || r.Copied+r.Same == 0 || !m.mayDelete() {
		return
	}
	entries, err := m.to.OpenDir(m.ctx, m.top.to)
	if err == nil {
		err = entries.Close()
	}
	if err != nil {
		m.unlisted(m.top, err)
	}
}

// fold returns a key that is the same for all names that some file system treats as the same name.
func fold(name string) string { return strings.ToLower(norm.NFC.String(name)) }
