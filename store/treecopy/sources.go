package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/glob"
)

// lookupsAtOnce is how many names are looked up at once.
const lookupsAtOnce = 16

// A start is a source that exists.
type start struct {
	tree     SourceTree
	name     string
	as       string // its name below a directory
	origin   string
	info     fs.FileInfo
	contents bool // what is in it goes below the target, rather than itself
	shown    string
	index    int   // among the sources
	err      error // why it cannot be copied
}

// showAs returns what messages call what has a name in the tree, or "" if that is
// its name.
func (s *start) showAs(name string) string {
	if s == nil || s.shown == "" {
		return ""
	}
	if name == s.name {
		return s.shown
	}
	if s.name != "." {
		name = strings.TrimPrefix(name, s.name+"/")
	}
	return path.Join(s.shown, name)
}

// display returns what messages call it.
func (s *start) display() string {
	if s.shown != "" {
		return s.shown
	}
	return s.name
}

func (s start) isDir() bool { return s.info.IsDir() }

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
	inParallel(lookupsAtOnce, len(sources), func(i int) {
		found[i], errs[i] = c.findSource(c.ctx, sources[i])
	})
	var starts []start
	for i, s := range sources {
		if errs[i] != nil {
			c.report.failed(&Item{From: s.Name, As: s.Shown, Of: i}, errs[i])
			continue
		}
		for _, one := range found[i] {
			one.index = i
			if err := c.checkStart(one); err != nil {
				c.report.failed(&Item{From: one.name, As: one.shown, Of: i, Type: one.info.Mode().Type()}, err)
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
	inParallel(lookupsAtOnce, len(found), func(i int) {
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

// inParallel calls f with each number below n, some at once.
func inParallel(atOnce, n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(atOnce, n) {
		wait.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}
