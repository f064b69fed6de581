package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/glob"
	"github.com/haul-project/haul/web/webclient"
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
			return true, usagef("%s %v and %v: all locations of one command have to be of the same protocol", cmd.Name(), list[0], l)
		}
	}
	if err := onlyFlagsOf(ofHTTP, cmd); err != nil {
		return true, err
	}
	a := newAsker()
	defer a.end()
	w := f.webs(func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "haul:", text) }, a)
	defer w.close()
	return true, run(cmd.Context(), w, list)
}

// names returns the entries that a location stands for: the one of its name, or
// those that it matches as a pattern.
func (w *webs) names(ctx context.Context, l location) (*webclient.Client, []listed, error) {
	c, err := w.connect(l, "")
	if err != nil {
		return nil, nil, err
	}
	name := l.webName()
	if !glob.HasMeta(name) {
		fi, err := c.Stat(ctx, name)
		if err == nil && l.isDirName() && !fi.IsDir() {
			err = fmt.Errorf("%v: is not a directory", l)
		}
		if err != nil {
			return nil, nil, asRemote(err)
		}
		return c, []listed{webListed(fi, name, name)}, nil
	}
	if l.isDirName() {
		name += "/"
	}
	found, err := expand(ctx, c, name, l)
	if err != nil {
		return nil, nil, err
	}
	list := make([]listed, len(found))
	for i, m := range found {
		list[i] = webListed(m.Info, m.Name, m.Name)
	}
	return c, list, nil
}

// webListed returns an entry of a server that tells no modes.
func webListed(fi fs.FileInfo, name, shown string) listed {
	return listed{FileInfo: fi, path: name, shown: shown, modeless: true}
}

// entries lists a directory. With details the server is asked for the sizes and
// times that its listing lacks.
func (w *webs) entries(ctx context.Context, c *webclient.Client, dir string, details bool) ([]listed, error) {
	var list []listed
	add := func(fi fs.FileInfo) { list = append(list, webListed(fi, below(dir, fi.Name()), fi.Name())) }
	if !details {
		entries, err := c.ReadDir(ctx, dir)
		for _, e := range entries {
			fi, _ := e.Info() // of a listing, which is here
			add(fi)
		}
		return list, asRemote(err)
	}
	entries, err := c.OpenDir(ctx, dir)
	if err != nil {
		return nil, asRemote(err)
	}
	defer entries.Close()
	batch := make([]fs.FileInfo, listBatch)
	for {
		n, err := entries.Next(batch)
		for _, fi := range batch[:n] {
			add(fi)
		}
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, asRemote(err)
		}
	}
}

// listBatch is how many entries of a directory are taken at once.
const listBatch = 256

// runWeb lists locations on web servers: the files among them first, as ls does.
func (l *lister) runWeb(ctx context.Context, w *webs, locations []location) {
	type place struct {
		c    *webclient.Client
		path string
	}
	var files []listed
	var dirs []place
	for _, loc := range locations {
		c, list, err := w.names(ctx, loc)
		if err != nil {
			l.failed(err)
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
func (l *lister) webDirectory(ctx context.Context, w *webs, c *webclient.Client, dir string, depth int) {
	all, err := w.entries(ctx, c, dir, l.detailed())
	if err != nil {
		l.failed(err)
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
	l.listBelow(ctx, dir, depth, list, func(dir string) {
		if store.ValidName(dir) {
			l.webDirectory(ctx, w, c, dir, depth+1)
		}
	})
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
