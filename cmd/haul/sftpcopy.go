package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A copyRun is one haul get or haul put over SFTP or HTTP.
type copyRun struct {
	*copyFlags
	files   int // at once; 0 leaves that to the copy
	quiet   bool
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	servers *remote.Servers
	over    remote.Protocol
	get     bool // or put

	roots   map[string]*os.Root // local directories, by path
	sources []typedSource
	// targetAt returns a name in the tree of the target as it could be typed.
	targetAt func(name string) string
	refused  []error                          // of sources that are not copied at all
	progress atomic.Pointer[console.Progress] // what is shown
	saidWhy  sync.Map                         // reasons why --continue cannot resume
	empty    atomic.Int64                     // directories that a web server does not get
}

func (f *copyFlags) newRun(cmd *cobra.Command, p remote.Protocol, parallel int, quiet, get bool) (*copyRun, error) {
	if err := onlyFlagsOf(p, cmd); err != nil {
		return nil, err
	}
	if err := f.ssh.check(); err != nil {
		return nil, err
	}
	if parallel > treecopy.MaxParallel {
		return nil, failure.Usage.Errorf("--parallel %d: over %v it is at most %d", parallel, p, treecopy.MaxParallel)
	}
	r := &copyRun{
		copyFlags: f, quiet: quiet, get: get, over: p,
		stdin: cmd.InOrStdin(), stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(),
		roots: map[string]*os.Root{},
	}
	c := remoteConfig(&f.ssh, &f.web, r.stderr)
	c.Conns, c.Say, c.Quiet = parallel, r.say, quiet
	r.servers = remote.New(c)
	if cmd.Flags().Changed("parallel") {
		r.files = parallel
	}
	return r, nil
}

// say prints a message, above the bars if there are any.
func (r *copyRun) say(text string) {
	if p := r.progress.Load(); p != nil {
		p.Printf("haul: %s\n", text)
		return
	}
	fmt.Fprintln(r.stderr, "haul:", text)
}

// console.NewProgress shows a transfer of one stream.
func (r *copyRun) newProgress(bars bool) *console.Progress {
	p := console.NewProgress(r.stderr, r.quiet, bars)
	r.progress.Store(p)
	return p
}

// close ends the connections and closes the directories.
func (r *copyRun) close() {
	r.servers.Close()
	for _, root := range r.roots {
		_ = root.Close()
	}
}

// getCopy fetches what is at the locations.
func (f *copyFlags) getCopy(cmd *cobra.Command, from []remote.Location, local string, parallel int, quiet bool) error {
	r, err := f.newRun(cmd, from[0].Protocol, parallel, quiet, true)
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
			first = l.PlainName()
		}
		source, err := r.remoteSource(ctx, l, first)
		if err != nil {
			return err
		}
		r.typed(l.Text, l.IsURL(), source)
		r.sources[len(r.sources)-1].at = l.At
		j.Sources = append(j.Sources, source)
	}
	return r.copy(ctx, j)
}

// remoteSource returns a location as a source. first is the file that is going to
// be read there first, if that is known.
func (r *copyRun) remoteSource(ctx context.Context, l remote.Location, first string) (treecopy.Source, error) {
	if l.Protocol == remote.HTTP && l.Path == "" && !r.recursive {
		return treecopy.Source{}, failure.Usage.Errorf("get %v: the URL names no file; -r fetches all that the server lists", l)
	}
	c, err := r.servers.Connect(ctx, l, first)
	if err != nil {
		return treecopy.Source{}, err
	}
	p, err := c.Source(ctx, l)
	if err != nil {
		return treecopy.Source{}, err
	}
	return treecopy.Source{Tree: p.Tree, Name: p.Name, Origin: l.Origin()}, nil
}

// putCopy sends local files to a location.
func (f *copyFlags) putCopy(cmd *cobra.Command, files []string, to remote.Location, parallel int, quiet bool) error {
	r, err := f.newRun(cmd, to.Protocol, parallel, quiet, false)
	if err != nil {
		return err
	}
	defer r.close()
	if to.Protocol == remote.HTTP {
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
		s, err := r.localSources(ctx, file)
		if err != nil {
			return err
		}
		j.Sources = append(j.Sources, s...)
	}
	if len(j.Sources) == 0 {
		return r.explain(ctx, nil)
	}
	r.targetAt = to.At
	c, err := r.servers.Connect(ctx, to, "")
	if err != nil {
		return err
	}
	p, err := c.Target(ctx, to, len(j.Sources)+len(r.refused) > 1)
	if err != nil {
		return err
	}
	j.To, j.Target = p.Tree, p.Name
	return r.copy(ctx, j)
}

