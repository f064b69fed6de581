package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A copyRun is one haul get or haul put over SFTP or HTTP.
type copyRun struct {
	*copyFlags
	parallel int
	quiet    bool
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	remotes  *remotes
	webs     *webs
	get      bool // or put

	roots   map[string]*os.Root // local directories, by path
	sources []typedSource
	refused []error      // of sources that are not copied at all
	empty   atomic.Int64 // directories that a web server does not get
}

func (f *copyFlags) newRun(cmd *cobra.Command, p protocol, parallel int, quiet, get bool) (*copyRun, error) {
	if err := onlyFlagsOf(p, cmd); err != nil {
		return nil, err
	}
	if err := f.ssh.check(); err != nil {
		return nil, err
	}
	if parallel > treecopy.MaxParallel {
		return nil, usagef("--parallel %d: over %v it is at most %d", parallel, p, treecopy.MaxParallel)
	}
	r := &copyRun{
		copyFlags: f, parallel: parallel, quiet: quiet, get: get,
		stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(),
		roots: map[string]*os.Root{},
	}
	r.remotes = f.ssh.remotes(r.stderr, func(text string) {
		if !quiet {
			fmt.Fprintln(r.stderr, "haul:", visibleLines(text))
		}
	})
	r.webs = f.web.webs(r.stderr, r.remotes.asker)
	r.webs.quiet = quiet
	return r, nil
}

// close ends the connections and closes the directories.
func (r *copyRun) close() {
	r.webs.close()
	r.remotes.close()
	for _, root := range r.roots {
		_ = root.Close()
	}
}

// getCopy fetches what is at the locations.
func (f *copyFlags) getCopy(cmd *cobra.Command, from []location, local string, parallel int, quiet bool) error {
	r, err := f.newRun(cmd, from[0].protocol, parallel, quiet, true)
	if err != nil {
		return err
	}
	defer r.close()
	ctx := cmd.Context()
	if local == "-" || isPipe(local) {
		return r.getStream(ctx, from, local)
	}
	var j treecopy.Job
	if j.To, j.Target, err = r.localTarget(local, len(from) > 1); err != nil {
		return err
	}
	for _, l := range from {
		first := ""
		if len(from) == 1 && !r.recursive {
			first = l.plain()
		}
		source, err := r.remoteSource(ctx, l, first)
		if err != nil {
			return err
		}
		_, _, isURL := cutScheme(l.text)
		r.typed(l.text, isURL, source)
		j.Sources = append(j.Sources, source)
	}
	return r.copy(ctx, j)
}

// remoteSource returns a location as a source. first is the file that is going to
// be read there first, if that is known.
func (r *copyRun) remoteSource(ctx context.Context, l location, first string) (treecopy.Source, error) {
	if l.protocol == ofHTTP {
		return r.webSource(l, first)
	}
	c, err := r.remotes.connect(ctx, l, first)
	if err != nil {
		return treecopy.Source{}, err
	}
	tree, name, err := c.tree(ctx, l)
	return treecopy.Source{Tree: tree, Name: name, Origin: fmt.Sprintf("%q", l.server)}, err
}

