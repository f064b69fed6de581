package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/filter"
)

// maxExtra is how many entries of the target are held at a time that may have to be deleted, and
// how many entries one directory may have on either side. With more nothing is deleted.
const maxExtra = 1 << 20

// A mirror makes the target what the source is: Options.Delete.
//
// While the source is walked, each directory of the target is compared with its listing
// (findExtra). Extra entries there are looked at when the walk is done (prepare), and deleted when
// all copies are (complete). If anything has failed by then, nothing is. A nil mirror leaves what is
// extra alone.
type mirror struct {
	Deletion
	c *copier

	source *start
	top    *dir
	walked bool        // all that is postponed is known
	filled atomic.Bool // the source has an entry
	err    error       // why nothing may be deleted, though nothing has failed

	mu        sync.Mutex
	extras    []*extra   // mu: what the source does not have; not what is in these
	count     int        // mu: extra entries that are known
	blocks    []*block   // mu
	held      []*dir     // mu: directories that have something extra
	postponed []*file    // mu: files that the target does not have, or under another name
	doomed    [][]*extra // what is to be deleted, by how deep it is; nil until that is known
	reach     sync.Map   // see reached
}

// A lister is a target whose directories can be listed, and from which files can be removed.
type lister interface {
	OpenDir(ctx context.Context, name string) (store.Entries, error)
	Remove(ctx context.Context, name string) error
}

// An extra is an entry of the target that the source does not have.
type extra struct {
	item  *Item
	dir   *dir   // the directory of the source whose copy it was found in, or below
	name  string // in the tree that is copied to
	rel   string // below the source, for the filter
	info  fs.FileInfo
	depth int
	inWay bool   // the source has something of another kind by this name
	twin  string // what the source has that differs in case, or in how letters are composed; "" for nothing

	verdict filter.Verdict
	keep    bool // it is not deleted after all
	below   []*extra
}

// A block is an entry of the source that cannot be copied before something of another kind is
// deleted.
type block struct {
	item *Item
	dir  *dir
	old  fs.FileInfo
	copy func()
	gone bool // it is not in the source any more, and that is reported
}

func newMirror(c *copier, d Deletion) (*mirror, error) {
	if _, ok := given(c.to).(lister); !ok {
		return nil, fmt.Errorf("%w: the target lists no directories, or removes no files", errors.ErrUnsupported)
	}
	return &mirror{Deletion: d, c: c}, nil
}

// lister returns the target, which is a part of the job's once that is opened.
func (m *mirror) lister() lister { return given(m.c.to).(lister) }

// check returns an error unless the contents of one directory go to the target.
func (m *mirror) check(p *place, starts []start) error {
	if m == nil || len(starts) == 1 && starts[0].isDir() && (p.exact || starts[0].contents) {
		return nil
	}
	return fmt.Errorf("copy %s to %s: %w: only the contents of one directory can have all else deleted", printable(starts[0].display()), printable(p.name), fs.ErrInvalid)
}

// begin notes the source, and the directory that all goes below.
func (m *mirror) begin(source *start, top *dir) {
	if m != nil {
		m.source, m.top = source, top
	}
}

// compares reports whether the target of a directory may have what the source does not.
func (m *mirror) compares(d *dir) bool { return m != nil && !d.fresh }

// needsTypes reports whether each directory of the target is to be listed, as the types of its
// entries decide what is in the way.
func (m *mirror) needsTypes() bool { return m != nil && !m.c.features.ImpliedDirs }

// room returns how many entries the listing of one directory of the target may have, and how many
// those listings have together that are held at a time.
func (m *mirror) room() (one int, all int64) {
	if m == nil {
		return maxThere, maxAllThere
	}
	return maxExtra, maxExtra
}

// unlisted reports a directory of the target that cannot be listed.
func (m *mirror) unlisted(d *dir, err error) {
	from := d.from
	if d.source == nil { // it is the directory that all goes below
		from = m.source.name
	}
	m.c.report.failed(m.c.dirItem(m.source, from, d.to, time.Time{}), fmt.Errorf("list what the target has, to delete what the source does not have: %w", err))
}

// hold has a directory get its attributes when all is deleted. The caller holds mu.
func (m *mirror) hold(d *dir) {
	if !d.held {
		d.held = true
		m.held = append(m.held, d)
	}
}

// add adds an entry of the target that is in the copy of d, unless a filter protects it.
func (m *mirror) add(d *dir, fi fs.FileInfo) *extra {
	x := m.newExtra(d, d.from, d.to, fi)
	if x == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold(d)
	m.extras = append(m.extras, x)
	return x
}

