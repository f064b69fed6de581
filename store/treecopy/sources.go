package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/haul-project/haul/internal/glob"
	"github.com/haul-project/haul/store"
)

// A placer looks up the sources of a copy, and decides their names in the target.
type placer struct{ *task }

// findSources looks up the sources and expands patterns. If a source does not exist, it reports the
// source as failed.
func (f *placer) findSources(sources []Source) ([]start, error) {
	if len(sources) == 0 {
		return nil, fmt.Errorf("copy: %w: no source", fs.ErrInvalid)
	}
	for _, s := range sources {
		if s.Tree == nil {
			return nil, fmt.Errorf("copy %s: %w: no tree", printable(s.Name), fs.ErrInvalid)
		}
		if s.As != "" && !isElement(s.As) {
			return nil, fmt.Errorf("copy %s as %s: %w", printable(s.Name), printable(s.As), fs.ErrInvalid)
		}
	}
	found := make([][]start, len(sources))
	errs := make([]error, len(sources))
	inParallel(len(sources), func(i int) {
		found[i], errs[i] = f.findSource(f.ctx, sources[i])
	})
	var starts []start
	for i, s := range sources {
		if errs[i] != nil {
			f.report.failed(&Item{From: s.Name, As: s.Shown, Of: i, Type: fs.ModeIrregular}, errs[i])
			continue
		}
		for _, one := range found[i] {
			one.index = i
			if err := f.checkStart(one); err != nil {
				f.failedStart(one, err)
				continue
			}
			starts = append(starts, one)
		}
		if len(starts) > glob.MaxMatches {
			return nil, fmt.Errorf("copy %s: more than %d names: copy the directory as a whole", printable(s.Name), glob.MaxMatches)
		}
	}
	return starts, nil
}

// checkStart returns the reason why a source cannot be copied, or nil.
func (f *placer) checkStart(s start) error {
	switch {
	case s.err != nil:
		return s.err
	case s.isDir() && !f.opts.Recursive:
		return ErrDirectory
	case !s.isDir() && s.info.Mode().Type() != 0 && s.info.Mode().Type() != fs.ModeIrregular:
		return store.ErrNotRegular
	}
	return nil
}

// findSource looks up one source, or expands its pattern.
func (f *placer) findSource(ctx context.Context, s Source) ([]start, error) {
	name, slash, dot, err := cleanName(s.Name)
	if err != nil {
		return nil, err
	}
	one := start{tree: newTree(s.Tree), name: name, as: s.As, origin: s.Origin, contents: dot && s.As == "", shown: s.Shown}
	if one.as == "" {
		one.as = path.Base(name)
	}
	if one.info, err = s.Tree.Stat(ctx, name); err == nil {
		if slash && !one.isDir() {
			return nil, fmt.Errorf("%w: it is not a directory", fs.ErrInvalid)
		}
		return []start{one}, nil
	}
	if !glob.HasMeta(name) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
		return nil, err
	}
	pattern := name
	if slash {
		pattern += "/"
	}
	found, err := glob.Expand(ctx, s.Tree, pattern)
	if err != nil {
		return nil, err
	}
	starts := make([]start, len(found))
	inParallel(len(found), func(i int) {
		m := found[i]
		starts[i] = start{tree: one.tree, name: m.Name, as: path.Base(m.Name), origin: s.Origin, info: m.Info, contents: dot}
		if m.Info.Mode().Type() != 0 && !m.Info.IsDir() { // if a source itself is a link, the link is followed
			fi, err := s.Tree.Stat(ctx, m.Name)
			if starts[i].err = err; err == nil {
				starts[i].info = fi
			}
		}
	})
	return starts, nil
}

// findTarget looks up the target.
func (f *placer) findTarget(target string) (*place, error) {
	name, slash, _, err := cleanName(target)
	if err != nil {
		return nil, fmt.Errorf("copy to %s: %w", printable(target), err)
	}
	p := &place{name: name, slash: slash || name == ".", below: strings.HasSuffix(target, "/") || strings.HasSuffix(target, "/.")}
	fi, err := f.to.Stat(f.ctx, name)
	switch {
	case err == nil:
		p.info = fi
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("look at the target: %w", err)
	}
	if p.slash && p.info != nil && !p.info.IsDir() {
		return nil, fmt.Errorf("copy to %s: that names a directory, and a file %w", printable(target), ErrConflict)
	}
	return p, nil
}

