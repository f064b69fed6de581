package fileops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// These constants bound listings, because a server can invent any number of directories: the depth
// of directories, the number of directories that a command lists, and the number of errors that it
// prints.
const (
	maxListDepth  = 1000
	maxListDirs   = treecopy.DefaultMaxDirs
	maxListErrors = 1000
)

// problems collects the errors of one command. They are printed when the command is done.
type problems struct {
	errs []error
	more int // number of errors beyond maxListErrors, which are not in errs
}

// failed records errors. It ignores nil.
func (p *problems) failed(errs ...error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case len(p.errs) < maxListErrors:
			p.errs = append(p.errs, err)
		case !errors.Is(err, failure.Said):
			p.more++
		}
	}
}

// err returns all recorded errors joined, or nil.
func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.errs, failure.Remote.Errorf("%d more errors are not shown", p.more))...)
	}
	return errors.Join(p.errs...)
}

// A dirLister lists the directories of a server or of this machine.
type dirLister interface {
	List(ctx context.Context, dir string, details bool) ([]fs.DirEntry, error)
	Capabilities() store.Capabilities
}

// A walk lists the directories that one command visits, up to maxListDepth and maxListDirs.
type walk struct {
	// flush writes the output of the command, so that the walk ends if writing fails. It is nil for
	// a command that continues although its output cannot be written.
	flush func() error

	dirs  int       // number of directories listed so far
	ended bool      // the walk must not list any more directories
	lost  dirLister // the server to which the connection was lost; nil if no connection was lost
}

// over reports whether the walk of c has ended early, so that no more of its directories should be
// listed. The reason has been reported already.
func (w *walk) over(c dirLister) bool { return w.ended || w.lost != nil && c == w.lost }

// write writes the output so far. The first error ends the walk; later calls do nothing.
func (w *walk) write() error {
	if w.flush == nil {
		return nil
	}
	if err := w.flush(); err != nil {
		w.flush, w.ended = nil, true
		return failure.Local.Errorf("write the list: %w", err)
	}
	return nil
}

// list returns the entries of a directory, sorted by name, and the errors of single entries. The
// list is nil if the directory cannot be listed. An entry with an invalid name is reported as an
// error, because a hostile server may send any name.
func (w *walk) list(ctx context.Context, c dirLister, dir string, depth int, details bool) ([]entry, []error) {
	if w.over(c) {
		return nil, nil
	}
	if err := w.write(); err != nil {
		return nil, []error{err}
	}
	side, shown := sideOf(c), console.Visible(dir)
	switch w.dirs++; {
	case ctx.Err() != nil:
		w.ended = true
		return nil, []error{context.Cause(ctx)}
	case depth > maxListDepth:
		return nil, []error{side.Errorf("list %s: deeper than %d directories", shown, maxListDepth)}
	case w.dirs > maxListDirs:
		w.ended = true
		return nil, []error{side.Errorf("list %s: it is directory %d, and no more are listed; list the directories above it one by one", shown, w.dirs)}
	}
	found, err := c.List(ctx, dir, details)
	if err != nil {
		w.lose(c, err)
		w.ended = ctx.Err() != nil
		return nil, []error{side.Wrap(err)}
	}
	list := make([]entry, 0, len(found))
	var errs []error
	modeless := c.Capabilities().NoModes
	for _, e := range found {
		fi, err := e.Info()
		if name := e.Name(); err == nil && (!store.ValidName(name) || name == "." || strings.Contains(name, "/")) {
			err = fmt.Errorf("list %s: the listing has %.200q, which is no name of an entry", shown, name)
		}
		if err != nil {
			errs = append(errs, side.Wrap(err))
			continue
		}
		list = append(list, entry{FileInfo: fi, path: below(dir, e.Name()), shown: e.Name(), modeless: modeless})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.shown, b.shown) })
	return list, errs
}

// lose records that the connection to the server c is lost, if err says so.
func (w *walk) lose(c dirLister, err error) {
	if remote.IsLost(err) {
		w.lost = c
	}
}

// maxQuestions is how many requests run at the same time if each entry of a listing needs a request
// of its own.
const maxQuestions = 64

// ask calls f for each entry for which the function `about` returns true. Up to maxQuestions calls
// run at the same time, because f makes a request to the server.
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

// isSpecial reports whether an entry is a symbolic link, a device, a pipe or a socket. An entry of
// unknown type counts as a file.
func isSpecial(e entry) bool { return e.Mode().Type()&^(fs.ModeDir|fs.ModeIrregular) != 0 }