// copy runs a job, shows how it goes, and sums it up.
func (r *copyRun) copy(ctx context.Context, j treecopy.Job) error {
	j.Options = r.options(r.files)
	if r.servers.Len() > 1 {
		j.Options.Fatal = nil // another server may go on
	}
	if r.get && r.over == remote.HTTP {
		j.Options.Replaced = replacedOnWeb
	}
	p := newCopyProgress(r.stderr, r.quiet || r.dryRun)
	r.progress.Store(p.Progress)
	j.Hooks = p.hooks()
	var plan dryRunPlan
	switch {
	case r.dryRun:
		j.Hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) { plan.add(i, o, r.typedName(i), r.targetAt(i.To)) }
	case r.verbose && !r.quiet:
		show := j.Hooks.Ended
		j.Hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) {
			show(i, o)
			p.verbose(o, r.typedName(i), r.targetAt(i.To))
		}
	}
	told := j.Hooks.Ended
	j.Hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) {
		if errors.Is(o.Err, treecopy.ErrEmpty) {
			r.empty.Add(1)
		}
		told(i, o)
	}
	j.Hooks.FromStart = r.fromStart
	began := time.Now()
	result, err := treecopy.Copy(ctx, j)
	p.end()
	result.Failed += int64(len(r.refused))
	if !r.quiet {
		if r.dryRun {
			result.Bytes = plan.bytes
		}
		if !remote.IsNoAnswer(err) || result.Copied+result.Same+result.Bytes > 0 {
			fmt.Fprintln(r.stderr, r.summary(result, time.Since(began)))
		}
	}
	return r.explain(ctx, errors.Join(err, plan.print(r.stdout)))
}

// fromStart says, once for each reason, that --continue cannot resume a file.
func (r *copyRun) fromStart(i *treecopy.Item, why error) {
	if _, said := r.saidWhy.LoadOrStore(why.Error(), true); !said && !r.quiet {
		r.say(fmt.Sprintf("note: %s is copied from its start: %v", console.Visible(r.typedName(i)), console.Visible(why.Error())))
	}
}

// summary says in a line what became of everything.
func (r *copyRun) summary(s treecopy.Result, took time.Duration) string {
	var parts []string
	if r.dryRun {
		parts = append(parts, fmt.Sprintf("would copy %s, %s", console.Plural(s.Copied, "file"), console.FormatBytes(s.Bytes)))
	} else {
		parts = append(parts, fmt.Sprintf("%s, %s in %v, %s/s", console.Plural(s.Copied, "file"), console.FormatBytes(s.Bytes),
			console.FormatDuration(took), console.FormatBytes(console.PerSecond(s.Bytes, took))))
	}
	if s.Resumed > 0 {
		parts = append(parts, console.FormatBytes(s.Resumed)+" were there before")
	}
	for _, other := range []struct {
		n    int64
		what string
	}{{s.Same, "unchanged"}, {s.Skipped - r.empty.Load(), "skipped (symlinks, special files)"},
		{r.empty.Load(), "left out (directories without files, which HTTP cannot make)"}, {s.Kept, "kept their permissions and times (directories that may not be changed)"},
		{s.Failed, "failed"}, {s.Left, "unfinished"}} {
		if other.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", other.n, other.what))
		}
	}
	return strings.Join(parts, "; ")
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
	case r.resume && !r.get && r.recursive && r.over == remote.HTTP && (ctx.Err() != nil || remote.IsNoAnswer(err)):
		errs = append(errs, noteError("what has come is kept, and the same command resumes there; but if TARGET was made by it, name the source as LOCAL/., or it would go below that"))
	case r.resume && (ctx.Err() != nil || remote.IsNoAnswer(err)):
		errs = append(errs, noteError("what has come is kept; the same command resumes there"))
	case ctx.Err() != nil && r.inPlace:
		errs = append(errs, noteError("files that were being written are not whole; a run with --continue resumes there"))
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
		return fmt.Errorf("%w (use -r)", err)
	case errors.Is(err, store.ErrBusy):
		return fmt.Errorf("%w; wait for it, or leave out --continue", err)
	}
	return err
}
