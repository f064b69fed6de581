package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
)

// confirm looks up each extra entry in the source. An entry that was created meanwhile, or that a
// listing omits, stays. It also looks up the entries that extra entries block.
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

// keepVariants keeps entries whose name the target normalized (case, Unicode). For such an entry,
// the target also finds the name in the source, but does not list it.
func (s *extras) keepVariants() {
	listed := map[*dir]map[string]bool{} // maps the names of variants to whether the target lists them
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

// expand lists the directories that the source does not have, and then chooses the entries to
// delete.
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

// listBelow lists a directory of the target.
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

// choose adds an entry and its contents to toDelete. It returns true if nothing of the entry stays.
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
		return false // it is excluded, and nothing in it is deleted
	}
	for len(s.toDelete) <= x.depth {
		s.toDelete = append(s.toDelete, nil)
	}
	s.toDelete[x.depth] = append(s.toDelete[x.depth], x)
	return all
}

// deletions returns how many entries are to be deleted.
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
