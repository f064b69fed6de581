package copying

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// A run is one haul get or haul put over SFTP, HTTP or S3.
type run struct {
	*Config
	servers *remote.Servers
	over    remote.Protocol
	get     bool // or put

	local localFiles
	names sourceNames
	// targetAt returns a name in the tree of the target as it could be typed.
	targetAt func(name string) string
	refused  []error                          // of sources that are not copied at all
	progress atomic.Pointer[console.Progress] // what is shown
	saidWhy  sync.Map                         // reasons why --continue cannot resume
	empty    atomic.Int64                     // directories that a server without directories does not get
}

func newRun(cfg *Config, over remote.Protocol, get bool) *run {
	r := &run{Config: cfg, over: over, get: get, local: localFiles{cfg, map[string]*os.Root{}}, names: sourceNames{verb: "put"}}
	if get {
		r.names.verb = "get"
	}
	c := cfg.Remote
	c.Say, c.Quiet = r.say, cfg.Quiet
	r.servers = remote.New(c)
	return r
}

// say prints a message, above the bars if there are any.
func (r *run) say(text string) {
	if p := r.progress.Load(); p != nil {
		p.Printf("haul: %s\n", text)
		return
	}
	fmt.Fprintln(r.Stderr, "haul:", text)
}

// newProgress shows a transfer of one stream.
func (r *run) newProgress(bars bool) *console.Progress {
	p := console.NewProgress(r.Stderr, r.Quiet, bars)
	r.progress.Store(p)
	return p
}

// close ends the connections and closes the directories.
func (r *run) close() {
	r.servers.Close()
	r.local.close()
}

// options returns the options of a copy.
func (r *run) options() treecopy.Options {
	o := r.Options
	o.Umask = umask()
	o.FileTimes = o.Unchanged == treecopy.SizeAndTime // or nothing would be found unchanged
	if r.servers.Len() == 1 {                         // else the copy from another may continue
		o.Fatal = isFatal
	}
	if r.get && r.over != remote.SFTP {
		o.Replaced = isReplaced
	}
	return o
}

// isFatal reports whether an error ends a copy, as all files behind would fail too.
func isFatal(err error) bool {
	return errors.Is(err, store.ErrNoSpace) || remote.IsLost(err)
}

// isReplaced reports whether an error says that a server has another version of a file
// by now, of which what it says may be shorter.
func isReplaced(err error) bool {
	return errors.Is(err, webclient.ErrChanged) || errors.Is(err, store.ErrChanged) || errors.Is(err, treecopy.ErrChanged)
}

// umask returns the bits that new files do not get. It takes the right to execute from
// those who may not read: the umask of new files, which are never executable, does not
// cover it, and copies may have it.
func umask() fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0
	}
	mask := 0o666 &^ store.UserPerm()
	return mask | (mask&0o444)>>2
}

// copy runs a job, shows how it goes, and sums it up.
func (r *run) copy(ctx context.Context, j treecopy.Job) error {
	j.Options = r.options()
	p := newCopyProgress(r.Stderr, r.Quiet || r.DryRun)
	r.progress.Store(p.Progress)
	j.Hooks = p.hooks()
	var plan dryRunPlan
	switch {
	case r.DryRun:
		j.Hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) { plan.add(i, o, r.names.of(i), r.targetAt(i.To)) }
	case r.Verbose && !r.Quiet:
		show := j.Hooks.Ended
		j.Hooks.Ended = func(i *treecopy.Item, o treecopy.Outcome) {
			show(i, o)
			p.verbose(o, r.names.of(i), r.targetAt(i.To))
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
	if !r.Quiet {
		if r.DryRun {
			result.Bytes = plan.bytes
		}
		if !remote.IsNoAnswer(err) || result.Copied+result.Same+result.Bytes > 0 {
			fmt.Fprintln(r.Stderr, r.summary(result, time.Since(began)))
		}
	}
	return r.explain(ctx, errors.Join(err, plan.print(r.Stdout)))
}

// fromStart says, once for each reason, that --continue cannot resume a file.
func (r *run) fromStart(i *treecopy.Item, why error) {
	if _, said := r.saidWhy.LoadOrStore(why.Error(), true); !said && !r.Quiet {
		r.say(fmt.Sprintf("note: %s is copied from its start: %v", console.Visible(r.names.of(i)), console.Visible(why.Error())))
	}
}

// summary says in a line what became of everything.
func (r *run) summary(s treecopy.Result, took time.Duration) string {
	var parts []string
	if r.DryRun {
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
		{r.empty.Load(), fmt.Sprintf("left out (directories without files, which %v cannot make)", r.over)}, {s.Kept, "kept their permissions and times (directories that may not be changed)"},
		{s.Failed, "failed"}, {s.Left, "unfinished"}} {
		if other.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", other.n, other.what))
		}
	}
	return strings.Join(parts, "; ")
}

// An Error is why a copy over SFTP, HTTP or S3 is not complete.
type Error struct {
	Get bool // or put
	err error
}

// Error implements error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// explain adds to the error of a copy what can be done about it.
func (r *run) explain(ctx context.Context, err error) error {
	var errs []error
	for _, e := range r.refused {
		errs = append(errs, &Error{r.get, advise(e)})
	}
	if err == nil {
		return errors.Join(errs...)
	}
	if incomplete, ok := errors.AsType[*treecopy.IncompleteError](err); ok {
		for _, e := range incomplete.Errors {
			errs = append(errs, &Error{r.get, advise(r.names.reword(e))})
		}
		if more := incomplete.Failed - int64(len(incomplete.Errors)); more > 0 {
			errs = append(errs, &Error{r.get, fmt.Errorf("and %d more failed", more)})
		}
	} else {
		errs = append(errs, &Error{r.get, advise(r.names.reword(err))})
	}
	switch {
	case r.DryRun:
	case r.Continue && !r.get && r.Recursive && r.over != remote.SFTP && (ctx.Err() != nil || remote.IsNoAnswer(err)):
		errs = append(errs, noteError("what has come is kept, and the same command resumes there; but if TARGET was made by it, name the source as LOCAL/., or it would go below that"))
	case r.Continue && (ctx.Err() != nil || remote.IsNoAnswer(err)):
		errs = append(errs, noteError("what has come is kept; the same command resumes there"))
	case ctx.Err() != nil && r.InPlace:
		errs = append(errs, noteError("files that were being written are not whole; a run with --continue resumes there"))
	case ctx.Err() != nil:
		errs = append(errs, noteError("files that were not whole are gone; with --continue they would have been kept"))
	}
	return errors.Join(errs...)
}

// A noteError is a line behind errors that says what to do.
type noteError string

func (n noteError) Error() string { return string(n) }

// advise adds what can be done about the error of one file.
func advise(err error) error {
	switch {
	case errors.Is(err, treecopy.ErrDirectory):
		return fmt.Errorf("%w (use -r)", err)
	case errors.Is(err, store.ErrBusy):
		return fmt.Errorf("%w; wait for it, or leave out --continue", err)
	}
	return err
}
