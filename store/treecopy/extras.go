package treecopy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/tempname"
)

// maxExtra is the largest number of extra entries that are held in memory, and the largest number
// of entries in one directory on either side. If there are more, nothing is deleted.
const maxExtra = 1 << 20

// An extra is an entry of the target that the source does not have, and that may have to be
// deleted.
type extra struct {
	item    *Item
	dir     *dir   // the nearest directory of the source whose copy contains the entry
	name    string // name in the tree of the target
	rel     string // name relative to the source, which the filter uses
	info    fs.FileInfo
	depth   int
	inWay   bool   // the source has an entry of another kind with the same name
	variant string // name in the source that differs only in case or Unicode normalization; "" if no name does

	verdict verdict
	keep    bool // the entry stays, although the source does not have it
	below   []*extra
}

// A block is an entry of the source that can be copied only after an entry of another kind, which
// has its name in the target, has been deleted.
type block struct {
	item   *Item
	dir    *dir
	old    fs.FileInfo
	resume func()
	gone   bool // the source no longer has the entry; that was already reported as an error
}

// extras collects the entries of the target that the source does not have.
type extras struct {
	*task
	Deletion

	source  *start
	top     *dir
	refused error // why nothing may be deleted, if a check refused deletions; nil if no check did

	mu       sync.Mutex
	list     []*extra   // extra entries, without the entries inside extra directories; guarded by mu
	count    int        // number of extra entries found so far; guarded by mu
	blocked  []*block   // entries of the source that wait for deletions; guarded by mu
	held     []*dir     // directories whose attributes wait for deletions; guarded by mu
	toDelete [][]*extra // entries to delete, by depth; nil until they are known
}

// unlisted reports that a directory of the target could not be listed.
func (s *extras) unlisted(d *dir, err error) {
	from := d.from
	if d.source == nil { // d is the directory that everything is copied to
		from = s.source.name
	}
	s.report.failed(s.dirItem(s.source, from, d.to, time.Time{}), fmt.Errorf("list what the target has, to delete what the source does not have: %w", err))
}

// hold delays setting a directory's attributes until everything is deleted. The caller holds mu.
func (s *extras) hold(d *dir) {
	if !d.held {
		d.held = true
		s.held = append(s.held, d)
	}
}

// add records an extra entry that was found in the copy of d. It returns nil if the entry must
// stay.
func (s *extras) add(d *dir, fi fs.FileInfo) *extra {
	x := s.newExtra(d, d.from, d.to, fi)
	if x == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold(d)
	s.list = append(s.list, x)
	return x
}

// newExtra describes an entry of directory `to` of the target. from is the name of that directory
// in the source. newExtra returns nil if the entry must stay.
func (s *extras) newExtra(d *dir, from, to string, fi fs.FileInfo) *extra {
	x := &extra{dir: d, name: path.Join(to, fi.Name()), info: fi}
	name := path.Join(from, fi.Name())
	x.depth, x.rel = strings.Count(x.name, "/"), d.source.below(name)
	x.item = &Item{From: name, As: d.source.showAs(name), To: s.outside(x.name), Of: d.source.index,
		Type: fi.Mode().Type() &^ fs.ModeIrregular, Size: max(fi.Size(), 0), Time: fi.ModTime(), Extra: true}
	if x.verdict = s.opts.Filter.match(x.rel, fi.IsDir()); s.Excluded {
		x.verdict = included
	}
	if x.verdict == excluded {
		return nil
	}
	s.mu.Lock()
	s.count++
	n := s.count
	s.mu.Unlock()
	if n == maxExtra+1 {
		s.report.failed(x.item, fmt.Errorf("%w: more than %d entries are not in the source", errTooMany, maxExtra))
	}
	if n > maxExtra {
		return nil
	}
	return x
}

// eachEntry calls f for each entry of a directory of the target. A missing directory counts as
// empty. If f returns errors, eachEntry continues, and returns the first one at the end of the
// listing.
func (s *extras) eachEntry(dir string, f func(fi fs.FileInfo) error) error {
	entries, err := s.to.OpenDir(s.ctx, dir)
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
			if e := s.entry(dir, fi, f); first == nil {
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

// entry calls f for an entry of a directory. If the listing does not contain the entry's type,
// entry looks it up first.
func (s *extras) entry(dir string, fi fs.FileInfo, f func(fi fs.FileInfo) error) (err error) {
	switch {
	case tempname.Is(fi.Name()):
		return nil
	case !isElement(fi.Name()):
		return fmt.Errorf("%w: %.200q in the listing of %s", ErrUnsafeName, fi.Name(), printable(dir))
	case fi.Mode().Type() == fs.ModeIrregular:
		if fi, err = s.to.Lstat(s.ctx, path.Join(dir, fi.Name())); err != nil {
			return err
		}
	}
	return f(fi)
}

// mayDelete reports whether deleting is still allowed: nothing has failed, the copy has not been
// stopped, and no check has refused deletions.
func (s *extras) mayDelete() bool {
	return s.ctx.Err() == nil && s.report.err(nil) == nil && s.refused == nil
}