// A place describes the target of a copy.
type place struct {
	name       string      // name in the tree of the job
	info       fs.FileInfo // the entry that the name leads to; nil if there is no such entry
	slash      bool        // the target must be a directory
	exact      bool        // the only source becomes the target itself, rather than going below it
	below      bool        // the name ends in a slash, so sources go below it
	checkpoint string      // name of the checkpoint that an earlier copy left in the target; "" if it left no checkpoint
}

// lookAbove returns the error that a real copy would get if the directory above the target does not
// exist. It is for a dry run.
func (f *placer) lookAbove(name string) error {
	above := path.Dir(name)
	fi, err := f.to.Stat(f.ctx, above)
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%w: not a directory", fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("copy to %s: the directory %s: %w", printable(name), printable(above), err)
	}
	return nil
}

// placeSources decides whether the sources go below p, or the only source becomes p. `named` is the
// number of sources in the job.
func (p *place) placeSources(named int, starts []start) error {
	if p.exact {
		return nil // this copy resumes an earlier one, in which the source became p
	}
	isDir := p.info != nil && p.info.IsDir()
	if !p.slash && !isDir {
		switch {
		case named > 1 || len(starts) > 1:
			if p.info == nil {
				return fmt.Errorf("copy to %s: several sources go into a directory, and no directory has that name; a slash behind the name makes it: %w", printable(p.name), fs.ErrNotExist)
			}
			return fmt.Errorf("copy to %s: several sources go into a directory, and a file %w", printable(p.name), ErrConflict)
		case p.info != nil && starts[0].isDir():
			return fmt.Errorf("copy %s to %s: the first is a directory, and %w", printable(starts[0].display()), printable(p.name), inTheWay(p.info))
		}
		p.exact = true
		return nil
	}
	if len(starts) == 1 && starts[0].contents && p.info == nil {
		p.exact = true
		return nil
	}
	first := make(map[string]*start, len(starts))
	for i := range starts {
		s := &starts[i]
		as := s.as
		if s.contents {
			as = "."
		}
		if other := first[as]; other != nil {
			return fmt.Errorf("%s and %s would both become %s: %w; copy them to different directories",
				printable(other.display()), printable(s.display()), printable(path.Join(p.name, as)), errSameName)
		}
		first[as] = s
	}
	return nil
}

// apart reports sources that would be copied to themselves or into themselves as failed, and
// returns the others. It compares paths, because files of some trees have no identity that would
// show this.
func (f *placer) apart(p *place, starts []start) (kept []start) {
	for _, s := range starts {
		if f.origin == "" || s.origin != f.origin {
			kept = append(kept, s)
			continue
		}
		if f.realTop == "" {
			f.realTop = realOf(f.ctx, f.to, p.name)
		}
		to, from := f.realTop, realOf(f.ctx, s.tree, s.name)
		if !p.exact && !s.contents {
			to = path.Join(to, s.as)
		}
		switch {
		case to == from:
			f.failedStart(s, fmt.Errorf("%w: the source and the target are one", fs.ErrInvalid))
		case s.isDir() && isBelow(to, from):
			f.failedStart(s, fmt.Errorf("%w: the target is in it", fs.ErrInvalid))
		default:
			kept = append(kept, s)
		}
	}
	return kept
}

// failedStart reports that a source cannot be copied.
func (f *placer) failedStart(s start, err error) {
	f.report.failed(&Item{From: s.name, As: s.shown, Of: s.index, Type: s.info.Mode().Type()}, err)
}

// Nested reports whether two directories are the same, or one contains the other. a is a name in
// aTree, and b a name in bTree; the names need not exist. Both trees must be on the same server, and
// be reached as the same user.
func Nested(ctx context.Context, aTree store.Tree, a string, bTree store.Tree, b string) bool {
	a, b = realOf(ctx, newTree(aTree), a), realOf(ctx, newTree(bTree), b)
	return a == b || isBelow(a, b) || isBelow(b, a)
}

// realOf returns the path of a name in a tree, with symbolic links resolved if the tree can do
// that. If the name does not exist, it resolves the directory above.
func realOf(ctx context.Context, t *tree, name string) string {
	name = path.Clean(name)
	if t.can.RealPath == nil {
		return path.Join("/", name)
	}
	real, err := t.can.RealPath(ctx, name)
	if above := path.Dir(name); err != nil && above != name {
		return path.Join(realOf(ctx, t, above), path.Base(name))
	}
	return path.Join("/", real)
}

// isBelow reports whether the path name is below the path dir.
func isBelow(name, dir string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
