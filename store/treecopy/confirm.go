package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// confirm looks up each extra entry in the source, and keeps it if it exists there after all: it
// may have been created since, or be missing in the listing. confirm also looks up the source's
// entries that wait for the deletion of extra entries.
func (s *extras) confirm() {
	inParallel(len(s.list), func(i int) {
		x := s.list[i]
		if x.inWay || s.ctx.Err() != nil {
			return
		}
		fi, err := x.dir.tree.Lstat(s.ctx, x.item.From)
		switch {
		case err == nil && s.Excluded && s.opts.Filter.match(x.rel, fi.IsDir()) == excluded:
		case err == nil:
			x.keep = true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid):
			s.report.failed(x.item, fmt.Errorf("whether the source has it is not known: %w", err))
		}
	})
	s.keepVariants()
	inParallel(len(s.blocked), func(i int) {
		b := s.blocked[i]
		look := b.dir.tree.Lstat
		if s.opts.Links == FollowLinks {
			look = b.dir.tree.Stat
		}
		fi, err := look(s.ctx, b.item.From)
		if err == nil && fi.Mode().Type()&^fs.ModeIrregular != b.item.Type {
			err = ErrChanged
		}
		if b.gone = err != nil; b.gone {
			s.report.failed(b.item, err)
		}
	})
}

// keepVariants keeps extra entries that the copy itself has created, under a name that the target
// normalized (case, Unicode). Such an entry can be recognized: the target finds it under the name
// in the source as well, although it does not list that name.
func (s *extras) keepVariants() {
	// For each directory, listed holds the source's names of variants, and whether the target lists
	// them.
	listed := map[*dir]map[string]bool{}
	var variants []*extra
	for _, x := range s.list {
		if x.variant == "" || x.keep || x.inWay {
			continue
		}
		if listed[x.dir] == nil {
			listed[x.dir] = map[string]bool{}
		}
		listed[x.dir][x.variant] = false
		variants = append(variants, x)
	}
	dirs := slices.Collect(maps.Keys(listed))
	inParallel(len(dirs), func(i int) {
		names := listed[dirs[i]]
		err := s.eachEntry(dirs[i].to, func(fi fs.FileInfo) error {
			if _, ok := names[fi.Name()]; ok {
				names[fi.Name()] = true
			}
			return nil
		})
		if err != nil {
			s.unlisted(dirs[i], err)
		}
	})
	inParallel(len(variants), func(i int) {
		x := variants[i]
		if listed[x.dir][x.variant] || s.ctx.Err() != nil {
			return
		}
		_, err := s.to.Lstat(s.ctx, path.Join(x.dir.to, x.variant))
		if x.keep = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.unlisted(x.dir, err)
		}
	})
}

// expand lists the contents of the extra directories, and then chooses the entries to delete.
func (s *extras) expand() {
	for level := s.list; len(level) > 0 && s.mayDelete(); {
		inParallel(len(level), func(i int) {
			if x := level[i]; x.info.IsDir() && !x.keep {
				if err := s.listBelow(x); err != nil {
					s.report.failed(x.item, fmt.Errorf("list it: %w", err))
				}
			}
		})
		var next []*extra
		for _, x := range level {
			next = append(next, x.below...)
		}
		level = next
	}
	s.toDelete = [][]*extra{}
	for _, x := range s.list {
		s.choose(x)
	}
}

// listBelow lists the contents of an extra directory. If something in it must stay, the directory
// stays too.
func (s *extras) listBelow(x *extra) error {
	if x.depth > maxDepth {
		return fmt.Errorf("%w: deeper than %d directories", fs.ErrInvalid, maxDepth)
	}
	return s.eachEntry(x.name, func(fi fs.FileInfo) error {
		if b := s.newExtra(x.dir, x.item.From, x.name, fi); b != nil {
			x.below = append(x.below, b)
		} else {
			x.keep = true
		}
		return nil
	})
}

// choose adds an entry, and the entries below it, to toDelete, except for those that stay. It
// returns true if nothing of the entry stays.
func (s *extras) choose(x *extra) (all bool) {
	if !x.info.IsDir() && x.keep {
		return false
	}
	all = !x.keep
	for _, b := range x.below {
		all = s.choose(b) && all
	}
	switch {
	case !x.info.IsDir():
	case !all, s.to.can.ImpliedDirs:
		return all
	case x.verdict == entered && len(x.below) == 0:
		return false // the directory is excluded, and nothing in it is deleted, so it stays
	}
	for len(s.toDelete) <= x.depth {
		s.toDelete = append(s.toDelete, nil)
	}
	s.toDelete[x.depth] = append(s.toDelete[x.depth], x)
	return all
}

// deletions returns the number of entries to delete.
func (s *extras) deletions() (n int64) {
	for _, level := range s.toDelete {
		for _, x := range level {
			if !x.keep {
				n++
			}
		}
	}
	return n
}
