package fileops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// A RemoveConfig says what haul rm removes and prints.
type RemoveConfig struct {
	Recursive bool // remove directories with everything in them
	Force     bool // ignore files that do not exist
	DryRun    bool // print names, and remove nothing
	Verbose   bool // print the names of removed files

	// Events, if set, receives events for all removals. Nothing is printed then.
	Events *events.Log
}

// A removal is one execution of haul rm.
type removal struct {
	RemoveConfig
	out  io.Writer
	name func(string) string // formats names for output
	errs []error
	walk      // lists the directories that the method sayAll prints
	mute bool // writing the output failed, so nothing more is printed
}

// Remove removes the files at locations.
func Remove(ctx context.Context, s *remote.Servers, at []remote.Location, cfg RemoveConfig, out io.Writer) error {
	for _, l := range at {
		if err := checkPrecious("rm", l); err != nil {
			return err
		}
	}
	m := &removal{RemoveConfig: cfg, out: out, name: console.NameFormat(out)}
	for _, l := range at {
		m.note(m.remove(ctx, s, l))
	}
	return errors.Join(m.errs...)
}

// note records an error, unless it reports a missing file and Force is set.
func (m *removal) note(err error) {
	if err != nil && (!m.Force || !errors.Is(err, fs.ErrNotExist)) {
		m.errs = append(m.errs, err)
	}
}

// gone reports that a file or a directory was removed or, in a dry run, would be removed. It prints
// the name, unless an earlier name could not be printed.
func (m *removal) gone(name string, t fs.FileMode) {
	switch {
	case m.Events != nil:
		m.Events.Emit(&events.Removed{Entry: events.NewEntry(name, "", t), DryRun: m.DryRun})
		return
	case m.mute || !m.DryRun && !m.Verbose:
		return
	case t.IsDir():
		name += "/"
	}
	if _, err := fmt.Fprintln(m.out, m.name(name)); err != nil {
		m.errs, m.mute = append(m.errs, failure.Local.Errorf("write the names: %w", err)), true
		m.ended = m.DryRun // stop a dry run, which has no effect other than printing
	}
}

// remove removes the files at one location.
func (m *removal) remove(ctx context.Context, s *remote.Servers, l remote.Location) error {
	c, err := s.Connect(ctx, l, remote.Intent{})
	if err != nil {
		return err
	}
	dirs := c.Capabilities().RemoveAll != nil
	switch {
	case !dirs && m.Recursive:
		return failure.Usage.Errorf("rm %v: %v can remove single files only, without -r", l, l.Protocol)
	case !dirs && l.IsDirName():
		return failure.Usage.Errorf("rm %v: is a directory, and %v can remove files only", l, l.Protocol)
	}
	found, err := remote.Find(ctx, c, l)
	if err != nil {
		return err
	}
	gone := map[string]bool{} // directories that have been removed, with everything in them
	for _, f := range found {
		f.Name = strings.TrimRight(f.Name, "/")
		if gone[path.Dir(f.Name)] {
			gone[f.Name] = true
			continue
		}
		name := console.Visible(f.Name)
		kind := fs.FileMode(0)
		// Look up the type of the file only if it matters. In all other cases the server's Remove
		// refuses a directory by itself.
		if dirs || m.DryRun || f.Info != nil {
			fi, e := remote.Describe(ctx, c, f, false)
			if err, kind = asTyped(l, f, e), fs.ModeIrregular; e == nil {
				kind = fi.Mode().Type()
			}
		}
		isDir := kind.IsDir()
		switch {
		case err != nil:
		case !isDir && strings.HasSuffix(l.Path, "/"):
			err = fmt.Errorf("%s/ is not a directory; without the slash %s itself is removed", name, name)
		case isDir && !dirs:
			err = fmt.Errorf("rm %s: is a directory, and %v can remove files only", name, l.Protocol)
		case isDir && !m.Recursive:
			err = fmt.Errorf("%s is a directory; -r removes it with all that is in it", name)
		case isDir:
			if err = m.removeDir(ctx, c, f.Name); err == nil {
				gone[f.Name] = true
			}
		default:
			err = m.removeFile(ctx, c, f.Name, kind)
		}
		m.note(m.failed(f.Name, kind, failure.Remote.Wrap(err)))
	}
	return nil
}

// failed writes an event for a file that was not removed, and returns the error.
func (m *removal) failed(name string, t fs.FileMode, err error) error {
	if m.Force && errors.Is(err, fs.ErrNotExist) {
		return err // the method note drops this error
	}
	return m.Events.Failed(events.NewEntry(name, "", t), err)
}

// removeFile removes a file. In a dry run it prints the name.
func (m *removal) removeFile(ctx context.Context, c remote.Server, name string, t fs.FileMode) error {
	if !m.DryRun {
		if err := c.Remove(ctx, name); err != nil {
			return err
		}
	}
	m.gone(name, t)
	return nil
}

// removeDir removes a directory with everything in it. In a dry run it prints the names.
func (m *removal) removeDir(ctx context.Context, c remote.Server, name string) error {
	if m.DryRun {
		return m.sayAll(ctx, c, name, 0)
	}
	if err := c.Capabilities().RemoveAll(ctx, name); err != nil {
		return err
	}
	m.gone(name, fs.ModeDir)
	return nil
}

// sayAll prints the names of a directory and everything in it, sorted. The name of a directory ends
// in a slash. It returns the first error. It does not store the names, and stops after maxListDirs
// directories, because a server can invent any number of directories.
func (m *removal) sayAll(ctx context.Context, c remote.Server, dir string, depth int) error {
	list, errs := m.list(ctx, c, dir, depth, false)
	var first error
	if len(errs) > 0 {
		first = errs[0]
	}
	if list == nil {
		return first
	}
	m.gone(dir, fs.ModeDir)
	slash := func(e entry) string {
		if e.IsDir() {
			return e.shown + "/"
		}
		return e.shown
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(slash(a), slash(b)) })
	for _, e := range list {
		if m.over(c) {
			break
		}
		if !e.IsDir() {
			m.gone(e.path, e.Mode().Type())
		} else if err := m.sayAll(ctx, c, e.path, depth+1); first == nil {
			first = err
		}
	}
	return first
}
