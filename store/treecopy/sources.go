package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/glob"
)

// findSources finds what the sources mean. A source that does not exist has that as
// its error.
func (c *copier) findSources(sources []Source) ([]start, error) {
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
		found[i], errs[i] = c.findSource(c.ctx, sources[i])
	})
	var starts []start
	for i, s := range sources {
		if errs[i] != nil {
			c.report.failed(&Item{From: s.Name, As: s.Shown, Of: i, Type: fs.ModeIrregular}, errs[i])
			continue
		}
		for _, one := range found[i] {
			one.index = i
			if err := c.checkStart(one); err != nil {
				c.failedStart(one, err)
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

// checkStart returns an error for what is not copied.
func (c *copier) checkStart(s start) error {
	switch {
	case s.err != nil:
		return s.err
	case s.isDir() && !c.opts.Recursive:
		return ErrDirectory
	case !s.isDir() && s.info.Mode().Type() != 0 && s.info.Mode().Type() != fs.ModeIrregular:
		return store.ErrNotRegular
	}
	return nil
}

// findSource finds what one source means.
func (c *copier) findSource(ctx context.Context, s Source) ([]start, error) {
	name, slash, dot, err := cleanName(s.Name)
	if err != nil {
		return nil, err
	}
	one := start{tree: s.Tree, name: name, as: s.As, origin: s.Origin, contents: dot && s.As == "", shown: s.Shown}
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
		starts[i] = start{tree: s.Tree, name: m.Name, as: path.Base(m.Name), origin: s.Origin, info: m.Info, contents: dot}
		if m.Info.Mode().Type() != 0 && !m.Info.IsDir() { // what is named is followed
			fi, err := s.Tree.Stat(ctx, m.Name)
			if starts[i].err = err; err == nil {
				starts[i].info = fi
			}
		}
	})
	return starts, nil
}