// newExtra describes an entry of the target that is to be deleted. It returns nil if it is not.
// to is the directory that it is in, and from the name of that in the source.
func (m *mirror) newExtra(d *dir, from, to string, fi fs.FileInfo) *extra {
	x := &extra{dir: d, name: path.Join(to, fi.Name()), info: fi}
	name := path.Join(from, fi.Name())
	x.depth, x.rel = strings.Count(x.name, "/"), d.source.below(name)
	x.item = &Item{From: name, As: d.source.showAs(name), To: m.c.outside(x.name), Of: d.source.index,
		Type: fi.Mode().Type() &^ fs.ModeIrregular, Size: max(fi.Size(), 0), Time: fi.ModTime(), Extra: true}
	if x.verdict = m.c.opts.Filter.Match(x.rel, fi.IsDir()); m.Excluded {
		x.verdict = filter.Take
	}
	if x.verdict == filter.Skip {
		return nil
	}
	m.mu.Lock()
	m.count++
	n := m.count
	m.mu.Unlock()
	if n == maxExtra+1 {
		m.c.report.failed(x.item, fmt.Errorf("%w: more than %d entries are not in the source", errTooMany, maxExtra))
	}
	if n > maxExtra {
		return nil
	}
	return x
}

// eachEntry calls f with what a directory of the target has. One that is not there has nothing.
// An error of f comes after all others.
func (m *mirror) eachEntry(dir string, f func(fi fs.FileInfo) error) error {
	entries, err := m.lister().OpenDir(m.c.ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer entries.Close()
	into := make([]fs.FileInfo, listBatch)
	var first error
	for {
		n, err := entries.Next(into)
		for _, fi := range into[:n] {
			if e := m.entry(dir, fi, f); first == nil {
				first = e
			}
		}
		if err == io.EOF {
			return first
		}
		if err != nil {
			return err
		}
	}
}

// entry calls f with an entry of a directory, once it is known what it is.
func (m *mirror) entry(dir string, fi fs.FileInfo, f func(fi fs.FileInfo) error) (err error) {
	switch {
	case tempname.Is(fi.Name()):
		return nil
	case !isElement(fi.Name()):
		return fmt.Errorf("%w: %.200q in the listing of %s", ErrUnsafeName, fi.Name(), printable(dir))
	case fi.Mode().Type() == fs.ModeIrregular:
		if fi, err = m.c.to.Lstat(m.c.ctx, path.Join(dir, fi.Name())); err != nil {
			return err
		}
	}
	return f(fi)
}

// findExtra finds what the target of a directory has, and its listing in the source does not.
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
	case m.c.features.ImpliedDirs: // else it is reported by now that it cannot be listed
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
		x.twin = same[fold(x.info.Name())]
	}
}

// fold returns what is the same for names that some file system takes for one.
func fold(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// blocked reports whether something of another kind has the name of an entry of d. Then that is
// to be deleted, and copy called afterwards. cleared is set at once.
func (m *mirror) blocked(d *dir, i *Item, cleared *bool, copy func()) bool {
	if m == nil {
		return false
	}
	old := d.there[path.Base(i.To)]
	if old == nil || old.Mode().Type() == i.Type || old.Mode().Type() == fs.ModeIrregular {
		return false
	}
	x := m.add(d, old)
	if x == nil {
		return false // it stays, and so it is in the way
	}
	x.inWay, *cleared = true, true
	m.mu.Lock()
	m.blocks = append(m.blocks, &block{item: i, dir: d, old: old, copy: copy})
	m.mu.Unlock()
	return true
}

// prepare finds out what is to be deleted once the walk is done, and what has only moved. Then
// what was postponed is copied. It runs besides copies.
func (m *mirror) prepare() {
	if m == nil {
		return
	}
	m.walked = true
	if len(m.extras) > 0 && m.mayDelete() {
		m.confirm()
		m.expand()
		if m.mayDelete() {
			m.decide()
		}
	}
	for _, f := range m.postponed {
		m.c.queue(f)
	}
	m.postponed = nil
}

// mayDelete reports whether nothing has kept the deletions from being safe so far.
func (m *mirror) mayDelete() bool {
	return m.c.ctx.Err() == nil && m.c.report.err(nil) == nil && m.err == nil
}

// confirm asks the source for each extra entry: one that came meanwhile, or that a listing
// does not show, stays. It asks for what extra entries are in the way of, too.
func (m *mirror) confirm() {
	inParallel(len(m.extras), func(i int) {
		x := m.extras[i]
		if x.inWay || m.c.ctx.Err() != nil {
			return
		}
		fi, err := x.dir.tree.Lstat(m.c.ctx, x.item.From)
		switch {
		case err == nil && m.Excluded && m.c.opts.Filter.Match(x.rel, fi.IsDir()) == filter.Skip:
		case err == nil:
			x.keep = true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid):
			m.c.report.failed(x.item, fmt.Errorf("whether the source has it is not known: %w", err))
		}
	})
	m.keepTwins()
	inParallel(len(m.blocks), func(i int) {
		b := m.blocks[i]
		look := b.dir.tree.Lstat
		if m.c.opts.Links == FollowLinks {
			look = b.dir.tree.Stat
		}
		fi, err := look(m.c.ctx, b.item.From)
		if err == nil && fi.Mode().Type()&^fs.ModeIrregular != b.item.Type {
			err = ErrChanged
		}
		if b.gone = err != nil; b.gone {
			m.c.report.failed(b.item, err)
		}
	})
}