// putCopy sends local files to a location.
func (f *copyFlags) putCopy(cmd *cobra.Command, files []string, to location, parallel int, quiet bool) error {
	r, err := f.newRun(cmd, to.protocol, parallel, quiet, false)
	if err != nil {
		return err
	}
	defer r.close()
	if to.protocol == ofHTTP {
		if err := r.onlyHTTP(); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	if len(files) == 1 && files[0] == "-" {
		return r.putStream(ctx, to)
	}
	var j treecopy.Job
	for _, file := range files {
		s, err := r.localSources(file)
		if err != nil {
			return err
		}
		j.Sources = append(j.Sources, s...)
	}
	if len(j.Sources) == 0 {
		return r.explain(ctx, nil)
	}
	several := len(j.Sources)+len(r.refused) > 1
	if to.protocol == ofHTTP {
		if j.To, j.Target, err = r.webTarget(to, several); err != nil {
			return err
		}
		return r.copy(ctx, j)
	}
	c, err := r.remotes.connect(ctx, to, "")
	if err != nil {
		return err
	}
	if j.To, j.Target, err = c.tree(ctx, to); err != nil {
		return err
	}
	if several && !strings.HasSuffix(j.Target, "/") && j.Target != "" {
		j.Target += "/" // it is a directory, or becomes one
	}
	return r.copy(ctx, j)
}

// tree returns the location's place in a tree on the server.
func (c *remote) tree(ctx context.Context, l location) (store.Tree, string, error) {
	name, err := c.path(ctx, l)
	if err != nil {
		return nil, "", err
	}
	if first, _, _ := strings.Cut(path.Clean(name), "/"); first == ".." {
		// A tree has nothing above it, so it has to be the whole one.
		home, err := c.HomeDir(ctx, "")
		if err != nil {
			return nil, "", asRemote(err)
		}
		name = strings.TrimRight(home, "/") + "/" + name
	}
	if strings.HasPrefix(name, "/") {
		return c.Store("/"), inRoot(name), nil
	}
	return c.Store(""), name, nil
}

// inRoot returns what an absolute name is called in the tree of everything: there
// is nothing above that. An end of / or /. is kept, for it has a meaning.
func inRoot(name string) string {
	end := ""
	for _, e := range []string{"/.", "/"} {
		if strings.HasSuffix(name, e) {
			end = e
			break
		}
	}
	if clean := strings.TrimPrefix(path.Clean(name), "/"); clean != "" {
		return clean + end
	}
	return ""
}

// root opens a local directory, once.
func (r *copyRun) root(dir string) (*os.Root, error) {
	if root := r.roots[dir]; root != nil {
		return root, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, localError{err}
	}
	r.roots[dir] = root
	return root, nil
}

// localTarget returns the tree and the name in it that files are copied to. The
// user's own links lead where they lead; below them nothing does.
func (r *copyRun) localTarget(local string, several bool) (store.Tree, string, error) {
	dir, name := local, ""
	if local == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		if s := filepath.ToSlash(dir); s == "." || strings.HasSuffix(s, "/") || strings.HasSuffix(s, "/.") {
			name = "./" // sources go below it, even if it is one's unfinished copy
		} else if r.resume && r.recursive && !r.dryRun {
			// If it is, it gets the source's mode, which takes what it is in.
			if tree, name, ok := r.inParent(dir); ok {
				return tree, name, nil
			}
		}
	case several && err == nil:
		return nil, "", usagef("several sources need a directory, and %s is none", visible(local))
	default:
		if real, err := filepath.EvalSymlinks(local); err == nil {
			local = real
		}
		dir, name = filepath.Split(strings.TrimRight(filepath.ToSlash(local), "/"))
		if dir = filepath.FromSlash(dir); dir == "" {
			dir = "."
		}
		if several || strings.HasSuffix(filepath.ToSlash(local), "/") {
			name += "/"
		}
	}
	root, err := r.root(dir)
	if err != nil {
		return nil, "", err
	}
	return store.Dir(root), name, nil
}

// inParent returns a directory as a name in the directory that it is in, if that
// can be opened.
func (r *copyRun) inParent(dir string) (store.Tree, string, bool) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	above, name := filepath.Split(real)
	if err != nil || name == "" {
		return nil, "", false
	}
	root, err := r.root(above)
	if err != nil {
		return nil, "", false
	}
	return store.Dir(root), name, true
}

// localSources returns what is to be copied of a local name: a file, what is in
// a directory, or, where no shell has done it, what matches a pattern.
func (r *copyRun) localSources(file string) ([]treecopy.Source, error) {
	if file == "-" {
		return nil, usagef("standard input goes to the server alone, without other files")
	}
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) && hasPattern(file) {
		if names, e := filepath.Glob(file); e == nil && len(names) > 0 {
			var all []treecopy.Source
			for _, n := range names {
				s, err := r.localSource(n)
				if err != nil {
					return nil, err
				}
				all = append(all, s)
			}
			return all, nil
		}
	}
	if err != nil {
		return nil, localError{err}
	}
	if info.IsDir() && !r.recursive {
		r.refused = append(r.refused, fmt.Errorf("put %s: %w", visible(file), treecopy.ErrDirectory))
		return nil, nil
	}
	s, err := r.localSource(file)
	return []treecopy.Source{s}, err
}

// localSource returns one file or directory. What a link stands for is copied
// under the link's name.
func (r *copyRun) localSource(file string) (treecopy.Source, error) {
	slashed := filepath.ToSlash(file)
	contents := slashed == "." || strings.HasSuffix(slashed, "/.")
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return treecopy.Source{}, localError{err}
	}
	info, err := os.Stat(real)
	if err != nil {
		return treecopy.Source{}, localError{err}
	}
	as := path.Base(path.Clean(slashed))
	if as == ".." || as == "." || as == "/" {
		abs, err := filepath.Abs(file)
		if err != nil {
			return treecopy.Source{}, localError{err}
		}
		as = filepath.Base(abs)
	}
	dir, name := filepath.Split(real)
	if info.IsDir() {
		dir, name = real, "."
	}
	if contents || as == string(filepath.Separator) {
		as = ""
	}
	if dir == "" {
		dir = "."
	}
	root, err := r.root(dir)
	if err != nil {
		return treecopy.Source{}, err
	}
	origin, err := filepath.Abs(dir)
	if err != nil {
		return treecopy.Source{}, localError{err}
	}
	s := treecopy.Source{Tree: store.Dir(root), Name: name, As: as, Origin: origin}
	r.typed(file, false, s)
	return s, nil
}

