package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// onWeb runs a command on locations of web servers. It reports false, and has done
// nothing, if the first of them is of another kind.
func onWeb(cmd *cobra.Command, f *webFlags, words []string, run func(context.Context, *webs, []location) error) (bool, error) {
	list, err := parseLocations(words)
	if err != nil || list[0].protocol != ofHTTP {
		return false, nil // what is wrong is said where the others are run
	}
	for _, l := range list {
		if l.protocol != ofHTTP {
			return true, usagef("%s %v and %v: one haul %s speaks one protocol", cmd.Name(), list[0], l, cmd.Name())
		}
	}
	if err := onlyFlagsOf(ofHTTP, cmd); err != nil {
		return true, err
	}
	a := newAsker()
	defer a.end()
	w := f.webs(cmd.ErrOrStderr(), a)
	defer w.close()
	return true, run(cmd.Context(), w, list)
}

// names returns the names that a location stands for: its own, or those that its
// last element matches, if nothing has that name.
func (w *webs) names(ctx context.Context, l location) (*web.Client, []listed, error) {
	c, err := w.connect(l, "")
	if err != nil {
		return nil, nil, err
	}
	name := l.webName()
	fi, err := c.Stat(ctx, name)
	if err == nil || !hasPattern(name) || !errors.Is(err, fs.ErrNotExist) {
		if err == nil && l.isDirName() && !fi.IsDir() {
			err = fmt.Errorf("%v: that is no directory", l)
		}
		if err != nil {
			return nil, nil, asRemote(err)
		}
		return c, []listed{webListed(fi, name, name)}, nil
	}
	dir, last := ".", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, last = name[:i], name[i+1:]
	}
	if hasPattern(dir) {
		return nil, nil, usagef("%v: over HTTP a pattern stands for the last part of a name only", l)
	}
	all, err := w.entries(ctx, c, dir)
	if err != nil {
		return nil, nil, err
	}
	var found []listed
	for _, e := range all {
		if matchesName(last, e.Name()) {
			e.shown = e.path
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return nil, nil, remoteError{fmt.Errorf("%v: no name matches: %w", l, fs.ErrNotExist)}
	}
	return c, found, nil
}

// webListed returns an entry of a server that tells no modes.
func webListed(fi fs.FileInfo, name, shown string) listed {
	return listed{FileInfo: fi, path: name, shown: shown, modeless: true}
}

// entries lists a directory.
func (w *webs) entries(ctx context.Context, c store.Lister, dir string) ([]listed, error) {
	entries, err := c.ReadDir(ctx, dir)
	if err != nil {
		return nil, asRemote(err)
	}
	list := make([]listed, 0, len(entries))
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return nil, asRemote(err)
		}
		list = append(list, webListed(fi, below(dir, e.Name()), e.Name()))
	}
	return list, nil
}

// runWeb lists locations on web servers: the files among them first, as ls does.
func (l *lister) runWeb(ctx context.Context, w *webs, locations []location) {
	type place struct {
		c    *web.Client
		path string
	}
	var files []listed
	var dirs []place
	for _, loc := range locations {
		c, list, err := w.names(ctx, loc)
		if err != nil {
			l.errs = append(l.errs, err)
			continue
		}
		for _, e := range list {
			if e.IsDir() {
				dirs = append(dirs, place{c, e.path})
			} else {
				files = append(files, e)
			}
		}
	}
	l.titles = l.recursive || len(files)+len(dirs) > 1 || len(locations) > 1
	if len(files) > 0 {
		l.print(ctx, nil, files)
		l.begun = true
	}
	for _, d := range dirs {
		l.webDirectory(ctx, w, d.c, d.path, 0)
	}
}

// webDirectory lists one.
func (l *lister) webDirectory(ctx context.Context, w *webs, c *web.Client, dir string, depth int) {
	all, err := w.entries(ctx, c, dir)
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	if l.titles && !l.asJSON {
		if l.begun {
			fmt.Fprintln(l.out)
		}
		fmt.Fprintf(l.out, "%s:\n", l.name(dir))
	}
	l.begun = true
	var list []listed
	for _, e := range all {
		if l.all || !strings.HasPrefix(e.Name(), ".") {
			list = append(list, e)
		}
	}
	l.print(ctx, nil, list)
	if !l.recursive {
		return
	}
	if depth == maxListDepth {
		l.errs = append(l.errs, remoteError{fmt.Errorf("list %s: deeper than %d directories", visible(dir), maxListDepth)})
		return
	}
	for _, e := range list {
		if e.IsDir() && fs.ValidPath(e.path) && ctx.Err() == nil {
			l.webDirectory(ctx, w, c, e.path, depth+1)
		}
	}
}

// stat describes what is at a location.
func (w *webs) stat(ctx context.Context, l location, asJSON bool, out io.Writer) error {
	_, list, err := w.names(ctx, l)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		if asJSON {
			errs = append(errs, writeJSON(out, describe(e, owners{}))...)
			continue
		}
		errs = append(errs, printStat(out, e, owners{}))
	}
	return errors.Join(errs...)
}

// remove removes the files at a location.
func (w *webs) remove(ctx context.Context, l location, recursive, force bool) error {
	if recursive {
		return usagef("rm %v: HTTP can remove single files only, without -r", l)
	}
	if l.isDirName() {
		return usagef("rm %v: that is a directory, and HTTP can remove files only", l)
	}
	names := []string{l.webName()}
	c, err := w.connect(l, "")
	if err != nil {
		return err
	}
	if hasPattern(names[0]) {
		var list []listed
		if _, list, err = w.names(ctx, l); err != nil {
			if force && errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}
		names = names[:0]
		for _, e := range list {
			names = append(names, e.path)
		}
	}
	var errs []error
	for _, name := range names {
		if err := c.Remove(ctx, name); err != nil && (!force || !errors.Is(err, fs.ErrNotExist)) {
			errs = append(errs, asRemote(err))
		}
	}
	return errors.Join(errs...)
}

// matchesName reports whether a name matches a pattern, as a shell would have it.
func matchesName(pattern, name string) bool {
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern, ".") {
		return false
	}
	ok, _ := path.Match(pattern, name)
	return ok
}
