package fileops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// maxListDepth, maxListDirs and maxListErrors are how deep commands go into directories,
// how many directories they list and how many errors they print: a server can make up
// directories without end.
const (
	maxListDepth  = 1000
	maxListDirs   = treecopy.DefaultMaxDirs
	maxListErrors = 1000
)

// problems are the errors of one run, to be printed at the end.
type problems struct {
	errs []error
	more int // besides
}

// failed notes errors; nil is none.
func (p *problems) failed(errs ...error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case len(p.errs) < maxListErrors:
			p.errs = append(p.errs, err)
		default:
			p.more++
		}
	}
}

// err returns all errors, or nil.
func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.errs, failure.Remote.Errorf("%d more errors are not shown", p.more))...)
	}
	return errors.Join(p.errs...)
}

// A walk counts the directories of one run.
type walk struct{ dirs int }

// enter returns why a directory is not listed: it is too deep, or one too many.
func (w *walk) enter(ctx context.Context, dir string, depth int) error {
	switch w.dirs++; {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case depth > maxListDepth:
		return failure.Remote.Errorf("list %s: deeper than %d directories", console.Visible(dir), maxListDepth)
	case w.full():
		return failure.Remote.Errorf("list %s: it is directory %d, and no more are listed; list the directories above it one by one", console.Visible(dir), maxListDirs+1)
	}
	return nil
}

// full reports whether enter has refused a directory as one too many.
func (w *walk) full() bool { return w.dirs > maxListDirs }

// list returns what is in a directory, sorted by name, with the errors of entries. A name
// that is not one of an entry is such an error: a hostile listing may have any.
func (w *walk) list(ctx context.Context, c remote.Server, dir string, depth int, details bool) ([]entry, []error) {
	if err := w.enter(ctx, dir, depth); err != nil {
		return nil, []error{err}
	}
	found, err := c.List(ctx, dir, details)
	if err != nil {
		return nil, []error{failure.Remote.Wrap(err)}
	}
	list := make([]entry, 0, len(found))
	var errs []error
	for _, e := range found {
		fi, err := e.Info()
		if name := e.Name(); err == nil && (!store.ValidName(name) || name == "." || strings.Contains(name, "/")) {
			err = fmt.Errorf("list %s: the server lists %.200q, which is no name of an entry", console.Visible(dir), name)
		}
		if err != nil {
			errs = append(errs, failure.Remote.Wrap(err))
			continue
		}
		list = append(list, entry{FileInfo: fi, path: below(dir, e.Name()), shown: e.Name(), modeless: !c.HasModes()})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.shown, b.shown) })
	return list, errs
}

// maxQuestions is how many questions a server gets at a time, where each answer is one of
// many.
const maxQuestions = 64

// ask calls f, which asks a server something, with each entry that it is about.
func ask(list []entry, about func(entry) bool, f func(i int, e entry)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxQuestions)
	for i, e := range list {
		if !about(e) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i, e)
		})
	}
	wg.Wait()
}

// isLink reports whether an entry is a symbolic link.
func isLink(e entry) bool { return e.Mode().Type() == fs.ModeSymlink }