// copy runs a job, shows how it goes, and sums it up.
func (r *copyRun) copy(ctx context.Context, j treecopy.Job) error {
	j.Options = r.options(r.parallel)
	if len(r.remotes.open)+len(r.webs.open) > 1 {
		j.Options.Fatal = nil // another server may go on
	}
	if r.get && len(r.webs.open) > 0 {
		j.Options.Replaced = replacedOnWeb
	}
	p := newCopyProgress(r.stderr, r.quiet || r.dryRun)
	j.Hooks = p.hooks()
	var plan sync.Mutex
	var planned int64 // bytes
	if r.dryRun {
		name := shown(r.stdout)
		j.Hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) {
			if o.What == treecopy.Present || o.What == treecopy.Failed {
				return
			}
			plan.Lock()
			defer plan.Unlock()
			if o.What == treecopy.Copied {
				planned += i.Size
			}
			fmt.Fprintf(r.stdout, "%v\t%d\t%s\t%s\n", o.What.Would(), i.Size, name(i.From), name(i.To))
		}
	}
	told := j.Hooks.Ended
	j.Hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) {
		if errors.Is(o.Err, treecopy.ErrEmpty) {
			r.empty.Add(1)
		}
		told(i, o)
	}
	began := time.Now()
	result, err := treecopy.Copy(ctx, j)
	p.end()
	result.Failed += int64(len(r.refused))
	if !r.quiet {
		if r.dryRun {
			result.Bytes = planned
		}
		fmt.Fprintln(r.stderr, r.summary(result, time.Since(began)))
	}
	return r.explain(ctx, err)
}

// summary says in a line what became of everything.
func (r *copyRun) summary(s treecopy.Result, took time.Duration) string {
	var parts []string
	if r.dryRun {
		parts = append(parts, fmt.Sprintf("would copy %s, %s", plural(s.Copied, "file"), formatBytes(s.Bytes)))
	} else {
		parts = append(parts, fmt.Sprintf("%s, %s in %v, %s/s", plural(s.Copied, "file"), formatBytes(s.Bytes),
			formatDuration(took), formatBytes(perSecond(s.Bytes, took))))
	}
	if s.Resumed > 0 {
		parts = append(parts, formatBytes(s.Resumed)+" were there before")
	}
	for _, other := range []struct {
		n    int64
		what string
	}{{s.Same, "unchanged"}, {s.Skipped - r.empty.Load(), "skipped, which are links or no files"},
		{r.empty.Load(), "left out, which are directories without files: over HTTP there are none"}, {s.Failed, "failed"}, {s.Left, "not tried, or not to the end"}} {
		if other.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", other.n, other.what))
		}
	}
	return strings.Join(parts, "; ")
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// A copyError is why a copy over SFTP or HTTP is not complete.
type copyError struct {
	get bool
	error
}

func (e copyError) Unwrap() error { return e.error }

// explain adds to the error of a copy what can be done about it.
func (r *copyRun) explain(ctx context.Context, err error) error {
	var errs []error
	for _, e := range r.refused {
		errs = append(errs, copyError{r.get, adviseCopy(e)})
	}
	if err == nil {
		return errors.Join(errs...)
	}
	if incomplete, ok := errors.AsType[*treecopy.IncompleteError](err); ok {
		for _, e := range incomplete.Errors {
			errs = append(errs, copyError{r.get, adviseCopy(r.nameSource(e))})
		}
		if more := incomplete.Failed - int64(len(incomplete.Errors)); more > 0 {
			errs = append(errs, copyError{r.get, fmt.Errorf("and %d more failed", more)})
		}
	} else {
		errs = append(errs, copyError{r.get, adviseCopy(r.nameSource(err))})
	}
	switch {
	case r.dryRun:
	case r.resume && !r.get && r.recursive && len(r.webs.open) > 0 && (ctx.Err() != nil || isNoAnswer(err)):
		errs = append(errs, noteError("what has come is kept, and the same command goes on from there; but if TARGET was made by it, name the source as LOCAL/., or it would go below that"))
	case r.resume && (ctx.Err() != nil || isNoAnswer(err)):
		errs = append(errs, noteError("what has come is kept; the same command goes on from there"))
	case ctx.Err() != nil && r.inPlace:
		errs = append(errs, noteError("files that were being written are not whole; with --continue another run would go on there"))
	case ctx.Err() != nil:
		errs = append(errs, noteError("files that were not whole are gone; with --continue they would have been kept"))
	}
	return errors.Join(errs...)
}

// A noteError is a line behind errors that says what to do.
type noteError string

func (n noteError) Error() string { return string(n) }

// adviseCopy adds what can be done about the error of one file.
func adviseCopy(err error) error {
	switch {
	case errors.Is(err, treecopy.ErrDirectory):
		return fmt.Errorf("%w; -r copies it with all that is in it", err)
	case errors.Is(err, store.ErrBusy):
		return fmt.Errorf("%w; wait for it, or leave out --continue", err)
	}
	return err
}