// keepTwins keeps the entries that are the copies of their twins, whose names the target has
// changed: then the target has something by the name of the twin, and does not list it.
func (m *mirror) keepTwins() {
	listed := map[*dir]map[string]bool{} // by the names of twins: whether the target lists them
	var twins []*extra
	for _, x := range m.extras {
		if x.twin == "" || x.keep || x.inWay {
			continue
		}
		if listed[x.dir] == nil {
			listed[x.dir] = map[string]bool{}
		}
		listed[x.dir][x.twin] = false
		twins = append(twins, x)
	}
	dirs := slices.Collect(maps.Keys(listed))
	inParallel(len(dirs), func(i int) {
		names := listed[dirs[i]]
		err := m.eachEntry(dirs[i].to, func(fi fs.FileInfo) error {
			if _, ok := names[fi.Name()]; ok {
				names[fi.Name()] = true
			}
			return nil
		})
		if err != nil {
			m.unlisted(dirs[i], err)
		}
	})
	inParallel(len(twins), func(i int) {
		x := twins[i]
		if listed[x.dir][x.twin] || m.c.ctx.Err() != nil {
			return
		}
		_, err := m.c.to.Lstat(m.c.ctx, path.Join(x.dir.to, x.twin))
		if x.keep = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.unlisted(x.dir, err)
		}
	})
}

// expand finds what is in the directories that the source does not have, and then what of all
// that is to be deleted.
func (m *mirror) expand() {
	for level := m.extras; len(level) > 0 && m.mayDelete(); {
		inParallel(len(level), func(i int) {
			if x := level[i]; x.info.IsDir() && !x.keep {
				if err := m.list(x); err != nil {
					m.c.report.failed(x.item, fmt.Errorf("list it: %w", err))
				}
			}
		})
		var next []*extra
		for _, x := range level {
			next = append(next, x.below...)
		}
		level = next
	}
	m.doomed = [][]*extra{}
	for _, x := range m.extras {
		m.doom(x)
	}
}

// list finds what is in a directory of the target.
func (m *mirror) list(x *extra) error {
	if x.depth > maxDepth {
		return fmt.Errorf("%w: deeper than %d directories", fs.ErrInvalid, maxDepth)
	}
	return m.eachEntry(x.name, func(fi fs.FileInfo) error {
		if b := m.newExtra(x.dir, x.item.From, x.name, fi); b != nil {
			x.below = append(x.below, b)
		} else {
			x.keep = true
		}
		return nil
	})
}

// doom adds an entry to those that are to be deleted, with what is in it. It reports whether
// nothing of it stays.
func (m *mirror) doom(x *extra) (all bool) {
	if !x.info.IsDir() && x.keep {
		return false
	}
	all = !x.keep
	for _, b := range x.below {
		all = m.doom(b) && all
	}
	switch {
	case !x.info.IsDir():
	case !all, m.c.features.ImpliedDirs:
		return all
	case x.verdict == filter.Enter && len(x.below) == 0:
		return false // it is excluded, and nothing in it goes
	}
	for len(m.doomed) <= x.depth {
		m.doomed = append(m.doomed, nil)
	}
	m.doomed[x.depth] = append(m.doomed[x.depth], x)
	return all
}

// decide refuses deletions that were not meant, and else renames what has only moved.
func (m *mirror) decide() {
	moved := m.findMoved()
	n := m.doomedCount()
	switch {
	case n <= 0:
	case !m.filled.Load() && !m.EmptySource:
		m.err = ErrEmptySource
	case m.Max >= 0 && n > m.Max:
		m.err = fmt.Errorf("%w: %d files and directories are not in the source, and at most %d may be deleted", ErrTooManyDeletions, n, m.Max)
	}
	if m.err == nil {
		m.rename(moved)
	}
}

// doomedCount returns how many entries are to be deleted.
func (m *mirror) doomedCount() (n int64) {
	for _, level := range m.doomed {
		for _, x := range level {
			if !x.keep {
				n++
			}
		}
	}
	return n
}
